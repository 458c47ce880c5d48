// Package audit compares what nodes show with what the database stores and
// with what a recount of the reactions gives.
package audit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	"likewise/e2e/traffic"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

const (
	// Parallel is how many videos are looked at at once.
	Parallel = 8
	// page is how many videos are listed at once.
	page = 500
	// looks is how often a video that is not found right is looked at.
	looks = 10
	// pauseBetweenLooks gives a burst of writes time to pass.
	pauseBetweenLooks = 50 * time.Millisecond
	// callTimeout bounds one read of counts.
	callTimeout = 10 * time.Second
)

// Door is a node's front door: http://host:port or https://host:port.
type Door struct{ Name, URL string }

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
	// Deleted means that some node shows no counts, because the video is deleted.
	Deleted bool `json:"deleted,omitempty"`
	// Changing means that the reactions changed at every look, so that what is
	// shown and what is recounted are of different moments and prove nothing.
	// Stored and Recount are of one moment and compare even so.
	Changing bool `json:"changing,omitempty"`
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

// wrong reports whether the row proves a fault.
func (r Row) wrong() bool { return r.Stored != r.Recount || !r.Changing && !r.right() }

// Report is the outcome of a check.
type Report struct {
	Checked int
	// Rows holds each video that was asked for by name, and each that was not
	// found right.
	Rows []Row
}

// Wrong returns the rows that differ.
func (r Report) Wrong() []Row {
	wrong := []Row{} // an empty list in JSON, not null
	for _, row := range r.Rows {
		if row.wrong() {
			wrong = append(wrong, row)
		}
	}
	return wrong
}

// Changing is how many videos changed too fast to compare what is shown.
func (r Report) Changing() int {
	n := 0
	for _, row := range r.Rows {
		if row.Changing {
			n++
		}
	}
	return n
}

// Differences is how many videos differ.
func (r Report) Differences() int { return len(r.Wrong()) }

type store interface {
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
		a.clients = append(a.clients, likewisev1connect.NewReactionServiceClient(client, door.URL))
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
		all.Rows = append(all.Rows, slices.DeleteFunc(report.Rows, Row.right)...)
		after = videos[len(videos)-1]
		progress(all.Checked)
	}
}

// Videos checks the videos. Each is looked at until it is found right, a few
// times at most: under traffic, what is shown and what is recounted are of
// different moments.
func (a *Auditor) Videos(ctx context.Context, videos []storage.VideoID) (Report, error) {
	report := Report{Checked: len(videos), Rows: make([]Row, len(videos))}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(Parallel)
	for i, video := range videos {
		g.Go(func() (err error) {
			report.Rows[i], err = a.video(ctx, video)
			return err
		})
	}
	return report, g.Wait()
}

func (a *Auditor) video(ctx context.Context, video storage.VideoID) (Row, error) {
	for look := 1; ; look++ {
		row, err := a.look(ctx, video)
		if err != nil || row.right() || look == looks {
			return row, err
		}
		pause(ctx, pauseBetweenLooks)
	}
}

// look recounts before and after it reads what is shown. If both are equal,
// what is shown must be, too.
func (a *Auditor) look(ctx context.Context, video storage.VideoID) (Row, error) {
	before, err := a.store.Recount(ctx, video)
	if err != nil {
		return Row{}, err
	}
	shown, err := a.shown(ctx, string(video))
	if err != nil {
		return Row{}, err
	}
	after, err := a.store.Recount(ctx, video)
	if err != nil {
		return Row{}, err
	}
	shown = slices.DeleteFunc(shown, func(s Shown) bool { return s.Door == "" })
	return Row{
		Video: string(video), Shown: shown, Changing: before != after, Deleted: len(shown) < len(a.doors),
		Stored: Tally(after.Stored), Recount: Tally(after.Rows),
	}, nil
}

// shown asks every door at once, and past its cache: a staleness of 0 is met by
// a load only that begins after the question came. What a door says of a deleted
// video stays empty.
func (a *Auditor) shown(ctx context.Context, video string) ([]Shown, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	shown := make([]Shown, len(a.doors))
	g, ctx := errgroup.WithContext(ctx)
	for i, client := range a.clients {
		g.Go(func() error {
			reply, err := client.GetCounts(traffic.WithToken(ctx, a.token), &likewisev1.GetCountsRequest{
				VideoId: video, MaxStaleness: durationpb.New(0),
			})
			if isDeleted(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("asking %s for the counts of %q: %w", a.doors[i].Name, video, err)
			}
			counts := reply.GetCounts()
			shown[i] = Shown{a.doors[i].Name, Tally{Likes: counts.GetLikes(), Dislikes: counts.GetDislikes()}}
			return nil
		})
	}
	return shown, g.Wait()
}

// isDeleted reports whether an answer is that the video is deleted.
func isDeleted(err error) bool {
	refused, ok := errors.AsType[*connect.Error](err)
	return ok && refused.Code() == connect.CodeNotFound && slices.ContainsFunc(refused.Details(), func(d *connect.ErrorDetail) bool {
		detail, err := d.Value()
		_, named := detail.(*likewisev1.VideoNotActive)
		return err == nil && named
	})
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
