// Package audit compares what nodes show with what the database stores and
// with what a recount of the reactions gives.
package audit

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"likewise/e2e/traffic"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

const (
	// Parallel is how many connections to one node an audit keeps busy.
	Parallel = 64
	// page is how many videos are checked at once.
	page = 500
	// looks is how often a video that differs is looked at again: under
	// traffic, what is shown and what is recounted are of different moments.
	looks = 5
	// pauseBetweenLooks gives a cache time to load anew.
	pauseBetweenLooks = 200 * time.Millisecond
)

// Door is a node's front door.
type Door struct{ Name, Addr string }

// Shown is what one node shows of a video.
type Shown struct {
	Door string `json:"node"`
	Tally
}

// Tally is a pair of counts.
type Tally struct {
	Likes    int64 `json:"likes"`
	Dislikes int64 `json:"dislikes"`
}

// Row is one video, as it was looked at last.
type Row struct {
	Video   string  `json:"video"`
	Stored  Tally   `json:"stored"`
	Recount Tally   `json:"recount"`
	Shown   []Shown `json:"shown"`
}

// Right reports whether a node shows what a recount gives, and so does what is
// stored.
func (r Row) Right(shown Shown) bool { return shown.Tally == r.Recount && r.Stored == r.Recount }

func (r Row) right() bool {
	for _, shown := range r.Shown {
		if !r.Right(shown) {
			return false
		}
	}
	return r.Stored == r.Recount
}

// Report is the outcome of a check.
type Report struct {
	Checked int
	// Rows holds each video that was asked for by name, and each that differs.
	Rows []Row
}

// Wrong returns the rows that differ.
func (r Report) Wrong() []Row {
	wrong := []Row{} // an empty list in JSON, not null
	for _, row := range r.Rows {
		if !row.right() {
			wrong = append(wrong, row)
		}
	}
	return wrong
}

// Differences is how many videos differ.
func (r Report) Differences() int { return len(r.Wrong()) }

type store interface {
	Now(context.Context) (time.Time, error)
	Recount(context.Context, storage.VideoID) (storage.Recount, error)
	Videos(ctx context.Context, after storage.VideoID, limit int) ([]storage.VideoID, error)
}

// Auditor checks videos on some nodes. It is safe for concurrent use.
type Auditor struct {
	store   store
	doors   []Door
	clients []likewisev1connect.ReactionServiceClient
	token   string
}

// New returns an Auditor that closes none of what it is given. token may be
// empty where counts are public.
func New(store store, doors []Door, client *http.Client, token string) *Auditor {
	a := &Auditor{store: store, doors: doors, token: token}
	for _, door := range doors {
		a.clients = append(a.clients, traffic.Dial(client, door.Addr))
	}
	return a
}

// All checks every video, page by page, and calls progress after each page with
// the number of videos checked so far.
func (a *Auditor) All(ctx context.Context, progress func(int)) (Report, error) {
	var all Report
	var after storage.VideoID
	for {
		videos, err := a.store.Videos(ctx, after, page)
		if err != nil || len(videos) == 0 {
			return all, err
		}
		report, err := a.Videos(ctx, videos)
		if err != nil {
			return all, err
		}
		all.Checked += report.Checked
		all.Rows = append(all.Rows, report.Wrong()...)
		after = videos[len(videos)-1]
		progress(all.Checked)
	}
}

// Videos checks the videos. One that differs is looked at again, a few times.
func (a *Auditor) Videos(ctx context.Context, videos []storage.VideoID) (Report, error) {
	report := Report{Checked: len(videos), Rows: make([]Row, len(videos))}
	open := indexes(len(videos))
	for look := 0; look < looks && len(open) > 0; look++ {
		if look > 0 {
			pause(ctx, pauseBetweenLooks)
		}
		if err := a.look(ctx, videos, open, report.Rows); err != nil {
			return Report{}, err
		}
		open = stillWrong(report.Rows, open)
	}
	return report, nil
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func stillWrong(rows []Row, open []int) []int {
	var wrong []int
	for _, i := range open {
		if !rows[i].right() {
			wrong = append(wrong, i)
		}
	}
	return wrong
}

// look fills in the rows of the open videos: what is shown as of now or later,
// and then what is stored and recounted.
func (a *Auditor) look(ctx context.Context, videos []storage.VideoID, open []int, rows []Row) error {
	now, err := a.store.Now(ctx)
	if err != nil {
		return err
	}
	names := make([]string, len(open))
	for i, v := range open {
		names[i] = string(videos[v])
		rows[v] = Row{Video: names[i]}
	}
	for d, client := range a.clients {
		shown, err := traffic.ShownBy(ctx, client, a.token, names, now)
		if err != nil {
			return fmt.Errorf("reading what %s shows: %w", a.doors[d].Name, err)
		}
		for _, v := range open {
			tally := Tally(shown[rows[v].Video])
			rows[v].Shown = append(rows[v].Shown, Shown{a.doors[d].Name, tally})
		}
	}
	for _, v := range open {
		recount, err := a.store.Recount(ctx, videos[v])
		if err != nil {
			return err
		}
		rows[v].Stored, rows[v].Recount = Tally(recount.Stored), Tally(recount.Rows)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
