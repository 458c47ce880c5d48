package naive

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"likewise/storage"
)

// Event is one request as an application tells it to its counter.
type Event struct {
	Video storage.VideoID
	// From is what the user's device believes the reaction was, To what it is
	// now.
	From, To storage.Reaction
}

// delta is what an event adds to a video's counts.
func (e Event) delta() storage.Tally {
	after, before := tallyOf(e.To), tallyOf(e.From)
	return storage.Tally{Likes: after.Likes - before.Likes, Dislikes: after.Dislikes - before.Dislikes}
}

func tallyOf(r storage.Reaction) storage.Tally {
	switch r {
	case storage.Like:
		return storage.Tally{Likes: 1}
	case storage.Dislike:
		return storage.Tally{Dislikes: 1}
	default:
		return storage.Tally{}
	}
}

const blindSQL = `
INSERT INTO naive_blind AS b (video_id, likes, dislikes) VALUES ($1, $2, $3)
ON CONFLICT (video_id) DO UPDATE
SET likes = b.likes + excluded.likes, dislikes = b.dislikes + excluded.dislikes`

const (
	readSQL  = `SELECT likes, dislikes FROM naive_read_then_write WHERE video_id = $1`
	writeSQL = `
INSERT INTO naive_read_then_write (video_id, likes, dislikes) VALUES ($1, $2, $3)
ON CONFLICT (video_id) DO UPDATE
SET likes = excluded.likes, dislikes = excluded.dislikes`
)

// applyBlind adds the deltas of events, in one round trip. Each UPDATE is
// atomic, so nothing is lost; what is wrong is that an event is added as often as
// it arrives.
func applyBlind(ctx context.Context, pool *pgxpool.Pool, events []Event) error {
	batch := &pgx.Batch{}
	for _, e := range events {
		d := e.delta()
		batch.Queue(blindSQL, string(e.Video), d.Likes, d.Dislikes)
	}
	if err := pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("adding blindly: %w", err)
	}
	return nil
}

// applyReadThenWrite reads, adds and writes without a lock in between: whoever
// writes in that time is overwritten. Events of different videos go together,
// as those of so many users at once would; those of one video one by one.
func applyReadThenWrite(ctx context.Context, pool *pgxpool.Pool, events []Event) error {
	for len(events) > 0 {
		var now, later []Event
		seen := map[storage.VideoID]bool{}
		for _, e := range events {
			if seen[e.Video] {
				later = append(later, e)
				continue
			}
			seen[e.Video] = true
			now = append(now, e)
		}
		if err := readThenWrite(ctx, pool, now); err != nil {
			return err
		}
		events = later
	}
	return nil
}

// readThenWrite handles one event of each of several videos.
func readThenWrite(ctx context.Context, pool *pgxpool.Pool, events []Event) error {
	// In one order, so that those who write together do not deadlock.
	slices.SortFunc(events, func(a, b Event) int { return strings.Compare(string(a.Video), string(b.Video)) })
	counts := make([]storage.Tally, len(events)) // zero for a video without a row
	reads := &pgx.Batch{}
	for i, e := range events {
		reads.Queue(readSQL, string(e.Video)).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&counts[i].Likes, &counts[i].Dislikes}, func() error { return nil })
			return err
		})
	}
	if err := pool.SendBatch(ctx, reads).Close(); err != nil {
		return fmt.Errorf("reading counts: %w", err)
	}
	writes := &pgx.Batch{}
	for i, e := range events {
		d := e.delta()
		writes.Queue(writeSQL, string(e.Video), counts[i].Likes+d.Likes, counts[i].Dislikes+d.Dislikes)
	}
	if err := pool.SendBatch(ctx, writes).Close(); err != nil {
		return fmt.Errorf("writing counts: %w", err)
	}
	return nil
}

// OffBy is Σ |counted − recount| over videos, likes and dislikes. A video that
// only one side knows counts as zero on the other.
func OffBy(counted, recount map[storage.VideoID]storage.Tally) int64 {
	var sum int64
	for video, c := range counted {
		sum += distance(c, recount[video])
	}
	for video, r := range recount {
		if _, ok := counted[video]; !ok {
			sum += distance(storage.Tally{}, r)
		}
	}
	return sum
}

func distance(a, b storage.Tally) int64 {
	return abs(a.Likes-b.Likes) + abs(a.Dislikes-b.Dislikes)
}

func abs(n int64) int64 { return max(n, -n) }
