package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Get reads one reaction strongly: it is never older than the last acknowledged
// Set of its key, from any node. Of a deleted video it is a VideoDeletedError.
func (s *Store) Get(ctx context.Context, slot Slot, video VideoID, user UserID) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var r Reading
	if err := s.reads.QueryRow(ctx, readReactionSQL, slot, video, user).Scan(&r.Reaction, &r.Version, &r.Video); err != nil {
		return State{}, fmt.Errorf("read reaction to %q: %w", video, unavailable(err))
	}
	if r.Video == VideoDeleted {
		return State{}, &VideoDeletedError{}
	}
	return r.State, nil
}

// Place names where one reaction of a user lies.
type Place struct {
	Slot  Slot
	Video VideoID
}

// Reading is one reaction, and the state of its video.
type Reading struct {
	State
	Video VideoState
}

// GetMany reads reactions of one user strongly, as Get does, in one round trip
// and in the order of places.
func (s *Store) GetMany(ctx context.Context, user UserID, places []Place) ([]Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	slots, videos := make([]int64, len(places)), make([]string, len(places))
	for i, place := range places {
		slots[i], videos[i] = int64(place.Slot), string(place.Video)
	}
	rows, _ := s.reads.Query(ctx, readOwnReactionsSQL, slots, videos, user) // CollectRows returns the error
	readings, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Reading, err error) {
		return r, row.Scan(&r.Reaction, &r.Version, &r.Video)
	})
	if err != nil {
		return nil, fmt.Errorf("read reactions to %d videos: %w", len(places), unavailable(err))
	}
	return readings, nil
}

// CountShards reads the counter shards of a video, and as of when they are. It
// costs the same however many reactions there are.
func (s *Store) CountShards(ctx context.Context, video VideoID) (CountShards, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, _ := s.reads.Query(ctx, readCounterShardsSQL, video) // ForEachRow returns the error
	var counts CountShards
	var shard shardRow
	_, err := pgx.ForEachRow(rows, append([]any{&counts.AsOf, &counts.Video}, shard.columns()...), func() error {
		counts.Shards = shard.appendTo(counts.Shards)
		return nil
	})
	if err != nil {
		return CountShards{}, fmt.Errorf("read counts of %q: %w", video, unavailable(err))
	}
	return counts, nil
}

// CountShardsOf reads the counter shards of many videos, each as CountShards
// does, in one snapshot and in the order of videos, which must be distinct.
func (s *Store) CountShardsOf(ctx context.Context, videos []VideoID) ([]CountShards, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, _ := s.reads.Query(ctx, readManyCounterShardsSQL, videos) // ForEachRow returns the error
	counts := make([]CountShards, len(videos))
	var place int64
	var asOf time.Time
	var state VideoState
	var shard shardRow
	_, err := pgx.ForEachRow(rows, append([]any{&asOf, &place, &state}, shard.columns()...), func() error {
		c := &counts[place-1]
		c.AsOf, c.Video, c.Shards = asOf, state, shard.appendTo(c.Shards)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read counts of %d videos: %w", len(videos), unavailable(err))
	}
	return counts, nil
}

// shardRow takes one row of a video's counter shards; all are nil for a
// video without any.
type shardRow struct{ slot, likes, dislikes, rev *int64 }

func (c *shardRow) columns() []any { return []any{&c.slot, &c.likes, &c.dislikes, &c.rev} }

func (c *shardRow) appendTo(shards []CounterShard) []CounterShard {
	if c.slot == nil {
		return shards
	}
	return append(shards, CounterShard{Slot: Slot(*c.slot), Likes: *c.likes, Dislikes: *c.dislikes, Rev: *c.rev})
}

// Tally is a sum of likes and dislikes.
type Tally struct{ Likes, Dislikes int64 }

// Recount holds, in one snapshot, what the counter shards of a video add up to,
// and what its reaction rows do. They are equal, or something is broken.
type Recount struct{ Stored, Rows Tally }

// Recount counts the reactions of a video, at a cost that grows with them. It
// is for checks, not for the request path.
func (s *Store) Recount(ctx context.Context, video VideoID) (Recount, error) {
	var r Recount
	err := s.check(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, recountSQL, video).
			Scan(&r.Stored.Likes, &r.Stored.Dislikes, &r.Rows.Likes, &r.Rows.Dislikes)
	})
	if err != nil {
		return Recount{}, fmt.Errorf("recount %q: %w", video, err)
	}
	return r, nil
}

// Videos lists, in order, up to limit videos after the given one that have a
// reaction row or a counter shard. It reads the whole table of reactions, and
// is for checks.
func (s *Store) Videos(ctx context.Context, after VideoID, limit int) ([]VideoID, error) {
	var videos []VideoID
	err := s.check(ctx, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, listVideosSQL, after, limit) // CollectRows returns the error
		var err error
		videos, err = pgx.CollectRows(rows, pgx.RowTo[VideoID])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list videos: %w", err)
	}
	return videos, nil
}

// check runs a read that may take long: the caller's context alone bounds it.
func (s *Store) check(ctx context.Context, read func(pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, s.reads, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, unboundedSQL); err != nil {
			return err
		}
		return read(tx)
	})
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// Now returns the time of the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var now time.Time
	if err := s.reads.QueryRow(ctx, clockSQL).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", unavailable(err))
	}
	return now, nil
}

// unavailable marks errors of reads that are not the statement's fault.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	_, refused := errors.AsType[*pgconn.ConnectError](err) // whatever the server says to whom it does not let in
	if !refused && classify(err, beforeCommit) == broken {
		return err
	}
	return &UnavailableError{RetryAfter: retryAfter, Cause: err}
}
