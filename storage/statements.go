package storage

import (
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// question is what a batch asks in its first round trip, as columns for unnest,
// each thing once.
type question struct {
	slots  []int64 // in order
	videos []string

	keySlots            []int64
	keyVideos, keyUsers []string

	recordSlots                            []int64
	recordUsers, recordVideos, recordNames []string
}

func newQuestion(sets []Set) question {
	var q question
	slots := map[Slot]int64{}
	videos := map[VideoID]bool{}
	keys := map[key]bool{}
	records := map[recordKey]bool{}
	for _, set := range sets {
		slots[set.Slot] = 0
		if !videos[set.Video] {
			videos[set.Video] = true
			q.videos = append(q.videos, string(set.Video))
		}
		if k := set.key(); !keys[k] {
			keys[k] = true
			q.addKey(k)
		}
		if k := set.recordKey(); k.name != "" && !records[k] {
			records[k] = true
			q.addRecord(k)
		}
	}
	q.slots = sortedSlots(slots)
	return q
}

func (q *question) addKey(k key) {
	q.keySlots = append(q.keySlots, int64(k.slot))
	q.keyVideos = append(q.keyVideos, string(k.video))
	q.keyUsers = append(q.keyUsers, string(k.user))
}

func (q *question) addRecord(k recordKey) {
	q.recordSlots = append(q.recordSlots, int64(k.key.slot))
	q.recordUsers = append(q.recordUsers, string(k.key.user))
	q.recordVideos = append(q.recordVideos, string(k.key.video))
	q.recordNames = append(q.recordNames, k.name)
}

// fenced are the texts of the statements that must fail where what was read
// has changed.
type fenced struct {
	insertReactions, updateReactions, insertChanges, advanceHeads string
}

// rowColumns are reaction rows as columns for unnest.
type rowColumns struct {
	slots, versions, counterSlots, versionsRead []int64
	videos, users                               []string
	reactions                                   []int16
}

func (c *rowColumns) add(k key, r *row) {
	c.slots = append(c.slots, int64(k.slot))
	c.videos = append(c.videos, string(k.video))
	c.users = append(c.users, string(k.user))
	c.reactions = append(c.reactions, int16(r.Reaction))
	c.versions = append(c.versions, r.Version)
	c.counterSlots = append(c.counterSlots, int64(r.counterSlot))
	c.versionsRead = append(c.versionsRead, r.versionRead)
}

// queueRows writes each changed row once, in its last state. Callers of queue
// methods count the answers that came: done is called for each.
func (att *attempt) queueRows(batch *pgx.Batch, done func()) {
	var fresh, known rowColumns
	for k, r := range att.plan.rows {
		if r.versionRead == 0 {
			fresh.add(k, r)
		} else {
			known.add(k, r)
		}
	}
	if n := len(fresh.slots); n > 0 {
		batch.Queue(fencedSQL().insertReactions, fresh.slots, fresh.videos, fresh.users, fresh.reactions, fresh.versions, fresh.counterSlots).
			Exec(counted(done))
	}
	if n := len(known.slots); n > 0 {
		batch.Queue(fencedSQL().updateReactions, known.slots, known.videos, known.users, known.reactions, known.versions, known.counterSlots, known.versionsRead, int64(n)).
			Exec(counted(done))
	}
}

// queueChanges appends to the logs and moves their heads.
func (att *attempt) queueChanges(batch *pgx.Batch, done func()) {
	changes := att.plan.changes
	n := len(changes)
	if n == 0 {
		return
	}
	slots, offsets, versions, counterSlots := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	videos, users := make([]string, n), make([]string, n)
	previous, next := make([]int16, n), make([]int16, n)
	for i, c := range changes {
		slots[i], offsets[i], versions[i], counterSlots[i] = int64(c.slot), c.offset, c.version, int64(c.counterSlot)
		videos[i], users[i] = string(c.video), string(c.user)
		previous[i], next[i] = int16(c.previous), int16(c.next)
	}
	batch.Queue(fencedSQL().insertChanges, slots, offsets, videos, users, previous, next, versions, counterSlots, att.id).Exec(counted(done))
	heads := sortedSlots(att.plan.heads)
	read, moved := make([]int64, len(heads)), make([]int64, len(heads))
	for i, slot := range heads {
		read[i], moved[i] = att.plan.heads[Slot(slot)], att.plan.next[Slot(slot)]
	}
	batch.Queue(fencedSQL().advanceHeads, heads, read, moved).Exec(counted(done))
}

// shardColumns are deltas of counter shards as columns for unnest.
type shardColumns struct {
	videos                 []string
	slots, likes, dislikes []int64
}

func (c *shardColumns) add(k shardKey, d Delta) {
	c.videos = append(c.videos, string(k.video))
	c.slots = append(c.slots, int64(k.slot))
	c.likes = append(c.likes, d.Likes)
	c.dislikes = append(c.dislikes, d.Dislikes)
}

// queueShards locks the counter shards that exist in key order, then writes
// those that lose something, which must exist, then the others.
func (att *attempt) queueShards(batch *pgx.Batch, done func()) {
	subtract, add := att.plan.shards()
	var all, minus, plus shardColumns
	for _, k := range subtract {
		all.add(k, Delta{})
		minus.add(k, att.plan.deltas[k])
	}
	for _, k := range add {
		all.add(k, Delta{})
		plus.add(k, att.plan.deltas[k])
	}
	if len(all.slots) == 0 {
		return
	}
	if guardShardOrder && len(all.slots) > 1 {
		batch.Queue(lockCounterShardsSQL, all.videos, all.slots).Exec(counted(done))
	}
	if n := len(minus.slots); n > 0 {
		batch.Queue(subtractCounterShardsSQL, minus.videos, minus.slots, minus.likes, minus.dislikes, int64(n)).
			Query(att.collectShards(done, new(int64)))
	}
	if len(plus.slots) > 0 {
		batch.Queue(addCounterShardsSQL, plus.videos, plus.slots, plus.likes, plus.dislikes).
			Query(att.collectShards(done))
	}
}

// collectShards remembers the counter shards that a statement returns. rest are
// columns behind theirs.
func (att *attempt) collectShards(done func(), rest ...any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var video VideoID
		var shard CounterShard
		columns := append([]any{&video, &shard.Slot, &shard.Likes, &shard.Dislikes, &shard.Rev}, rest...)
		_, err := pgx.ForEachRow(rows, columns, func() error {
			att.shards[shardKey{video, shard.Slot}] = shard
			return nil
		})
		if err == nil {
			done()
		}
		return err
	}
}

// queueRecords keeps the results of requests that carried a key.
func (a *attempter) queueRecords(batch *pgx.Batch, att *attempt, done func()) {
	if len(att.plan.records) == 0 {
		return
	}
	var q question
	var hashes [][]byte
	var previous, reactions []int16
	var versions []int64
	var changed []bool
	for k, r := range att.plan.records {
		q.addRecord(k)
		hashes = append(hashes, r.hash)
		previous = append(previous, int16(r.result.Previous))
		reactions = append(reactions, int16(r.result.Reaction))
		versions = append(versions, r.result.Version)
		changed = append(changed, r.result.Changed)
	}
	batch.Queue(insertIdempotencySQL, q.recordSlots, q.recordUsers, q.recordVideos, q.recordNames,
		hashes, previous, reactions, versions, changed, a.cfg.KeyLifetime.Seconds()).Exec(counted(done))
}

func counted(done func()) func(pgconn.CommandTag) error {
	return func(pgconn.CommandTag) error {
		done()
		return nil
	}
}

// expectCommit fails where the database answered something else, as it answers
// ROLLBACK to the COMMIT of a transaction that had failed.
func expectCommit(done func()) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return fmt.Errorf("COMMIT was answered with %q", tag)
		}
		done()
		return nil
	}
}
