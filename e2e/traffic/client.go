package traffic

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	likewisev1 "likewise/proto/likewise/v1"
)

// client follows one plan from one region.
type client struct {
	*Traffic
	id   int
	home int // index of its region
	plan *plan
}

func (t *Traffic) newClient(id int) *client {
	return &client{Traffic: t, id: id, home: id % len(t.regions), plan: newPlan(t.cfg, id)}
}

// run follows the plan until ctx ends. A step that has begun is finished: it is
// detached from ctx and bounded by its own deadlines.
func (c *client) run(ctx context.Context) error {
	for c.limit.Wait(ctx) == nil && ctx.Err() == nil {
		if err := c.step(context.WithoutCancel(ctx), c.plan.next()); err != nil {
			return fmt.Errorf("client %d: %w", c.id, err)
		}
	}
	return nil
}

// step does one step. Its error is the observer's: what servers answer is
// recorded and never ends a client.
func (c *client) step(ctx context.Context, s step) error {
	switch s.shape {
	case shapeCounts:
		c.readCounts(ctx, s)
		return nil
	case shapeGet:
		c.readOwn(ctx, s)
		return nil
	case shapeDuplicate:
		return c.together(ctx, s, repeat(c.order(s), s.copies))
	case shapeRace:
		return c.together(ctx, s, []order{c.order(s), c.rivalOrder(s)})
	default:
		return c.together(ctx, s, []order{c.order(s)})
	}
}

// order is one Set to be brought through, by retries if need be.
type order struct {
	doors    *doors
	step     step
	want     likewisev1.Reaction
	patience time.Duration
}

func (c *client) order(s step) order {
	return order{doors: c.regions[c.home], step: s, want: s.want, patience: s.patience}
}

// rivalOrder is the other half of a race: the same user, another region (if
// there is one) and an opinion of its own.
func (c *client) rivalOrder(s step) order {
	far := c.home
	if n := len(c.regions); n > 1 {
		far = (c.home + 1 + s.far%(n-1)) % n
	}
	return order{doors: c.regions[far], step: s, want: s.rival}
}

func repeat(o order, copies int) []order {
	orders := make([]order, copies)
	for i := range orders {
		orders[i] = o
	}
	return orders
}

// together sends orders on one key at the same time and learns from the reply
// with the highest version.
func (c *client) together(ctx context.Context, s step, orders []order) error {
	ops := make([]Op, len(orders))
	g, ctx := errgroup.WithContext(ctx)
	for i, o := range orders {
		g.Go(func() (err error) {
			ops[i], err = c.set(ctx, o)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	newest := State{Version: -1}
	for _, op := range ops {
		c.history.Add(op)
		c.meter.set(op)
		if op.Outcome == OK && op.State.Version > newest.Version {
			newest = op.State
		}
	}
	if newest.Version >= 0 {
		c.plan.learn(s.key, newest.Reaction)
	}
	return nil
}

// set brings one order through. It repeats an attempt that surely did nothing,
// and any attempt under an idempotency key.
func (c *client) set(ctx context.Context, o order) (Op, error) {
	op := Op{
		Kind: Set, Key: o.step.key, Client: c.id, Region: o.doors.region,
		Desired: o.want, IdempotencyKey: o.step.idempotencyKey,
		Start: c.history.Now(), Outcome: Failed,
	}
	for op.Attempts < c.cfg.MaxAttempts {
		op.Attempts++
		v, err := c.attempt(ctx, o, &op)
		if err != nil {
			return op, err
		}
		if v.outcome != Failed {
			op.Outcome = v.outcome
		}
		if !v.again || v.outcome == Unknown && op.IdempotencyKey == "" {
			break
		}
		pause(ctx, v.pause)
	}
	op.End = c.history.Now()
	return op, nil
}

// attempt sends an order once and fills in what the reply says.
func (c *client) attempt(ctx context.Context, o order, op *Op) (verdict, error) {
	if err := c.observe(ctx, o); err != nil {
		return verdict{}, err
	}
	timeout := c.cfg.AttemptTimeout
	if o.patience > 0 && op.Attempts == 1 {
		timeout = o.patience
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reply, err := o.doors.set(ctx, op.Key.User, &likewisev1.SetReactionRequest{
		VideoId: op.Key.Video, Reaction: o.want, IdempotencyKey: op.IdempotencyKey,
	})
	op.Err = err
	if err == nil {
		op.State = State{Reaction: reply.GetReaction(), Version: reply.GetVersion()}
		op.Previous, op.Changed = reply.GetPreviousReaction(), reply.GetChanged()
	}
	return judge(err), nil
}

func (c *client) observe(ctx context.Context, o order) error {
	if c.cfg.Observer == nil {
		return nil
	}
	return c.cfg.Observer.Attempt(ctx, Attempt{
		Video: o.step.key.Video, User: o.step.key.User, From: o.step.was, To: o.want,
	})
}

func (c *client) readOwn(ctx context.Context, s step) {
	d := c.regions[c.home]
	op := Op{Kind: Get, Key: s.key, Client: c.id, Region: d.region, Start: c.history.Now(), Attempts: 1}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	reply, err := d.get(ctx, s.key.User, &likewisev1.GetReactionRequest{VideoId: s.key.Video})
	op.End, op.Err = c.history.Now(), err
	if err != nil {
		op.Outcome = Failed // a read has no effect
	} else {
		op.State = State{Reaction: reply.GetReaction(), Version: reply.GetVersion()}
	}
	c.history.Add(op)
}

func (c *client) readCounts(ctx context.Context, s step) {
	began := c.history.Now()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	_, err := c.regions[c.home].counts(ctx, s.key.User, &likewisev1.GetCountsRequest{VideoId: s.key.Video})
	if err == nil {
		c.meter.count(c.history.Now() - began)
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
