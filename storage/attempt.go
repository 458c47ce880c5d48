package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// attemptTimeout bounds one attempt on the client's side. The database's own
// limits are shorter; this one is for a link that is gone.
const attemptTimeout = 5 * time.Second

var errAttemptTimeout = errors.New("the database did not answer within the time of an attempt")

// attempter runs single transactions. It retries nothing.
type attempter struct {
	pool *pgxpool.Pool
	cfg  CommitterConfig
	heat *heat
}

func (a *attempter) counterSlot(video VideoID, slot Slot) Slot {
	return a.heat.slot(video, slot, a.cfg.ColdSlot(slot))
}

// attempt is one transaction: what it set out to do, and what is known of it.
type attempt struct {
	id          uuid.UUID
	plan        *plan
	committedAt time.Time
	shards      map[shardKey]CounterShard // as the transaction left them
}

// failure says how an attempt ended that did not surely commit.
type failure struct {
	class   class
	err     error
	attempt *attempt // for the look-up
}

func failed(err error, at stage, a *attempt) *failure {
	return &failure{class: classify(err, at), err: err, attempt: a}
}

// run commits a batch in one transaction of two round trips. ctx belongs to the
// committer, never to a caller.
func (a *attempter) run(ctx context.Context, sets []Set) (*attempt, *failure) {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptTimeout, errAttemptTimeout)
	defer cancel()
	conn, err := a.pool.Acquire(ctx)
	if err != nil {
		return nil, &failure{class: outage, err: fmt.Errorf("acquire connection: %w", err)} // a wrong password, too
	}
	defer release(ctx, conn)

	att, f := a.on(ctx, conn, sets)
	if f != nil && f.class == outage {
		_ = conn.Conn().Close(ctx) // its session may stay as it is, such as read-only
	}
	return att, f
}

// on runs the transaction on a connection.
func (a *attempter) on(ctx context.Context, conn *pgxpool.Conn, sets []Set) (*attempt, *failure) {
	snap, err := a.lockAndRead(ctx, conn, sets)
	if errors.Is(err, ErrStaleMap) {
		return nil, &failure{class: broken, err: err}
	}
	if err != nil {
		return nil, failed(fmt.Errorf("lock and read: %w", err), beforeCommit, nil)
	}
	att := &attempt{id: uuid.New(), plan: fold(sets, snap, a.counterSlot), shards: map[shardKey]CounterShard{}}
	began := time.Now()
	if at, err := a.write(ctx, conn, att); err != nil {
		return nil, failed(fmt.Errorf("write and commit: %w", err), at, att)
	}
	now := time.Now()
	a.heat.observe(att.plan.changes, now.Sub(began), now)
	return att, nil
}

// release gives a connection back, without a transaction on it.
func release(ctx context.Context, conn *pgxpool.Conn) {
	defer conn.Release() // destroys a connection that is broken or still in a transaction
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK") // if it cannot be said, the connection is destroyed, which says the same
}

// lockAndRead is the first round trip.
func (a *attempter) lockAndRead(ctx context.Context, conn *pgxpool.Conn, sets []Set) (snapshot, error) {
	snap := snapshot{
		heads:   map[Slot]int64{},
		videos:  map[VideoID]VideoState{},
		rows:    map[key]*row{},
		records: map[recordKey]record{},
	}
	asked := newQuestion(sets)
	batch := &pgx.Batch{}
	batch.Queue(beginSQL)
	snap.queueFirst(batch, asked)
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return snapshot{}, err
	}
	if guardExactHeads && len(snap.heads) != len(asked.slots) {
		return snapshot{}, ErrStaleMap
	}
	return snap, nil
}

func (snap snapshot) queueHeads(batch *pgx.Batch, text string, asked question) {
	batch.Queue(text, asked.slots).Query(func(rows pgx.Rows) error {
		var slot, offset int64
		_, err := pgx.ForEachRow(rows, []any{&slot, &offset}, func() error {
			snap.heads[Slot(slot)] = offset
			return nil
		})
		return err
	})
}

