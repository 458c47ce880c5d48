package storage

import "fmt"

type (
	// VideoID names what is reacted to. It is opaque and compared byte by byte.
	VideoID string
	// UserID names who reacts. It is opaque and compared byte by byte.
	UserID string
	// Slot is the partition of the key space in which a (video, user) lies:
	// 0 to Slots-1. It is always routing.SlotOf of the two ids.
	Slot int64
)

// Slots is how many slots there are. It never changes.
const Slots = 256

// Reaction is the state of one (video, user). The numbers are stored.
type Reaction int16

// The reactions. None is the state of a key that has no row.
const (
	None    Reaction = 0
	Like    Reaction = 1
	Dislike Reaction = 2
)

// Valid reports whether r is one of the three reactions.
func (r Reaction) Valid() bool { return r >= None && r <= Dislike }

// String returns the reaction's name in the public API.
func (r Reaction) String() string {
	switch r {
	case None:
		return "NONE"
	case Like:
		return "LIKE"
	case Dislike:
		return "DISLIKE"
	default:
		return fmt.Sprintf("Reaction(%d)", int16(r))
	}
}

// VideoState says whether a video takes reactions. The numbers are stored.
type VideoState int16

// The states of a video. A video without a row is active.
const (
	VideoActive   VideoState = 1
	VideoDisabled VideoState = 2
	VideoDeleted  VideoState = 3
)
