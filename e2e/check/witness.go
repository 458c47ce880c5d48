package check

// witnesses is what a whole history says of its versions. A version is left
// once and never comes back, so an order that leaves it before everyone who saw
// it has had their turn explains nothing. Without that the search would find out
// only at the end, and try every order of a crowd first.
type witnesses struct {
	seen map[int64]int  // how many operations saw a version
	made map[int64]bool // whether one that was told so made it
}

// witnesses counts. Operations that may have been told the result of another
// one say nothing of when they took effect.
func (m model) witnesses(ops []Op) witnesses {
	w := witnesses{seen: map[int64]int{}, made: map[int64]bool{}}
	for _, op := range ops {
		if m.bearsWitness(op) {
			w.seen[op.Result.Version]++
			w.made[op.Result.Version] = w.made[op.Result.Version] || op.Result.Changed
		}
	}
	return w
}

// bearsWitness reports whether the operation took effect while its key had the
// version that it was told. Version 0 comes back where tombstones are swept.
func (m model) bearsWitness(op Op) bool {
	return op.knows() && !m.repeated[op.IdempotencyKey] && (op.Result.Version > 0 || !m.sweeps)
}

// mayLeave reports whether everyone who saw the register's version has.
func (m model) mayLeave(r register) bool {
	switch {
	case r.version.base != 0: // a version that nobody was told of so far
		return true
	case r.version.n == 0 && m.sweeps:
		return true
	default:
		return r.witnessed == m.told.seen[r.version.n]
	}
}

// mayMake reports whether the operation may make a version: one that knows what
// it made makes that and nothing else, and it alone.
func (m model) mayMake(v version, op Op) bool {
	return v.base != 0 || m.bearsWitness(op) || !m.told.made[v.n]
}

// reduced returns a history without the readers that decide nothing. A version
// is there from one moment to another, without a break; so of all that saw it
// and left it as it was, only the one that returned first and the one that was
// called last say how late it came and how early it went.
func (m model) reduced(ops []Op) []Op {
	first, last := map[Result]int{}, map[Result]int{}
	for i, op := range ops {
		if !m.onlySaw(op) {
			continue
		}
		if at, known := first[op.state()]; !known || op.Return < ops[at].Return {
			first[op.state()] = i
		}
		if at, known := last[op.state()]; !known || op.Call > ops[at].Call {
			last[op.state()] = i
		}
	}
	var kept []Op
	for i, op := range ops {
		if !m.onlySaw(op) || first[op.state()] == i || last[op.state()] == i {
			kept = append(kept, op)
		}
	}
	return kept
}

// onlySaw reports whether the operation bears witness and says no more than
// what the state was.
func (m model) onlySaw(op Op) bool {
	switch {
	case !m.bearsWitness(op):
		return false
	case op.Kind == Get:
		return true
	case op.Outcome == Refused:
		return op.Expected != nil && *op.Expected > 0 && *op.Expected != op.Result.Version
	default:
		return op.Expected == nil && !op.Result.Changed && op.Result.Previous == op.Desired && op.Result.Reaction == op.Desired
	}
}

func (o Op) state() Result { return Result{Reaction: o.Result.Reaction, Version: o.Result.Version} }
