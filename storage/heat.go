package storage

import (
	"math"
	"sync"
	"time"
)

const (
	// A video is hot when this many of its writes are between their locks and
	// their commit on average, and cold again below the lower bound. Between the
	// two it stays what it was, so that it does not flicker.
	hotFrom   = 0.5
	coldBelow = 0.1

	// heatMemory is over what time writes are averaged.
	heatMemory = time.Second

	// heatVideos bounds the videos that are measured. Beyond it those that have
	// cooled down are forgotten, and if that is not enough, new ones are cold.
	heatVideos = 16384
)

// heat measures how far the commits of each video overlap at this node: writes
// per second times the seconds that a commit holds its locks (Little's law). It
// is safe for concurrent use. Nothing of it is stored or agreed on, and wherever
// a reaction is counted is right.
type heat struct {
	hotFrom float64 // the constant, but for tests that want no video hot

	mu     sync.Mutex
	videos map[VideoID]*warmth // guarded by mu
	hold   time.Duration       // guarded by mu; smoothed time of a write phase
	swept  time.Time           // guarded by mu; when the cold were last forgotten
}

// warmth is the decayed rate of one video's writes.
type warmth struct {
	perSecond float64
	at        time.Time
	hot       bool
}

func newHeat() *heat { return &heat{hotFrom: hotFrom, videos: map[VideoID]*warmth{}} }

// slot chooses the counter shard of a reaction that was NONE: the key's own if
// the video is hot, so that its commits share no row, otherwise the cold one.
func (h *heat) slot(video VideoID, own, cold Slot) Slot {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.videos[video]; w != nil && w.hot {
		return own
	}
	return cold
}

// observe takes note of a transaction: what it changed, how long it held its
// locks, and when it ended.
func (h *heat) observe(changes []change, held time.Duration, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold == 0 {
		h.hold = held
	}
	h.hold += (held - h.hold) / 16
	for _, c := range changes {
		h.warm(c.video, now)
	}
	for _, c := range changes {
		if w := h.videos[c.video]; w != nil {
			w.judge(h.hold, h.hotFrom)
		}
	}
}

// warm is called with mu held.
func (h *heat) warm(video VideoID, now time.Time) {
	w := h.videos[video]
	if w == nil {
		if len(h.videos) >= heatVideos && !h.forget(now) {
			return
		}
		w = &warmth{at: now}
		h.videos[video] = w
	}
	w.decay(now)
	w.perSecond += 1 / heatMemory.Seconds()
}

// forget drops the videos that have cooled down, at most once in the memory's
// time. It is called with mu held.
func (h *heat) forget(now time.Time) bool {
	if now.Sub(h.swept) < heatMemory {
		return false
	}
	h.swept = now
	for video, w := range h.videos {
		if w.decay(now); w.perSecond*h.hold.Seconds() < coldBelow {
			delete(h.videos, video)
		}
	}
	return len(h.videos) < heatVideos
}

func (w *warmth) decay(now time.Time) {
	if passed := now.Sub(w.at); passed > 0 {
		w.perSecond *= math.Exp(-passed.Seconds() / heatMemory.Seconds())
		w.at = now
	}
}

func (w *warmth) judge(hold time.Duration, hotFrom float64) {
	switch overlap := w.perSecond * hold.Seconds(); {
	case overlap >= hotFrom:
		w.hot = true
	case overlap < coldBelow:
		w.hot = false
	}
}
