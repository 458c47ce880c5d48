package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"likewise/e2e/traffic"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/storage"
)

// testPaths sends every character that an id may have through a path, plain and
// encoded, and paths that lead nowhere.
func (d *deployment) testPaths(t *testing.T) {
	ids := append(strings.Split(allowed, ""), "..", "...", "~.~", "a:b", allowed, idOf(128), "%41"[1:])
	binary, rest := connectSpeaker(t, "Connect binary", false), only(scribes(t), inREST)
	bearer := userToken(t, "paths")
	for i, id := range ids {
		n := d.Nodes()[i%len(d.Nodes())]
		set := &likewisev1.SetReactionRequest{VideoId: id, Reaction: like}
		for j, path := range []string{"/v1/videos/" + id + "/reaction", "/v1/videos/" + encoded(id) + "/reaction"} {
			s := rest[j]
			f := s.form(set, bearer)
			f.path = path
			r := s.send(t.Context(), n, f, set)
			require.Equal(t, j == 0, answer[*likewisev1.SetReactionResponse](t, r).GetChanged(), path)
		}
		r := binary.say(t.Context(), n, call{request: &likewisev1.GetReactionRequest{VideoId: id}, bearer: bearer})
		require.Empty(t, r.code, r.text)
		require.Equal(t, like, answer[*likewisev1.GetReactionResponse](t, r).GetReaction(), id)
	}
	require.Equal(t, traces{Reactions: len(ids), Changes: len(ids)}, d.traces(t, "paths"), "one reaction for each id")
	d.testNowhere(t, rest[0])
}

// encoded writes every byte of an id as a percent sign and two digits.
func encoded(id string) string {
	var b strings.Builder
	for _, c := range []byte(id) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

func (d *deployment) testNowhere(t *testing.T, s scribe) {
	bearer := userToken(t, "nowhere")
	for _, path := range []string{
		"/", "/v1", "/v1/", "/v2/videos/cat/reaction", "/v1/videos", "/v1/videos/", "/v1/videos/cat", "/v1/videos/cat/", "/v1/videos/cat/reaction/", "/v1/videos/cat/Reaction",
		"/V1/videos/cat/reaction", "/v1//videos/cat/reaction", "//v1/videos/cat/reaction", "/v1/videos/cat/dog/reaction", "/v1/videos/cat/../dog/reaction", "/v1/./videos/cat/reaction",
		"/reaction", "/videos/cat/reaction", "/likewise.v1.ReactionService", "/favicon.ico",
	} {
		f := s.form(aLike(), bearer)
		f.path = path
		r := s.send(t.Context(), d.Nodes()[0], f, aLike())
		require.Equal(t, http.StatusNotFound, r.status, "%s: %+v", path, r)
		require.Contains(t, r.text, "/v1/", path)
		require.Contains(t, r.text, "/likewise.v1.ReactionService/", path)
	}
	for path, says := range map[string]string{"/v1/videos//reaction": idRule, "/v1/videos/%ff/reaction": "UTF-8", "/v1/videos/%2e%2f%2e/reaction": idRule, "/v1/videos/a%252Fb/reaction": idRule, "/v1/videos/a+b%20/reaction": idRule} {
		f := s.form(aLike(), bearer)
		f.path = path
		r := s.send(t.Context(), d.Nodes()[0], f, aLike())
		require.Equal(t, http.StatusBadRequest, r.status, "%s: %+v", path, r)
		require.Contains(t, r.text, says, path)
	}
	d.requireNothingWritten(t, "nowhere")
}

// testTags reads again only what has changed.
func (d *deployment) testTags(t *testing.T) {
	s, n, bearer := only(scribes(t), inREST)[0], d.Nodes()[0], userToken(t, "tags")
	set := &likewisev1.SetReactionRequest{VideoId: "tags", Reaction: like}
	tag := s.send(t.Context(), n, s.form(set, bearer), set).header.Get("ETag")
	get := &likewisev1.GetReactionRequest{VideoId: "tags"}
	for value, status := range map[string]int{tag: http.StatusNotModified, `"1"`: http.StatusOK} {
		f := s.form(get, bearer)
		f.header.Set("If-None-Match", value)
		r := s.send(t.Context(), n, f, get)
		require.Equal(t, status, r.status, value)
		require.Equal(t, tag, r.header.Get("ETag"))
		if status == http.StatusNotModified {
			require.Empty(t, r.text, "there is no body")
		}
	}
}

// testLargeCounts shows counts whose last digit a JavaScript number would lose,
// and those that no more fit.
func (d *deployment) testLargeCounts(t *testing.T) {
	const lossy = 1<<53 + 1
	d.shard(t, "large", 0, lossy, math.MaxInt64)
	d.shard(t, "largest", 0, math.MaxInt64, lossy)
	d.shard(t, "largest", 1, math.MaxInt64, lossy)
	for i, s := range speakers(t) {
		n := d.Nodes()[i%len(d.Nodes())]
		r := s.say(t.Context(), n, call{request: &likewisev1.BatchGetCountsRequest{VideoIds: []string{"large", "largest"}}})
		require.Empty(t, r.code, r.text)
		outcomes := answer[*likewisev1.BatchGetCountsResponse](t, r).GetOutcomes()
		require.Equal(t, "9007199254740993:9223372036854775807", tally(outcomes[0].GetCounts()), s.name)
		require.Equal(t, "9223372036854775807:18014398509481986", tally(outcomes[1].GetCounts()), "%s: the sum stays at the largest", s.name)
	}
	for _, path := range []string{"/v1/videos/large/reaction-counts", "/likewise.v1.ReactionService/GetCounts?encoding=json&message=" + `%7B%22videoId%22%3A%22large%22%7D`} {
		body := d.page(t, path)
		require.Contains(t, strings.ReplaceAll(body, " ", ""), `"likes":"9007199254740993","dislikes":"9223372036854775807"`)
	}
}

// testFullShard likes where the count cannot rise any more: the writer is
// refused, and nobody else.
func (d *deployment) testFullShard(t *testing.T) {
	for slot := range storage.Slots {
		d.shard(t, "full", slot, math.MaxInt64, 0)
	}
	s, n := connectSpeaker(t, "Connect binary", false), d.Nodes()[0]
	r := s.say(t.Context(), n, call{request: &likewisev1.SetReactionRequest{VideoId: "full", Reaction: like}, bearer: userToken(t, "full")})
	require.Equal(t, "internal", r.code)
	require.NotNil(t, detail[*likewisev1.NothingChanged](r), r.text)
	d.requireNothingWritten(t, "full")
	r = s.say(t.Context(), n, call{request: &likewisev1.SetReactionRequest{VideoId: "full", Reaction: dislike}, bearer: userToken(t, "full")})
	require.Empty(t, r.code, "the other count has room: %s", r.text)
}

func (d *deployment) shard(t *testing.T, video string, slot int, likes, dislikes int64) {
	t.Helper()
	_, err := d.pool.Exec(t.Context(), `INSERT INTO counter_shards (video_id, counter_slot, likes, dislikes, rev, updated_at) VALUES ($1, $2, $3, $4, 1, now())`,
		video, slot, likes, dislikes)
	require.NoError(t, err)
}

// page reads a page that needs no token.
func (d *deployment) page(t *testing.T, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.Nodes()[0].Addr()+path, http.NoBody)
	require.NoError(t, err)
	resp, err := d.http.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var body strings.Builder
	require.NoError(t, resp.Write(&body))
	require.Equal(t, http.StatusOK, resp.StatusCode, body.String())
	return body.String()
}

