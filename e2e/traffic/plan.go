package traffic

import (
	"fmt"
	"math/rand/v2"
	"time"

	likewisev1 "likewise/proto/likewise/v1"
)

// shape is what a client does next.
type shape uint8

const (
	shapeSet       shape = iota // one Set
	shapeDuplicate              // the same Set several times at once
	shapeRace                   // two Sets of one user from two regions at once
	shapeImpatient              // gives up on a reply, then repeats under the same key
	shapeGet                    // a strong read
	shapeCounts                 // a count read
)

// step is one decision of a plan.
type step struct {
	shape shape
	key   Key
	// was is what the client believes the reaction to be, want what it asks
	// for, rival what the other region asks for in a race.
	was, want, rival likewisev1.Reaction
	idempotencyKey   string
	copies           int           // of a duplicate
	patience         time.Duration // of an impatient first attempt
	far              int           // which other region a race uses
}

const (
	// zipfSkew makes the 10 favourites of 200 videos draw about half of what
	// does not go to the hot one, as measured popularity curves do.
	zipfSkew = 1.1
	// maxTouched bounds how many keys a client comes back to.
	maxTouched = 64
)

// plan decides what one client does. It is a pure function of its seed and of
// the beliefs that the client feeds back. It is not safe for concurrent use.
type plan struct {
	client   int
	run      string
	rng      *rand.Rand
	zipf     *rand.Zipf
	users    int
	hotShare float64
	serial   int
	touched  []Key
	beliefs  map[Key]likewisev1.Reaction
}

func newPlan(cfg Config, client int) *plan {
	rng := rand.New(rand.NewPCG(cfg.Seed, uint64(client))) //nolint:gosec // traffic must be repeatable
	return &plan{
		client:   client,
		run:      cfg.Run,
		rng:      rng,
		zipf:     rand.NewZipf(rng, zipfSkew, 1, uint64(cfg.Videos-1)), //nolint:gosec // validated positive
		users:    cfg.UsersPerClient,
		hotShare: cfg.HotShare,
		beliefs:  make(map[Key]likewisev1.Reaction),
	}
}

// next decides the next step. Shares are in percent of all steps; what is left
// are single Sets.
func (p *plan) next() step {
	s := p.set()
	switch dice := p.rng.IntN(100); {
	case dice < 10:
		s.shape = shapeCounts
	case dice < 13:
		s.shape = shapeGet
	case dice < 21:
		s.shape, s.copies = shapeDuplicate, 2+p.rng.IntN(2)
	case dice < 25:
		s.shape, s.far, s.rival = shapeRace, p.rng.Int(), p.opinion()
		s.idempotencyKey = ""
	case dice < 27:
		s.shape, s.patience = shapeImpatient, time.Millisecond*time.Duration(1+p.rng.IntN(20))
		s.idempotencyKey = p.newKey()
	}
	return s
}

// set draws a single Set: on a key of before in half of the cases, so that
// there are switches, undos and repeats and not only first likes.
func (p *plan) set() step {
	key := Key{Video: p.video(), User: p.user()}
	if len(p.touched) > 0 && p.rng.IntN(2) == 0 {
		key = p.touched[p.rng.IntN(len(p.touched))]
	}
	s := step{shape: shapeSet, key: key, was: p.belief(key)}
	s.want = p.want(s.was)
	if p.rng.IntN(10) < 7 { // some people's apps are old and send no keys
		s.idempotencyKey = p.newKey()
	}
	return s
}

func (p *plan) belief(key Key) likewisev1.Reaction {
	if was, ok := p.beliefs[key]; ok {
		return was
	}
	return likewisev1.Reaction_NONE
}

// want draws the next opinion of a person whose opinion is was.
func (p *plan) want(was likewisev1.Reaction) likewisev1.Reaction {
	if was == likewisev1.Reaction_NONE {
		return p.opinion()
	}
	switch dice := p.rng.IntN(10); {
	case dice < 4:
		return likewisev1.Reaction_NONE
	case dice < 8:
		return opposite(was)
	default:
		return was
	}
}

func (p *plan) opinion() likewisev1.Reaction {
	if p.rng.IntN(4) == 0 {
		return likewisev1.Reaction_DISLIKE
	}
	return likewisev1.Reaction_LIKE
}

func opposite(r likewisev1.Reaction) likewisev1.Reaction {
	if r == likewisev1.Reaction_LIKE {
		return likewisev1.Reaction_DISLIKE
	}
	return likewisev1.Reaction_LIKE
}

func (p *plan) video() string {
	if p.rng.Float64() < p.hotShare {
		return HotVideo
	}
	return fmt.Sprintf("video-%04d", p.zipf.Uint64())
}

func (p *plan) user() string {
	return fmt.Sprintf("user%s-%d-%d", p.run, p.client, p.rng.IntN(p.users))
}

func (p *plan) newKey() string {
	p.serial++
	return fmt.Sprintf("%d-%d", p.client, p.serial)
}

// learn tells the plan what a reply said of key.
func (p *plan) learn(key Key, now likewisev1.Reaction) {
	if _, known := p.beliefs[key]; !known && len(p.touched) < maxTouched {
		p.touched = append(p.touched, key)
	} else if !known {
		p.touched[p.rng.IntN(maxTouched)] = key
	}
	p.beliefs[key] = now
}