func (snap snapshot) queueReads(batch *pgx.Batch, asked question) {
	if len(asked.recordNames) > 0 {
		snap.queueRecords(batch, asked)
	}
	batch.Queue(readVideosSQL, asked.videos).Query(func(rows pgx.Rows) error {
		var video VideoID
		var state VideoState
		_, err := pgx.ForEachRow(rows, []any{&video, &state}, func() error {
			snap.videos[video] = state
			return nil
		})
		return err
	})
	batch.Queue(readReactionsSQL, asked.keySlots, asked.keyVideos, asked.keyUsers).Query(snap.readRows)
}

func (snap snapshot) readRows(rows pgx.Rows) error {
	var k key
	var r row
	_, err := pgx.ForEachRow(rows, []any{&k.slot, &k.video, &k.user, &r.Reaction, &r.Version, &r.counterSlot}, func() error {
		found := r
		found.versionRead = r.Version
		snap.rows[k] = &found
		return nil
	})
	return err
}

func (snap snapshot) queueRecords(batch *pgx.Batch, asked question) {
	batch.Queue(readIdempotencySQL, asked.recordSlots, asked.recordUsers, asked.recordVideos, asked.recordNames).Query(func(rows pgx.Rows) error {
		var k recordKey
		var hash []byte
		var r Result
		_, err := pgx.ForEachRow(rows, []any{&k.key.slot, &k.key.user, &k.key.video, &k.name, &hash, &r.Previous, &r.Reaction, &r.Version, &r.Changed}, func() error {
			snap.records[k] = record{hash: slices.Clone(hash), result: r}
			return nil
		})
		return err
	})
}

// write is the second round trip. Its COMMIT cannot be taken back by anything
// that Go finds out afterwards, so every condition is an error in SQL. The
// stage says where an error struck.
func (a *attempter) write(ctx context.Context, conn *pgxpool.Conn, att *attempt) (stage, error) {
	batch := &pgx.Batch{}
	at, answered := commitSent, 0
	done := func() { answered++ }
	att.queueRows(batch, done)
	att.queueChanges(batch, done)
	att.queueShards(batch, done)
	a.queueRecords(batch, att, done)
	commit := batch.Len()
	batch.Queue("COMMIT").Exec(expectCommit(done))
	batch.Queue(clockSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&att.committedAt) })
	err := conn.SendBatch(ctx, batch).Close()
	if err != nil && answered >= commit {
		at = atCommit
	}
	return at, err
}

// lookUp finds out whether an attempt of unknown outcome was applied. Under the
// lock of the heads that the attempt had locked, it has ended by now: either
// its changes stand at the offsets that it meant to use, or they never will.
func (a *attempter) lookUp(ctx context.Context, att *attempt) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptTimeout, errAttemptTimeout)
	defer cancel()
	conn, err := a.pool.Acquire(ctx)
	if err != nil {
		return false, fmt.Errorf("acquire connection: %w", err)
	}
	defer release(ctx, conn)

	slots := sortedSlots(att.plan.heads)
	offsets := make([]int64, len(slots))
	for i, slot := range slots {
		offsets[i] = att.plan.heads[Slot(slot)]
	}
	locked, own, others := 0, 0, 0
	batch := &pgx.Batch{}
	batch.Queue(beginSQL)
	if guardLookUpUnderLock {
		batch.Queue(lockHeadsSQL, slots).Query(func(rows pgx.Rows) error {
			tag, err := pgx.ForEachRow(rows, []any{nil, nil}, func() error { return nil })
			locked = int(tag.RowsAffected())
			return err
		})
		batch.Queue(touchHeadsSQL, slots)
	}
	batch.Queue(readAttemptsSQL, slots, offsets).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{nil, &id}, func() error {
			if id == att.id {
				own++
			} else {
				others++
			}
			return nil
		})
		return err
	})
	batch.Queue("COMMIT").Exec(expectCommit(func() {}))
	batch.Queue(clockSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&att.committedAt) })
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return false, fmt.Errorf("look up: %w", err)
	}
	if guardLookUpUnderLock && locked != len(slots) {
		return false, ErrStaleMap
	}
	if own != 0 && own != len(slots) {
		return false, fmt.Errorf("look up: attempt %s was applied in %d of %d slots, beside %d others", att.id, own, len(slots), others)
	}
	return own > 0, nil
}

func sortedSlots(heads map[Slot]int64) []int64 {
	slots := make([]int64, 0, len(heads))
	for slot := range maps.Keys(heads) {
		slots = append(slots, int64(slot))
	}
	slices.Sort(slots)
	return slots
}
