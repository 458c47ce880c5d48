package audit

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a database and a node in one.
type site struct {
	likewisev1connect.UnimplementedReactionServiceHandler

	mu       sync.Mutex
	recounts map[storage.VideoID]storage.Recount // guarded by mu
	shown    map[storage.VideoID]storage.Tally   // guarded by mu
	// writes, if not 0, is how many looks at a video a like comes between.
	writes  int             // guarded by mu
	deleted storage.VideoID // guarded by mu
}

func (s *site) Recount(_ context.Context, video storage.VideoID) (storage.Recount, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recounts[video], nil
}

func (s *site) Videos(_ context.Context, after storage.VideoID, limit int) ([]storage.VideoID, error) {
	var page []storage.VideoID
	for _, video := range []storage.VideoID{"a", "b", "c"} {
		if video > after && len(page) < min(limit, 2) {
			page = append(page, video)
		}
	}
	return page, nil
}

func (s *site) GetCounts(_ context.Context, req *likewisev1.GetCountsRequest) (*likewisev1.GetCountsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	video := storage.VideoID(req.GetVideoId())
	if video == s.deleted {
		return nil, deletedError()
	}
	tally := s.shown[video]
	if s.writes > 0 {
		s.writes--
		r := s.recounts[video]
		r.Rows.Likes++
		r.Stored.Likes++
		s.recounts[video] = r
		s.shown[video] = r.Rows
	}
	return &likewisev1.GetCountsResponse{Counts: &likewisev1.Counts{
		Likes: tally.Likes, Dislikes: tally.Dislikes, AsOf: timestamppb.Now(),
	}}, nil
}

func deletedError() error {
	refused := connect.NewError(connect.CodeNotFound, errors.New("the video is deleted"))
	if detail, err := connect.NewErrorDetail(&likewisev1.VideoNotActive{State: likewisev1.VideoState_DELETED}); err == nil {
		refused.AddDetail(detail)
	}
	return refused
}

func setup(t *testing.T) (*site, *Auditor) {
	t.Helper()
	same := storage.Tally{Likes: 3, Dislikes: 1}
	s := &site{
		recounts: make(map[storage.VideoID]storage.Recount),
		shown:    make(map[storage.VideoID]storage.Tally),
	}
	for _, video := range []storage.VideoID{"a", "b", "c"} {
		s.recounts[video], s.shown[video] = storage.Recount{Stored: same, Rows: same}, same
	}
	mux := http.NewServeMux()
	mux.Handle(likewisev1connect.NewReactionServiceHandler(s))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	addr := strings.TrimPrefix(server.URL, "http://")
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return s, New(s, []Door{{"eu-1", "http://" + addr}}, &http.Client{Transport: transport}, "")
}

func TestAuditor(t *testing.T) { // R51
	t.Parallel()

	t.Run("finds nothing where all are equal, over all pages", func(t *testing.T) {
		t.Parallel()
		_, a := setup(t)
		var progress []int
		report, err := a.All(t.Context(), func(n int) { progress = append(progress, n) })
		require.NoError(t, err)
		require.Equal(t, Report{Checked: 3}, report)
		require.Equal(t, []int{2, 3}, progress)
	})

	t.Run("finds a node that shows something else", func(t *testing.T) {
		t.Parallel()
		s, a := setup(t)
		s.shown["b"] = storage.Tally{Likes: 4, Dislikes: 1}
		report, err := a.All(t.Context(), func(int) {})
		require.NoError(t, err)
		require.Equal(t, 1, report.Differences())
		require.Equal(t, "b", report.Wrong()[0].Video)
	})

	t.Run("finds a stored count that is not the recount, even if it is shown", func(t *testing.T) {
		t.Parallel()
		s, a := setup(t)
		s.recounts["c"] = storage.Recount{Stored: storage.Tally{Likes: 3, Dislikes: 1}, Rows: storage.Tally{Likes: 2, Dislikes: 1}}
		report, err := a.Videos(t.Context(), []storage.VideoID{"a", "c"})
		require.NoError(t, err)
		require.Equal(t, 1, report.Differences())
		require.Len(t, report.Rows, 2, "videos asked for by name are listed, right or not")
	})

	t.Run("looks again while a video changes", func(t *testing.T) {
		t.Parallel()
		s, a := setup(t)
		s.writes = looks - 1
		report, err := a.Videos(t.Context(), []storage.VideoID{"a"})
		require.NoError(t, err)
		require.Zero(t, report.Differences())
		require.Zero(t, report.Changing())
	})

	t.Run("does not call a video wrong that changes all the time", func(t *testing.T) {
		t.Parallel()
		s, a := setup(t)
		s.writes = 1000
		report, err := a.Videos(t.Context(), []storage.VideoID{"a"})
		require.NoError(t, err)
		require.Zero(t, report.Differences())
		require.Equal(t, 1, report.Changing())
	})

	t.Run("compares what is stored of a deleted video, of which nothing is shown", func(t *testing.T) {
		t.Parallel()
		s, a := setup(t)
		s.deleted = "b"
		report, err := a.Videos(t.Context(), []storage.VideoID{"b"})
		require.NoError(t, err)
		require.Zero(t, report.Differences())
		require.True(t, report.Rows[0].Deleted)
		require.Empty(t, report.Rows[0].Shown)

		s.recounts["b"] = storage.Recount{Stored: storage.Tally{Likes: 3}, Rows: storage.Tally{Likes: 2}}
		report, err = a.All(t.Context(), func(int) {})
		require.NoError(t, err)
		require.Equal(t, 1, report.Differences())
	})

	t.Run("names the node that does not answer", func(t *testing.T) {
		t.Parallel()
		s, _ := setup(t)
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		a := New(s, []Door{{"us-2", "http://127.0.0.1:1"}}, &http.Client{Transport: transport}, "")
		_, err := a.Videos(t.Context(), []storage.VideoID{"a"})
		require.ErrorContains(t, err, "us-2")
	})
}
