package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"likewise/deploy/local/cluster"
	"likewise/e2e/check"
	"likewise/e2e/traffic"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/storage"
)

// callers is how many people act at once where a crowd does.
const callers = 100

// people ask through front doors; what they asked and were told is recorded.
type people struct {
	d     *deployment
	began time.Time

	mu         sync.Mutex
	ops        []check.Op // guarded by mu
	troubles   []error    // guarded by mu
	unexpected []error    // guarded by mu
}

// newPeople returns people whose troubles are shown if the test fails.
func newPeople(t *testing.T, d *deployment) *people {
	t.Helper()
	p := &people{d: d, began: time.Now()}
	t.Cleanup(func() {
		for _, err := range p.troubles[:min(len(p.troubles), maxTroubles)] {
			if t.Failed() {
				t.Log(err)
			}
		}
	})
	return p
}

// maxTroubles is how many failed calls a failed test shows.
const maxTroubles = 20

func set(key check.Key, desired storage.Reaction) check.Op {
	return check.Op{Kind: check.Set, Key: key, Desired: desired}
}

func keyed(op check.Op, idempotencyKey string) check.Op {
	op.IdempotencyKey = idempotencyKey
	return op
}

func get(key check.Key) check.Op { return check.Op{Kind: check.Get, Key: key} }

// do carries out one operation at a front door, once, and records it.
func (p *people) do(ctx context.Context, n *cluster.Node, op check.Op) check.Op {
	bearer, err := token(string(op.Key.User))
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx = traffic.WithToken(ctx, bearer)
	op.Call = time.Since(p.began)
	if op.Kind == check.Get {
		err = p.get(ctx, n, &op)
	} else {
		err = p.set(ctx, n, &op)
	}
	op.Return = time.Since(p.began)
	op.Outcome = outcomeOf(err, &op)

	p.mu.Lock()
	defer p.mu.Unlock()
	p.ops = append(p.ops, op)
	if err == nil {
		return op
	}
	err = fmt.Errorf("%s at %s: %w", op, n.Name(), err)
	p.troubles = append(p.troubles, err)
	if !expected(err) {
		p.unexpected = append(p.unexpected, err)
	}
	return op
}

func (p *people) set(ctx context.Context, n *cluster.Node, op *check.Op) error {
	reply, err := p.d.clients[n.Name()].SetReaction(ctx, &likewisev1.SetReactionRequest{
		VideoId: string(op.Key.Video), Reaction: wire(op.Desired), IdempotencyKey: op.IdempotencyKey, ExpectedVersion: op.Expected,
	})
	if err != nil {
		return err
	}
	op.Result = check.Result{
		Previous: stored(reply.GetPreviousReaction()), Reaction: stored(reply.GetReaction()),
		Version: reply.GetVersion(), Changed: reply.GetChanged(),
	}
	return nil
}

func (p *people) get(ctx context.Context, n *cluster.Node, op *check.Op) error {
	reply, err := p.d.clients[n.Name()].GetReaction(ctx, &likewisev1.GetReactionRequest{VideoId: string(op.Key.Video)})
	if err != nil {
		return err
	}
	op.Result = check.Result{Reaction: stored(reply.GetReaction()), Version: reply.GetVersion()}
	return nil
}

// outcomeOf says what an error means for an operation. A refusal tells the
// state.
func outcomeOf(err error, op *check.Op) check.Outcome {
	if mismatch, ok := traffic.Detail[*likewisev1.VersionMismatch](err); ok {
		op.Result = check.Result{Reaction: stored(mismatch.GetReaction()), Version: mismatch.GetVersion()}
		return check.Refused
	}
	return known(traffic.OutcomeOf(err))
}

func known(o traffic.Outcome) check.Outcome {
	switch o {
	case traffic.OK:
		return check.OK
	case traffic.Failed:
		return check.Failed
	default:
		return check.Unknown
	}
}

// expected reports whether an error may come of load, races and faults alone.
func expected(err error) bool {
	if !connect.IsWireError(err) {
		return true
	}
	switch connect.CodeOf(err) {
	case connect.CodeFailedPrecondition, connect.CodeAlreadyExists, connect.CodeResourceExhausted,
		connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled:
		return true
	default:
		return false
	}
}

// crowd carries out all operations at once, each at the next front door, and
// returns them in the same order.
func (p *people) crowd(ctx context.Context, doors []*cluster.Node, ops []check.Op) []check.Op {
	done := make([]check.Op, len(ops))
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, op := range ops {
		op.Client = i
		all.Go(func() {
			<-start
			done[i] = p.do(ctx, doors[i%len(doors)], op)
		})
	}
	close(start)
	all.Wait()
	return done
}

// history returns what was recorded, and fails the test if anybody was answered
// what nobody should be.
func (p *people) history(t *testing.T) []check.Op {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NoError(t, errors.Join(p.unexpected...))
	return append([]check.Op(nil), p.ops...)
}

// byAll is one operation, asked for by every caller of a crowd.
func byAll(op check.Op) []check.Op {
	ops := make([]check.Op, callers)
	for i := range ops {
		ops[i] = op
	}
	return ops
}

// count counts the operations for which something is true.
func count(ops []check.Op, is func(check.Op) bool) int {
	n := 0
	for _, op := range ops {
		if is(op) {
			n++
		}
	}
	return n
}

func succeeded(op check.Op) bool { return op.Outcome == check.OK }
func changed(op check.Op) bool   { return op.Outcome == check.OK && op.Result.Changed }
func unknown(op check.Op) bool   { return op.Outcome == check.Unknown }
func refused(op check.Op) bool   { return op.Outcome == check.Refused }

func wire(r storage.Reaction) likewisev1.Reaction {
	switch r {
	case storage.Like:
		return likewisev1.Reaction_LIKE
	case storage.Dislike:
		return likewisev1.Reaction_DISLIKE
	default:
		return likewisev1.Reaction_NONE
	}
}

func stored(r likewisev1.Reaction) storage.Reaction {
	switch r {
	case likewisev1.Reaction_LIKE:
		return storage.Like
	case likewisev1.Reaction_DISLIKE:
		return storage.Dislike
	default:
		return storage.None
	}
}
