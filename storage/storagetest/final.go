package storagetest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"likewise/e2e/check"
	"likewise/storage"
)

// Audit fails the test unless the database is consistent with itself: the log
// has no gap and leads to the rows, counter shards and heads that are there.
// Since shards and rows both follow from the log, stored counts are then equal
// to a recount.
func Audit(t testing.TB, url string) {
	t.Helper()
	if violations := check.Log(Final(t, url)); len(violations) > 0 {
		t.Errorf("the database contradicts itself:\n%s", check.Report(violations))
	}
}

// Final reads what the database holds, in one snapshot.
func Final(t testing.TB, url string) check.Final {
	t.Helper()
	ctx, cancel := cleanup(t)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connecting to this test's database: %v", err)
	}
	defer conn.Close(ctx) //nolint:errcheck // everything is read
	var final check.Final
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		final, err = readFinal(ctx, tx)
		return err
	})
	if err != nil {
		t.Fatalf("reading this test's database: %v", err)
	}
	return final
}

func readFinal(ctx context.Context, tx pgx.Tx) (check.Final, error) {
	final := check.Final{Shards: map[check.ShardKey]storage.Tally{}, Heads: map[storage.Slot]int64{}}
	var c check.Change
	err := each(ctx, tx, `SELECT slot, log_offset, video_id, user_id, previous, next, version, counter_slot FROM changes`,
		[]any{&c.Slot, &c.Offset, &c.Key.Video, &c.Key.User, &c.Previous, &c.Next, &c.Version, &c.CounterSlot},
		func() { final.Changes = append(final.Changes, c) })
	if err != nil {
		return final, err
	}
	var r check.Row
	err = each(ctx, tx, `SELECT slot, video_id, user_id, reaction, version, counter_slot FROM reactions`,
		[]any{&r.Slot, &r.Key.Video, &r.Key.User, &r.Reaction, &r.Version, &r.CounterSlot},
		func() { final.Rows = append(final.Rows, r) })
	if err != nil {
		return final, err
	}
	var k check.ShardKey
	var tally storage.Tally
	err = each(ctx, tx, `SELECT video_id, counter_slot, likes, dislikes FROM counter_shards`,
		[]any{&k.Video, &k.Slot, &tally.Likes, &tally.Dislikes},
		func() { final.Shards[k] = tally })
	if err != nil {
		return final, err
	}
	var slot storage.Slot
	var next int64
	err = each(ctx, tx, `SELECT slot, next_offset FROM slots`, []any{&slot, &next}, func() { final.Heads[slot] = next })
	return final, err
}

// each scans every row of a query into the same variables.
func each(ctx context.Context, tx pgx.Tx, sql string, into []any, take func()) error {
	rows, _ := tx.Query(ctx, sql) // ForEachRow returns the error
	_, err := pgx.ForEachRow(rows, into, func() error {
		take()
		return nil
	})
	return err
}
