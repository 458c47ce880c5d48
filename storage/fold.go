package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

type (
	// key names one register.
	key struct {
		slot  Slot
		video VideoID
		user  UserID
	}
	// shardKey names one counter shard.
	shardKey struct {
		video VideoID
		slot  Slot
	}
	// recordKey names one idempotency record.
	recordKey struct {
		key  key
		name string
	}
)

func (s Set) key() key             { return key{s.Slot, s.Video, s.User} }
func (s Set) recordKey() recordKey { return recordKey{s.key(), s.IdempotencyKey} }

// row is a reaction as it was read, and as the batch has left it so far.
type row struct {
	State
	counterSlot Slot
	versionRead int64 // 0: there was no row
	changed     bool
}

// record is what an idempotency key stands for.
type record struct {
	hash   []byte
	result Result // previous, reaction, version, changed
}

// snapshot is what a transaction read under the heads' lock.
type snapshot struct {
	heads   map[Slot]int64 // next offset
	videos  map[VideoID]VideoState
	rows    map[key]*row
	records map[recordKey]record
}

// change is one transition, as the log has it.
type change struct {
	key
	offset      int64
	previous    Reaction
	next        Reaction
	version     int64
	counterSlot Slot
}

// verdict is the answer to one Set of a batch, once the batch has committed.
type verdict struct {
	result Result
	shard  *shardKey // the counter shard that the Set changed
	err    error
}

// plan is all that a transaction writes, and what it will answer.
type plan struct {
	heads    map[Slot]int64 // as read, of the slots that change
	next     map[Slot]int64 // the same, after the changes
	rows     map[key]*row
	changes  []change
	deltas   map[shardKey]Delta
	records  map[recordKey]record
	verdicts []verdict
}

// fold applies a batch to what was read, in order of arrival, and decides all
// there is to decide. It is pure but for writing to snap.rows. counterSlot says
// where a reaction is counted that was NONE before.
func fold(sets []Set, snap snapshot, counterSlot func(VideoID, Slot) Slot) *plan {
	p := &plan{
		heads:    map[Slot]int64{},
		next:     map[Slot]int64{},
		rows:     map[key]*row{},
		deltas:   map[shardKey]Delta{},
		records:  map[recordKey]record{},
		verdicts: make([]verdict, len(sets)),
	}
	for i, set := range sets {
		p.verdicts[i] = p.apply(set, snap, counterSlot)
	}
	return p
}

// apply checks in the order of the contract: idempotency, state of the video,
// expected version; each against what the batch has made of it so far.
func (p *plan) apply(set Set, snap snapshot, counterSlot func(VideoID, Slot) Slot) verdict {
	if set.IdempotencyKey != "" {
		if found, ok := p.record(set, snap); ok {
			return replay(set, found)
		}
	}
	if state, ok := snap.videos[set.Video]; ok && state != VideoActive {
		return verdict{err: &VideoStateError{State: state}}
	}
	r := snap.rows[set.key()]
	if r == nil {
		r = &row{}
		snap.rows[set.key()] = r
	}
	if !r.meets(set.ExpectedVersion) {
		return verdict{err: &VersionMismatchError{Current: r.State}}
	}
	v := p.transit(set, r, snap, counterSlot)
	if set.IdempotencyKey != "" {
		p.records[set.recordKey()] = record{hash: set.hash(), result: v.result}
	}
	return v
}

func (p *plan) record(set Set, snap snapshot) (record, bool) {
	if found, ok := p.records[set.recordKey()]; ok {
		return found, true
	}
	found, ok := snap.records[set.recordKey()]
	return found, ok
}

func replay(set Set, found record) verdict {
	if !bytes.Equal(found.hash, set.hash()) {
		return verdict{err: &KeyReusedError{Key: set.IdempotencyKey}}
	}
	return verdict{result: found.result}
}

// meets reports whether the row has the expected version. Version 0 means NONE,
// with or without a tombstone.
func (r *row) meets(expected *int64) bool {
	switch {
	case expected == nil:
		return true
	case *expected == 0:
		return r.Reaction == None
	default:
		return r.Version == *expected
	}
}

// transit moves the row to the desired reaction, and writes down the change.
func (p *plan) transit(set Set, r *row, snap snapshot, counterSlot func(VideoID, Slot) Slot) verdict {
	previous := r.Reaction
	delta := transition(previous, set.Desired)
	result := Result{Previous: previous, Reaction: set.Desired, Version: r.Version, Changed: delta != Delta{}}
	if !result.Changed {
		return verdict{result: result}
	}
	offset := p.nextOffset(set.Slot, snap)
	if r.Version == 0 {
		r.Version = offset // above every version that the key ever had
	} else {
		r.Version++
	}
	if previous == None || !guardCounterSlot {
		r.counterSlot = counterSlot(set.Video, set.Slot)
	}
	r.Reaction, r.changed = set.Desired, true
	result.Version = r.Version
	shard := shardKey{set.Video, r.counterSlot}
	p.rows[set.key()] = r
	p.deltas[shard] = p.deltas[shard].plus(delta)
	p.changes = append(p.changes, change{
		key: set.key(), offset: offset, previous: previous, next: set.Desired,
		version: r.Version, counterSlot: r.counterSlot,
	})
	return verdict{result: result, shard: &shard}
}

// nextOffset takes the next offset of a slot's log.
func (p *plan) nextOffset(slot Slot, snap snapshot) int64 {
	if _, ok := p.next[slot]; !ok {
		p.heads[slot], p.next[slot] = snap.heads[slot], snap.heads[slot]
	}
	offset := p.next[slot]
	p.next[slot]++
	return offset
}

// shards returns the keys of the counter shards that the plan writes: first
// those with a delta that subtracts, then the others, each in key order.
func (p *plan) shards() (subtract, add []shardKey) {
	for shard, delta := range p.deltas {
		if delta.subtracts() {
			subtract = append(subtract, shard)
		} else {
			add = append(add, shard)
		}
	}
	slices.SortFunc(subtract, compareShards)
	slices.SortFunc(add, compareShards)
	return subtract, add
}

func compareShards(a, b shardKey) int {
	if c := strings.Compare(string(a.video), string(b.video)); c != 0 {
		return c
	}
	return int(a.slot - b.slot)
}

// hash covers what must be equal for a repeat to be the same request.
func (s Set) hash() []byte {
	text := make([]byte, 0, 11)
	text = binary.BigEndian.AppendUint16(text, uint16(s.Desired)) //nolint:gosec // one of three
	if s.ExpectedVersion != nil {
		text = append(text, 1)
		text = binary.BigEndian.AppendUint64(text, uint64(*s.ExpectedVersion)) //nolint:gosec // same bits
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
