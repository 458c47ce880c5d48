package storage

// Delta is what a transition adds to the counts of its video.
type Delta struct{ Likes, Dislikes int64 }

// transition is the only place that knows what a change of one reaction does to
// the counts. It is zero exactly if nothing changes.
func transition(previous, desired Reaction) Delta {
	return contribution(desired).minus(contribution(previous))
}

// contribution is what one reaction counts for: it is in at most one counter.
func contribution(r Reaction) Delta {
	switch r {
	case Like:
		return Delta{Likes: 1}
	case Dislike:
		return Delta{Dislikes: 1}
	default:
		return Delta{}
	}
}

func (d Delta) plus(e Delta) Delta  { return Delta{d.Likes + e.Likes, d.Dislikes + e.Dislikes} }
func (d Delta) minus(e Delta) Delta { return Delta{d.Likes - e.Likes, d.Dislikes - e.Dislikes} }

// subtracts reports whether d takes something away, so that its counter shard
// must exist.
func (d Delta) subtracts() bool { return d.Likes < 0 || d.Dislikes < 0 }
