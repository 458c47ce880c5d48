package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Topology says which region serves a slot.
type Topology struct {
	// Epoch rises with every change; the highest one is in force.
	Epoch   int64
	Regions [Slots]string
	// Origin tells the database from others: it is the same for all who read it,
	// and stays in a copy.
	Origin string
}

// ErrNoSchema means that the database holds no Likewise, or only part of it.
var ErrNoSchema = errors.New("the database holds no Likewise schema: run 'likewise migrate --regions …'")

// Migrate brings the schema up to date and writes the topology's first epoch,
// slot i served by regions[i], unless there is one. It is repeatable, and safe
// when several nodes do it at once: each statement stands alone and is
// repeatable itself, and one that met another is run again. Existing data stays.
// Where the database does not let it, the error is a ConnectError.
func (s *Store) Migrate(ctx context.Context, regions [Slots]string) error {
	if slices.Contains(regions[:], "") {
		return errors.New("migrate: every slot needs a region")
	}
	steps, err := migrations()
	if err != nil {
		return err
	}
	for _, step := range steps {
		if err := s.migrate(ctx, step); err != nil {
			return fmt.Errorf("migrate: %w", s.atStart(ctx, err))
		}
	}
	slots := make([]int64, Slots)
	for i := range slots {
		slots[i] = int64(i)
	}
	if err := s.migrate(ctx, insertTopologySQL, slots, regions[:]); err != nil {
		return fmt.Errorf("write the first topology: %w", s.atStart(ctx, err))
	}
	return nil
}

// atStart turns an error into a ConnectError where it is one of those reasons.
func (s *Store) atStart(ctx context.Context, err error) error {
	if ctx.Err() != nil || reasonOf(err) == ReasonOther {
		return err
	}
	return s.target.refused(reasonOf(err), err)
}

// migrate runs one statement until it has not met another node's.
func (s *Store) migrate(ctx context.Context, step string, args ...any) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		_, err := s.writes.Exec(ctx, step, args...)
		pgErr, answered := errors.AsType[*pgconn.PgError](err)
		if err == nil || answered && concurrentMigration(pgErr.SQLState()) {
			return struct{}{}, err
		}
		return struct{}{}, backoff.Permanent(err)
	}, backoff.WithMaxElapsedTime(30*time.Second))
	return err
}

// Topology reads the topology in force. It returns ErrNoSchema where there is
// none, and a ConnectError where the database does not let it.
func (s *Store) Topology(ctx context.Context) (Topology, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, _ := s.reads.Query(ctx, readTopologySQL) // ForEachRow returns the error
	var t Topology
	var slot, seen int64
	var region string
	var written time.Time
	_, err := pgx.ForEachRow(rows, []any{&t.Epoch, &slot, &region, &written}, func() error {
		t.Regions[slot] = region
		seen++
		return nil
	})
	if err == nil && seen == Slots {
		t.Origin = written.UTC().Format(time.RFC3339Nano)
		return t, nil
	}
	if err == nil || isUndefinedTable(err) {
		return Topology{}, ErrNoSchema
	}
	return Topology{}, fmt.Errorf("read topology: %w", s.atStart(ctx, unavailable(err)))
}

func isUndefinedTable(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.SQLState() == "42P01"
}

// NextIncarnation returns a number that no earlier start of a node of this name
// was given, and that is higher than all of theirs.
func (s *Store) NextIncarnation(ctx context.Context, node string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var incarnation int64
	if err := s.writes.QueryRow(ctx, nextIncarnationSQL, node).Scan(&incarnation); err != nil {
		return 0, fmt.Errorf("draw an incarnation for %q: %w", node, s.atStart(ctx, unavailable(err)))
	}
	return incarnation, nil
}
