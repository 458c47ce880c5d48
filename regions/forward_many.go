package regions

import (
	"context"
	"sync"

	"likewise/routing"
	"likewise/storage"
)

// part is what one region serves of a batch. The region's first node for the
// first slot gets all of it: any node can read any slot.
type part struct {
	places []storage.Place
	at     []int // where in the batch each is
}

// getMany reads reactions of one user, each as get does, in the order of videos:
// through all regions that serve them at once, with one round trip to each. A
// region that fails fails its own part alone.
func (r *router) getMany(ctx context.Context, user storage.UserID, videos []storage.VideoID) []outcome[storage.State] {
	m := r.routes.Map()
	parts := partition(m, user, videos)
	outcomes := make([]outcome[storage.State], len(videos))
	var others sync.WaitGroup
	for region, p := range parts {
		if region != r.region {
			others.Go(func() { r.settlePart(ctx, m, user, p, outcomes) })
		}
	}
	if own, ok := parts[r.region]; ok {
		r.settlePart(ctx, m, user, own, outcomes)
	}
	others.Wait()
	return outcomes
}

func partition(m *routing.Map, user storage.UserID, videos []storage.VideoID) map[routing.Region]*part {
	parts := make(map[routing.Region]*part)
	for i, video := range videos {
		region := m.Serving(routing.SlotOf(string(video), string(user)))
		p, ok := parts[region]
		if !ok {
			p = &part{}
			parts[region] = p
		}
		p.places, p.at = append(p.places, storage.Place{Slot: slotOf(video, user), Video: video}), append(p.at, i)
	}
	return parts
}

func (r *router) readPart(ctx context.Context, m *routing.Map, user storage.UserID, p *part) (readings []storage.Reading, err error) {
	defer caught(&err)
	way := r.wayBy(m, p.places[0].Video, user)
	return read(ctx, way,
		func() ([]storage.Reading, error) { return r.store.GetMany(ctx, user, p.places) },
		func(node routing.Node) ([]storage.Reading, error) {
			return r.peers.getMany(ctx, node, way.topology(), user, p.places)
		})
}

// settlePart reads a part and puts what became of it into the places of the batch.
func (r *router) settlePart(ctx context.Context, m *routing.Map, user storage.UserID, p *part, outcomes []outcome[storage.State]) {
	readings, err := r.readPart(ctx, m, user, p)
	for i, at := range p.at {
		switch {
		case err != nil:
			outcomes[at].err = err
		case readings[i].Video == storage.VideoDeleted:
			outcomes[at].err = &storage.VideoDeletedError{}
		default:
			outcomes[at].got = readings[i].State
		}
	}
}
