package traffic

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
)

const (
	// auditors is how many reads of an audit run at once.
	auditors = 64
	// auditPatience bounds how long one read of an audit is repeated.
	auditPatience = 15 * time.Second
)

// FinalStates reads each key strongly, from the regions in turn. Call it when
// no operation can take effect any more; see [Lost].
func (t *Traffic) FinalStates(ctx context.Context, keys []Key) (map[Key]State, error) {
	final := make(map[Key]State, len(keys))
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(auditors)
	for i, key := range keys {
		g.Go(func() error {
			state, err := t.finalState(ctx, t.regions[i%len(t.regions)], key)
			mu.Lock()
			defer mu.Unlock()
			final[key] = state
			return err
		})
	}
	return final, g.Wait()
}

func (t *Traffic) finalState(ctx context.Context, d *doors, key Key) (State, error) {
	var state State
	err := persist(ctx, func(ctx context.Context) error {
		reply, err := d.get(ctx, key.User, &likewisev1.GetReactionRequest{VideoId: key.Video})
		state = State{Reaction: reply.GetReaction(), Version: reply.GetVersion()}
		return err
	})
	if err != nil {
		return State{}, fmt.Errorf("reading %s of %s in %s: %w", key.Video, key.User, d.region, err)
	}
	return state, nil
}

// Shown asks every front door of every region for the counts of videos, until
// the answer is at least as new as since, a time of the database's clock. It
// sets no bound in the request: what it returns is what any caller would be
// shown. user names who asks.
func (t *Traffic) Shown(ctx context.Context, user string, videos []string, since time.Time) (map[string]map[string]Tally, error) {
	token, err := t.regions[0].tokens.of(user)
	if err != nil {
		return nil, err
	}
	shown := make(map[string]map[string]Tally, len(t.regions))
	for _, d := range t.regions {
		for i, client := range d.clients {
			counts, err := ShownBy(ctx, client, token, videos, since)
			if err != nil {
				return nil, fmt.Errorf("front door %d of %s: %w", i+1, d.region, err)
			}
			shown[fmt.Sprintf("%s-%d", d.region, i+1)] = counts
		}
	}
	return shown, nil
}

// ShownBy asks one front door for the counts of videos, until each answer is at
// least as new as since. Its calls carry token, unless it is empty.
func ShownBy(ctx context.Context, client likewisev1connect.ReactionServiceClient, token string, videos []string, since time.Time) (map[string]Tally, error) {
	counts := make(map[string]Tally, len(videos))
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(auditors)
	for _, video := range videos {
		g.Go(func() error {
			tally, err := shownFor(ctx, client, token, video, since)
			mu.Lock()
			defer mu.Unlock()
			counts[video] = tally
			return err
		})
	}
	return counts, g.Wait()
}

func shownFor(ctx context.Context, client likewisev1connect.ReactionServiceClient, token, video string, since time.Time) (Tally, error) {
	var tally Tally
	err := persist(ctx, func(ctx context.Context) error {
		reply, err := client.GetCounts(WithToken(ctx, token), &likewisev1.GetCountsRequest{VideoId: video})
		if err != nil {
			return err
		}
		counts := reply.GetCounts()
		if asOf := counts.GetAsOf().AsTime(); asOf.Before(since) {
			return fmt.Errorf("as of %s, which is before %s", asOf, since)
		}
		tally = Tally{Likes: counts.GetLikes(), Dislikes: counts.GetDislikes()}
		return nil
	})
	if err != nil {
		return Tally{}, fmt.Errorf("counts of %s: %w", video, err)
	}
	return tally, nil
}

// persist repeats a read until it succeeds or auditPatience is over.
func persist(ctx context.Context, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	for {
		err := read(ctx)
		if err == nil {
			return nil
		}
		pause(ctx, defaultPause)
		if ctx.Err() != nil {
			return err
		}
	}
}
