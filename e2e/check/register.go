package check

import (
	"hash/maphash"
	"slices"

	"likewise/storage"
)

// version is a version that may not be known yet. With base 0 it is n. Another
// base stands for the version of a row that an operation of unknown outcome
// made: the version is that unknown number plus n. The first operation that
// sees it resolves the base.
type version struct {
	base int
	n    int64
}

// memo is the kept result of an idempotency key.
type memo struct {
	key      string
	previous storage.Reaction
	reaction storage.Reaction
	version  version
	changed  bool
}

// register is the state of one (video, user) in the model. A register is never
// changed: its methods return new ones, several where more than one thing may
// have happened, none where nothing can.
type register struct {
	reaction storage.Reaction
	version  version // zero: there is neither row nor tombstone
	floor    int64   // the highest version that the key is known to have had
	bases    int     // how many unknown versions there were
	memory   []memo  // sorted by key
	// witnessed is how many operations that bear witness saw this version.
	witnessed int
}

func (r register) hasRow() bool { return r.version != version{} }

func (r register) equal(s register) bool {
	return r.reaction == s.reaction && r.version == s.version && r.floor == s.floor && r.bases == s.bases &&
		r.witnessed == s.witnessed &&
		slices.Equal(r.memory, s.memory)
}

func (r register) hash(seed maphash.Seed) uint64 {
	type summary struct {
		reaction storage.Reaction
		version  version
		floor    int64
		kept     int
		seen     int
	}
	return maphash.Comparable(seed, summary{r.reaction, r.version, r.floor, len(r.memory), r.witnessed})
}

// see returns the register if it may have been seen as in this state.
func see(r register, reaction storage.Reaction, v int64) []register {
	if r.reaction != reaction {
		return nil
	}
	if r.hasRow() != (v > 0) {
		return nil
	}
	if v == 0 {
		return []register{r}
	}
	return r.pin(r.version, v)
}

// pin returns the register with the given version known to be v.
func (r register) pin(given version, v int64) []register {
	if given.base == 0 {
		if given.n != v {
			return nil
		}
		return []register{r}
	}
	made := v - given.n
	if made < 1 || given.base == r.version.base && made <= r.floor {
		return nil // a new row starts above every version the key ever had
	}
	return []register{r.resolve(given.base, made)}
}

// resolve replaces a base by the version that it stands for.
func (r register) resolve(base int, made int64) register {
	if r.version.base == base {
		r.version = version{n: r.version.n + made}
		r.floor = max(r.floor, r.version.n)
	}
	r.memory = slices.Clone(r.memory)
	for i, kept := range r.memory {
		if kept.version.base == base {
			r.memory[i].version = version{n: kept.version.n + made}
		}
	}
	return r
}

// meets splits the register into those whose version is as expected, and those
// whose version is not.
func (r register) meets(expected *int64) (yes, no []register) {
	switch {
	case expected == nil, *expected == 0 && r.reaction == storage.None:
		return []register{r}, nil
	case *expected == 0, !r.hasRow():
		return nil, []register{r}
	}
	yes = r.pin(r.version, *expected)
	if len(yes) == 0 || r.version.base != 0 {
		no = []register{r}
	}
	return yes, no
}

// become returns what the register may be after a Set that is carried out.
func (m model) become(r register, op Op) []register {
	if r.reaction == op.Desired {
		return []register{r}
	}
	if !m.mayLeave(r) {
		return nil
	}
	var next []register
	if bumped := r.bump(op.Desired); r.hasRow() && m.mayMake(bumped.version, op) {
		next = append(next, bumped)
	}
	if !r.hasRow() {
		next = append(next, r.renew(op.Desired))
	}
	return next
}

// bump changes a row that is there.
func (r register) bump(desired storage.Reaction) register {
	r.reaction, r.witnessed = desired, 0
	r.version.n++
	if r.version.base == 0 {
		r.floor = r.version.n
	}
	return r
}

// renew makes a row whose version nobody knows yet.
func (r register) renew(desired storage.Reaction) register {
	r.reaction, r.witnessed = desired, 0
	r.bases++
	r.version = version{base: r.bases}
	return r
}

// recall finds the kept result of an idempotency key.
func (r register) recall(key string) (memo, bool) {
	i, ok := slices.BinarySearchFunc(r.memory, key, compareMemo)
	if !ok {
		return memo{}, false
	}
	return r.memory[i], true
}

// remember keeps the result of an idempotency key.
func (r register) remember(kept memo) register {
	i, _ := slices.BinarySearchFunc(r.memory, kept.key, compareMemo)
	r.memory = slices.Insert(slices.Clone(r.memory), i, kept)
	return r
}

func compareMemo(m memo, key string) int {
	switch {
	case m.key < key:
		return -1
	case m.key > key:
		return 1
	default:
		return 0
	}
}
