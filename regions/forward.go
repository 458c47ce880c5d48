package regions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"likewise/routing"
	"likewise/storage"
)

// reactions writes and reads reactions at this node.
type reactions interface {
	Set(context.Context, storage.Set) (storage.Result, error)
	Get(context.Context, storage.Slot, storage.VideoID, storage.UserID) (storage.State, error)
	GetMany(context.Context, storage.UserID, []storage.Place) ([]storage.Reading, error)
}

// router sends a reaction to the node that should serve it: this one, or
// another by one hop. Nothing is forwarded twice: whoever gets a hop serves it,
// as any node can.
type router struct {
	node   string
	region routing.Region
	routes routes
	store  reactions
	peers  *peerClient // nil: this node runs alone
	health *peerHealth
}

// verdict is what a hop's end means for the call.
type verdict uint8

const (
	served    verdict = iota
	refused           // an answer for the caller; nothing was applied
	elsewhere         // surely nothing happened; another node may serve
	unknown           // it may have been applied
)

func judge(err error) verdict {
	if err == nil {
		return served
	}
	if errors.Is(err, storage.ErrOutcomeUnknown) {
		return unknown
	}
	_, notSent := errors.AsType[*notSentError](err)
	_, staleMap := errors.AsType[*staleMapError](err)
	if notSent || staleMap || errors.Is(err, errLeaving) || errors.Is(err, errPeerLate) ||
		errors.Is(err, storage.ErrClosing) || errors.Is(err, storage.ErrStaleMap) {
		return elsewhere
	}
	// Among these is overload: to spread it would make it worse.
	return refused
}

// set applies a write at the first node of its route that takes it.
//
// A hop that surely did nothing is followed by the next at once. One that may
// have applied the write is followed by another only as mayRepeat allows, and
// from then on only success is a certain answer.
func (r *router) set(ctx context.Context, set storage.Set) (storage.Result, error) {
	way := r.way(set.Video, set.User)
	var doubt, last error
	for node, ok := way.next(); ok && ctx.Err() == nil; node, ok = way.next() {
		result, err := r.setAt(ctx, node, way.topology(), set)
		switch judge(err) {
		case served:
			return result, nil
		case refused:
			if doubt != nil {
				return storage.Result{}, afterUnknown(err)
			}
			if !way.detour(node, err) {
				return storage.Result{}, err
			}
		case unknown:
			if !mayRepeat(set) {
				return storage.Result{}, err
			}
			doubt = err
		case elsewhere:
			way.learn(ctx, err)
		}
		last = err
	}
	if doubt != nil {
		return storage.Result{}, doubt
	}
	return storage.Result{}, &nothingAppliedError{nobody(ctx, last)}
}

func (r *router) setAt(ctx context.Context, node routing.Node, by routing.Topology, set storage.Set) (storage.Result, error) {
	if node.Name == r.node {
		result, err := r.store.Set(ctx, set)
		if err != nil && !errors.Is(err, storage.ErrOutcomeUnknown) {
			return storage.Result{}, &nothingAppliedError{err}
		}
		return result, err
	}
	return r.peers.set(ctx, node, by, set)
}

// get reads a reaction strongly, through a node of the serving region.
func (r *router) get(ctx context.Context, video storage.VideoID, user storage.UserID) (storage.State, error) {
	way := r.way(video, user)
	return read(ctx, way,
		func() (storage.State, error) { return r.store.Get(ctx, slotOf(video, user), video, user) },
		func(node routing.Node) (storage.State, error) {
			return r.peers.get(ctx, node, way.topology(), video, user)
		})
}

