package routing

import (
	"crypto/sha256"
	"strconv"
)

// Slot is the partition of the key space in which a (video, user) lies.
type Slot uint8

// Slots is how many slots there are. It never changes: reactions are stored
// under their slot.
const Slots = 256

// String returns the slot's number.
func (s Slot) String() string { return strconv.Itoa(int(s)) }

// maxKey is the longest key that is hashed without an allocation: two ids of
// 128 bytes and the byte between them.
const maxKey = 128 + 1 + 128

// SlotOf returns the slot of what user thinks of video: the first byte of
//
//	SHA-256(video || 0x00 || user)
//
// It is a pure function of the two ids that never changes. The zero byte, which
// no valid id holds, keeps ("ab", "c") and ("a", "bc") apart. Anyone can check
// it, in a shell
//
//	printf '%s\0%s' "$video" "$user" | sha256sum | cut -c1-2
//
// or in PostgreSQL
//
//	get_byte(sha256(video::bytea || '\x00'::bytea || "user"::bytea), 0)
func SlotOf(video, user string) Slot {
	key := make([]byte, 0, maxKey)
	key = append(key, video...)
	key = append(key, 0)
	key = append(key, user...)
	sum := sha256.Sum256(key)
	return Slot(sum[0])
}
