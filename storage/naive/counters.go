package naive

import (
	"context"
	"fmt"

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
// writes in that time is overwritten.
func applyReadThenWrite(ctx context.Context, pool *pgxpool.Pool, events []Event) error {
	for _, e := range events {
		if err := readThenWrite(ctx, pool, e); err != nil {
			return err
		}
	}
	return nil
}

func readThenWrite(ctx context.Context, pool *pgxpool.Pool, e Event) error {
	now, err := readTally(ctx, pool, e.Video)
	if err != nil {
		return fmt.Errorf("reading the counts of %q: %w", e.Video, err)
	}
	d := e.delta()
	now.Likes += d.Likes
	now.Dislikes += d.Dislikes
	if _, err := pool.Exec(ctx, writeSQL, string(e.Video), now.Likes, now.Dislikes); err != nil {
		return fmt.Errorf("writing the counts of %q: %w", e.Video, err)
	}
	return nil
}

// readTally returns zero counts for a video without a row.
func readTally(ctx context.Context, pool *pgxpool.Pool, video storage.VideoID) (storage.Tally, error) {
	rows, err := pool.Query(ctx, readSQL, string(video))
	if err != nil {
		return storage.Tally{}, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storage.Tally])
	if err != nil || len(found) == 0 {
		return storage.Tally{}, err
	}
	return found[0], nil
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
