package demo

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"likewise/e2e/traffic"
	likewisev1 "likewise/proto/likewise/v1"
)

const (
	warmUpVideo   = "warm-up"
	warmUpUsers   = 48 // enough that every node forwards to every other one
	warmUpAtOnce  = 8
	warmUpTimeout = 20 * time.Second
)

// warmUp makes a few calls at every front door, so that what a node does once,
// connecting to the database and to every other node, is not taken for the
// latency of calls. They are likes as all others, of a video of their own.
func (s *stage) warmUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, warmUpTimeout)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(warmUpAtOnce)
	for _, n := range s.cluster.Nodes() {
		door := traffic.Dial(s.client, n.Addr())
		for i := range warmUpUsers {
			token, err := s.cfg.Mint(fmt.Sprintf("%s-%d", n.Name(), i), tokenLife)
			if err != nil {
				return err
			}
			g.Go(func() error {
				call := traffic.WithToken(ctx, token)
				if _, err := door.SetReaction(call, &likewisev1.SetReactionRequest{
					VideoId: warmUpVideo, Reaction: likewisev1.Reaction_LIKE,
				}); err != nil {
					s.cfg.say("warming up %s: %v", n.Name(), err) // the traffic will show whether it matters
				}
				return nil
			})
		}
	}
	return g.Wait()
}