// read reads through a node of the serving region: this one if it is of that
// region. A read may be repeated at will; it ends with the first that knows.
func read[T any](ctx context.Context, w *way, here func() (T, error), there func(routing.Node) (T, error)) (T, error) {
	if w.m.Serving(w.slot) == w.router.region {
		return here()
	}
	var last error
	for node, ok := w.next(); ok && ctx.Err() == nil; node, ok = w.next() {
		if node.Name == w.router.node {
			return here()
		}
		got, err := there(node)
		if err == nil || knows(err) {
			return got, err
		}
		w.learn(ctx, err)
		last = err
	}
	var none T
	return none, nobody(ctx, last)
}

// knows reports whether another node would say the same, or should not be asked:
// to spread overload would make it worse.
func knows(err error) bool {
	_, deleted := errors.AsType[*storage.VideoDeletedError](err)
	_, overloaded := errors.AsType[*storage.OverloadedError](err)
	return deleted || overloaded
}

var errNobody = errors.New("no node took the call")

// nobody is the end of a call that no node has begun.
func nobody(ctx context.Context, last error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no node took the call in time: %w", context.Cause(ctx))
	}
	if _, unavailable := errors.AsType[*storage.UnavailableError](last); unavailable {
		return last
	}
	return &storage.UnavailableError{RetryAfter: retrySoon, Cause: errors.Join(errNobody, last)}
}

// way is one call's way along the route of a slot.
type way struct {
	router    *router
	slot      routing.Slot
	m         *routing.Map
	tried     []string
	refreshed bool
	detoured  bool
}

// detour reports, once, whether another node may do what this one could not for
// want of a database: the link of one node may be down alone. It is asked only
// where nothing was applied.
func (w *way) detour(node routing.Node, err error) bool {
	_, unavailable := errors.AsType[*storage.UnavailableError](err)
	if !unavailable || w.detoured || node.Name == w.router.node {
		return false
	}
	w.detoured = true
	return true
}

func (r *router) way(video storage.VideoID, user storage.UserID) *way {
	return r.wayBy(r.routes.Map(), video, user)
}

func (r *router) wayBy(m *routing.Map, video storage.VideoID, user storage.UserID) *way {
	return &way{router: r, slot: routing.SlotOf(string(video), string(user)), m: m}
}

func (w *way) topology() routing.Topology { return w.m.Topology() }

// next returns the first node of the route that was not tried and is not
// avoided. This node comes last if the route does not hold it: any node can
// commit any slot, and the database is the law.
func (w *way) next() (routing.Node, bool) {
	for _, node := range w.m.Route(w.slot) {
		if w.open(node) {
			return w.take(node)
		}
	}
	if self := (routing.Node{Name: w.router.node, Region: w.router.region}); !w.wasTried(self) {
		return w.take(self)
	}
	return routing.Node{}, false
}

func (w *way) open(node routing.Node) bool {
	if w.wasTried(node) {
		return false
	}
	return node.Name == w.router.node || w.router.peers != nil && !w.router.health.avoids(node)
}

func (w *way) wasTried(node routing.Node) bool { return slices.Contains(w.tried, node.Name) }

func (w *way) take(node routing.Node) (routing.Node, bool) {
	w.tried = append(w.tried, node.Name)
	return node, true
}

// refreshTimeout bounds how long a call waits for a newer topology before it
// goes on with the map it has.
const refreshTimeout = 500 * time.Millisecond

var errRefreshTimeout = fmt.Errorf("%w: reading the topology took too long", context.DeadlineExceeded)

// learn reads the topology, once, if a node has said that there is a newer one,
// and begins the route anew by it.
func (w *way) learn(ctx context.Context, err error) {
	stale, ok := errors.AsType[*staleMapError](err)
	source, can := w.router.routes.(refresher)
	if !ok || !can || w.refreshed {
		return
	}
	w.refreshed = true
	ctx, cancel := context.WithTimeoutCause(ctx, refreshTimeout, errRefreshTimeout)
	defer cancel()
	if m, err := source.Refresh(ctx, stale.Epoch); err == nil {
		// The node that said so has done nothing, and may be the right one still.
		w.m, w.tried = m, w.tried[:len(w.tried)-1]
	}
}
