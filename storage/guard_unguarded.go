//go:build unguarded

package storage

import (
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The guards, each of which a negative control can switch off: a test of this
// package by assignment, a whole process by its name in LIKEWISE_UNGUARDED.
var (
	guardHeadLock        = guard("head-lock")
	guardLockAlone       = guard("lock-alone")
	guardExactHeads      = guard("exact-heads")
	guardFences          = guard("fences")
	guardShardOrder      = guard("shard-order")
	guardLookUp          = guard("look-up")
	guardLookUpUnderLock = guard("look-up-under-lock")
	guardSessionLimits   = guard("session-limits")
	guardCounterSlot     = guard("counter-slot")
	guardVideoBarrier    = guard("video-barrier")
)

func guard(name string) bool {
	return !slices.Contains(strings.Split(os.Getenv("LIKEWISE_UNGUARDED"), ","), name)
}

const (
	unlockedHeadsSQL = `SELECT slot, next_offset FROM slots WHERE slot = ANY ($1::INT8[]) ORDER BY slot`

	// One statement that waits for the lock and reads the rows: at READ
	// COMMITTED it gives the rows as they were before the wait.
	lockAndReadSQL = `
SELECT s.slot, s.next_offset, r.video_id, r.user_id, r.reaction, r.version, r.counter_slot
  FROM slots AS s
  LEFT JOIN (unnest($2::INT8[], $3::TEXT[], $4::TEXT[]) AS q (slot, video_id, user_id)
       INNER JOIN reactions AS r ON r.slot = q.slot AND r.video_id = q.video_id AND r.user_id = q.user_id) ON r.slot = s.slot
 WHERE s.slot = ANY ($1::INT8[]) ORDER BY s.slot FOR UPDATE OF s`

	unfencedInsertSQL = `
INSERT INTO reactions (slot, video_id, user_id, reaction, version, counter_slot, updated_at)
SELECT u.slot, u.video_id, u.user_id, u.reaction, u.version, u.counter_slot, now()
  FROM unnest($1::INT8[], $2::TEXT[], $3::TEXT[], $4::INT2[], $5::INT8[], $6::INT8[]) AS u (slot, video_id, user_id, reaction, version, counter_slot)
    ON CONFLICT (slot, video_id, user_id) DO UPDATE
   SET reaction = excluded.reaction, version = excluded.version, counter_slot = excluded.counter_slot, updated_at = excluded.updated_at`

	unfencedUpdateSQL = `
UPDATE reactions AS r
   SET reaction = u.reaction, version = u.version, counter_slot = u.counter_slot, updated_at = now()
  FROM unnest($1::INT8[], $2::TEXT[], $3::TEXT[], $4::INT2[], $5::INT8[], $6::INT8[], $7::INT8[]) AS u (slot, video_id, user_id, reaction, version, counter_slot, version_read)
 WHERE r.slot = u.slot AND r.video_id = u.video_id AND r.user_id = u.user_id AND $8::INT8 > 0`

	unfencedHeadsSQL = `
UPDATE slots AS s SET next_offset = greatest(s.next_offset, u.next_offset)
  FROM unnest($1::INT8[], $2::INT8[], $3::INT8[]) AS u (slot, offset_read, next_offset)
 WHERE s.slot = u.slot`
)

func (snap snapshot) queueFirst(batch *pgx.Batch, asked question) {
	switch {
	case !guardLockAlone:
		snap.queueLockAndRead(batch, asked)
	case !guardHeadLock:
		snap.queueHeads(batch, unlockedHeadsSQL, asked)
		snap.queueReads(batch, asked)
	default:
		snap.queueHeads(batch, lockHeadsSQL, asked)
		snap.queueReads(batch, asked)
	}
}

func (snap snapshot) queueLockAndRead(batch *pgx.Batch, asked question) {
	if len(asked.recordNames) > 0 {
		snap.queueRecords(batch, asked)
	}
	batch.Queue(lockAndReadSQL, asked.slots, asked.keySlots, asked.keyVideos, asked.keyUsers).Query(func(rows pgx.Rows) error {
		var slot, offset int64
		var video, user *string
		var reaction *Reaction
		var version, counterSlot *int64
		_, err := pgx.ForEachRow(rows, []any{&slot, &offset, &video, &user, &reaction, &version, &counterSlot}, func() error {
			snap.heads[Slot(slot)] = offset
			if video != nil {
				snap.rows[key{Slot(slot), VideoID(*video), UserID(*user)}] = &row{
					State:       State{*reaction, *version},
					counterSlot: Slot(*counterSlot),
					versionRead: *version,
				}
			}
			return nil
		})
		return err
	})
}

func fencedSQL() fenced {
	if guardFences {
		return fenced{insertReactionsSQL, updateReactionsSQL, insertChangesSQL, advanceHeadsSQL}
	}
	return fenced{unfencedInsertSQL, unfencedUpdateSQL, insertChangesSQL + " ON CONFLICT (slot, log_offset) DO NOTHING", unfencedHeadsSQL}
}
