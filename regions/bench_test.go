package regions

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/routing"
	"likewise/storage"
)

func BenchmarkCountsFromCache(b *testing.B) {
	c, err := newCountCache(newFakeStore(), &storage.Clock{}, CountsConfig{}.withDefaults(), newMetrics())
	require.NoError(b, err)
	b.Cleanup(c.close)
	_, err = c.get(b.Context(), "v", c.defaultBound())
	require.NoError(b, err)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.get(b.Context(), "v", c.defaultBound()); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkWhoCalls(b *testing.B) {
	auth := newTestAuth(b, AuthConfig{Secret: testSecret})
	token, err := MintToken(testSecret, Claims{Subject: "alice"}, time.Hour)
	require.NoError(b, err)
	header := http.Header{"Authorization": {"Bearer " + token}}
	b.Run("remembered", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := auth.caller(b.Context(), header); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verified", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := auth.verify(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// emptyService answers nothing, over the same stack: what a count read out of
// the cache is measured against.
type emptyService struct {
	likewisev1connect.UnimplementedReactionServiceHandler
}

func (emptyService) GetCounts(_ context.Context, _ *likewisev1.GetCountsRequest) (*likewisev1.GetCountsResponse, error) {
	return &likewisev1.GetCountsResponse{Counts: &likewisev1.Counts{}}, nil
}

// BenchmarkGetCounts compares GetCounts with an empty handler, both behind the
// same chain, HTTP/1.1 and Connect.
func BenchmarkGetCounts(b *testing.B) {
	store, table := newFakeStore(), &fakeRoutes{}
	top, err := routing.NewTopology(1, routing.Contiguous([]routing.Region{"here"}))
	require.NoError(b, err)
	table.m.Store(routing.SingleNode(top, routing.Node{Name: "n1", Region: "here"}))
	s, err := New(Config{Node: "n1", Region: "here", Listen: "127.0.0.1:0", Auth: AuthConfig{Secret: testSecret}}, Deps{Store: store, Routes: table})
	require.NoError(b, err)
	b.Cleanup(s.counts.close)
	b.Cleanup(s.Close)
	empty := http.NewServeMux()
	empty.Handle(likewisev1connect.NewReactionServiceHandler(emptyService{}, withCodecs(), connect.WithCompressMinBytes(minCompress), s.frontChain()))
	for name, handler := range map[string]http.Handler{"cache": s.front.Handler, "empty": empty} {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(handler)
			defer server.Close()
			transport := &http.Transport{MaxIdleConnsPerHost: 64}
			defer transport.CloseIdleConnections()
			client := likewisev1connect.NewReactionServiceClient(&http.Client{Transport: transport}, server.URL)
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := client.GetCounts(b.Context(), &likewisev1.GetCountsRequest{VideoId: "cat"}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