// testBatches asks for as many as one may, some twice, and gets one outcome for
// each, in the same order.
func (d *deployment) testBatches(t *testing.T) {
	bearer := userToken(t, "batches")
	liked := map[string]bool{}
	var ids []string
	for i := range 50 {
		id := fmt.Sprintf("batch-%d", i)
		ids = append(ids, id)
		if liked[id] = i%3 == 0; liked[id] {
			_, err := d.clients["eu-1"].SetReaction(traffic.WithToken(t.Context(), bearer), &likewisev1.SetReactionRequest{VideoId: id, Reaction: like})
			require.NoError(t, err)
		}
	}
	backwards := slices.Clone(ids)
	slices.Reverse(backwards)
	ids = append(ids, backwards...)
	for i, s := range speakers(t) {
		n := d.Nodes()[i%len(d.Nodes())]
		for _, asked := range [][]string{ids[:1], ids} {
			requireOutcomes(t, s.say(t.Context(), n, call{request: &likewisev1.BatchGetReactionsRequest{VideoIds: asked}, bearer: bearer}), asked, liked)
			requireOutcomes(t, s.say(t.Context(), n, call{request: &likewisev1.BatchGetCountsRequest{VideoIds: asked}}), asked, liked)
		}
	}
}

func requireOutcomes(t *testing.T, r reply, asked []string, liked map[string]bool) {
	t.Helper()
	var told, want []string
	switch m := r.message.(type) {
	case *likewisev1.BatchGetReactionsResponse:
		for _, o := range m.GetOutcomes() {
			told = append(told, fmt.Sprint(o.GetVideoId(), o.GetState().GetReaction() == like))
		}
	case *likewisev1.BatchGetCountsResponse:
		for _, o := range m.GetOutcomes() {
			told = append(told, fmt.Sprint(o.GetVideoId(), o.GetCounts().GetLikes() == 1))
		}
	}
	for _, id := range asked {
		want = append(want, fmt.Sprint(id, liked[id]))
	}
	require.Equal(t, want, told, r.text)
}

// testReusedKeys uses one key for two requests at once, and for another later.
func (d *deployment) testReusedKeys(t *testing.T) {
	for i, s := range speakers(t) {
		if s.curl {
			continue // a program that must start first meets nobody at once
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			me := "reused-keys-" + identifier(s.name)
			say := func(ctx context.Context, reaction likewisev1.Reaction) reply {
				return s.say(ctx, d.Nodes()[i%len(d.Nodes())], call{
					bearer:  userToken(t, me),
					request: &likewisev1.SetReactionRequest{VideoId: me, Reaction: reaction, IdempotencyKey: "once"},
				})
			}
			both := map[likewisev1.Reaction]*reply{like: {}, dislike: {}}
			var at sync.WaitGroup
			for reaction, r := range both {
				at.Go(func() { *r = say(t.Context(), reaction) })
			}
			at.Wait()
			codes := []string{both[like].code, both[dislike].code}
			slices.Sort(codes)
			require.Equal(t, []string{"", "already_exists"}, codes)
			require.Equal(t, "already_exists", say(t.Context(), none).code, "later, too")
			require.Equal(t, traces{Reactions: 1, Changes: 1, Keys: 1}, d.traces(t, me))
		})
	}
}
