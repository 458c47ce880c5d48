package regions

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"likewise/routing"
	"likewise/storage"
)

// fuzzEdge is the front door without a listener, and what last reached its store.
type fuzzEdge struct {
	handler http.Handler
	token   string
	set     *storage.Set
}

func newFuzzEdge(f *testing.F) *fuzzEdge {
	f.Helper()
	store, table := newFakeStore(), &fakeRoutes{}
	top, err := routing.NewTopology(1, routing.Contiguous([]routing.Region{"here"}))
	require.NoError(f, err)
	table.m.Store(routing.SingleNode(top, routing.Node{Name: "n1", Region: "here"}))
	s, err := New(Config{Node: "n1", Region: "here", Listen: "127.0.0.1:0", Auth: AuthConfig{Secret: testSecret}}, Deps{Store: store, Routes: table})
	require.NoError(f, err)
	f.Cleanup(s.counts.close)
	f.Cleanup(s.Close)
	token, err := MintToken(testSecret, Claims{Subject: "alice"}, 1e12)
	require.NoError(f, err)
	e := &fuzzEdge{handler: s.front.Handler, token: "Bearer " + token}
	store.beforeSet = func(_ context.Context, set storage.Set) error {
		e.set = &set
		return &storage.VideoStateError{State: storage.VideoDisabled} // and nothing piles up
	}
	return e
}

// serve answers a request, and says what reached the store; nil: nothing.
func (e *fuzzEdge) serve(r *http.Request) (*httptest.ResponseRecorder, *storage.Set) {
	e.set = nil
	r.Header.Set("Authorization", e.token)
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, r)
	return w, e.set
}

// requireClear asks that an answer is a plain success or a clear refusal.
func requireClear(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	require.Less(t, w.Code, 500, w.Body.String())
	require.False(t, w.Code >= 300 && w.Code < 400, "a redirect to %s", w.Header().Get("Location"))
	if w.Code >= 400 {
		require.True(t, json.Valid(w.Body.Bytes()), w.Body.String())
		require.NotContains(t, w.Body.String(), "proto:")
	}
}

// Whatever the path: no 500, no redirect, and no other video than the one that
// stands in the path, decoded once.
func FuzzRESTPath(f *testing.F) {
	e := newFuzzEdge(f)
	for _, id := range []string{
		"cat", "..", ".", "%2e%2e", "%2E.", "a%2Fb", "a%252Fb", "a%00b", "%", "%zz", "%ff", "%C0%80", "a:b", ":", "a;b", "a?b", "a#b", "", "%20", "+",
		"-._~:@+=,|", "*", "**", "{video_id}", "%7Bvideo_id%7D", "a%61", "%2561", "%25", "%F0%9F%90%88", "a/b", "a//b", "/", "\\", "%5c", strings.Repeat("a", 129),
	} {
		f.Add("/v1/videos/" + id + "/reaction")
	}
	for _, path := range []string{
		"/", "", "//", "/v1", "/v1/", "/v1//videos/cat/reaction", "//v1/videos/cat/reaction", "/v1/videos/cat/reaction/", "/v1/videos/cat/reaction:x",
		"/v1/votes", "/v1/reactions:batchGet", "/v1/reactions%3AbatchGet", "/v1/videos/cat/state", "/v1/videos/cat/reaction-counts",
		"/v1/../v1/videos/cat/reaction", "/likewise.v1.ReactionService/SetReaction", "/likewise.v1.ReactionService/%53etReaction", "/healthz",
		"/v1/videos/cat/reaction?videoId=dog", "/v1/videos/cat/reaction?", "/v1/videos/cat/reaction?%zz", "/v1/videos/cat/reaction?a;b", "/%76%31/videos/cat/reaction",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, target string) {
		parsed, err := url.ParseRequestURI(target)
		if err != nil || parsed.Host != "" || parsed.Opaque != "" {
			return // net/http answers 400 by itself, or it is a proxy's request
		}
		for _, method := range []string{http.MethodPut, http.MethodDelete} {
			body, kind := io.Reader(http.NoBody), ""
			if method == http.MethodPut {
				body, kind = strings.NewReader(`{"reaction":"LIKE"}`), "application/json"
			}
			r := httptest.NewRequest(method, "/", body)
			r.URL, r.RequestURI = parsed, target
			if kind != "" {
				r.Header.Set("Content-Type", kind)
			}
			w, set := e.serve(r)
			requireClear(t, w)
			if set == nil {
				continue
			}
			path, _, _ := strings.Cut(target, "?")
			segments := strings.Split(path, "/")
			require.Len(t, segments, 5)
			video, err := url.PathUnescape(segments[3])
			require.NoError(t, err)
			require.EqualValues(t, video, set.Video)
			require.EqualValues(t, "alice", set.User)
		}
	})
}

// Whatever the body: no 500, and what reaches the store is exactly what the body
// says, by the reckoning of another reader.
func FuzzJSON(f *testing.F) {
	e := newFuzzEdge(f)
	for _, body := range []string{
		`{"reaction":"LIKE"}`, `{"reaction":"DISLIKE","idempotencyKey":"k","expectedVersion":"7"}`, `{"reaction":1,"expected_version":7,"idempotency_key":"k"}`,
		`{"reaction":"like"}`, `{"reaction":"LIKE","reaction":"NONE"}`, `{"reaction":"LIKE","x":1}`, `{"reaction":"LIKE","videoId":"dog"}`, `{"reaction":"LIKE","userId":"bob"}`,
		`{"reaction":"LIKE","expectedVersion":1e2}`, `{"reaction":"LIKE","expectedVersion":"9223372036854775808"}`, `{"reaction":"LIKE","expectedVersion":9007199254740993}`,
		`{"reaction":"LIKE","expectedVersion":null}`, `{"reaction":null}`, `{"reaction":"\u004cIKE"}`, `{"\u0072eaction":"LIKE"}`, `{"reaction":"LIKE","idempotencyKey":"\ud800"}`,
		``, ` `, `{}`, `[]`, `null`, `"LIKE"`, `{"reaction":"LIKE"}{}`, `{"reaction":"LIKE"`, `{"reaction":["LIKE"]}`, `{"reaction":{}}`, "\xef\xbb\xbf{}", "{\"reaction\":\"\xff\"}",
		strings.Repeat("[", 10_001), strings.Repeat(`{"reaction":`, 5000), `{"reaction":"LIKE","expectedVersion":-0}`, `{"reaction":"LIKE","expectedVersion":"-1"}`, `{"reaction":2.0}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPut, "/v1/videos/cat/reaction", bytes.NewReader(body))
		w, overREST := e.serve(r)
		requireClear(t, w)
		requireSaid(t, body, overREST)

		r = httptest.NewRequest(http.MethodPost, setProcedure, bytes.NewReader(withVideo(body)))
		r.Header.Set("Content-Type", "application/json")
		w, overConnect := e.serve(r)
		requireClear(t, w)
		require.Equal(t, overREST, overConnect, "REST and Connect read the same")
	})
}

// withVideo puts the id into an object that has none: over Connect it is in the
// body.
func withVideo(body []byte) []byte {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
	if !ok {
		return body
	}
	if bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte("}")) {
		return append([]byte(`{"videoId":"cat"`), rest...)
	}
	return append([]byte(`{"videoId":"cat",`), rest...)
}

// requireSaid asks that a body says what reached the store, and nothing else.
func requireSaid(t *testing.T, body []byte, set *storage.Set) {
	t.Helper()
	if set == nil {
		return
	}
	require.EqualValues(t, "cat", set.Video)
	require.EqualValues(t, "alice", set.User)
	said := make(map[string]any)
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&said))
	_, err := dec.Token()
	require.ErrorIs(t, err, io.EOF)
	var reaction any
	var key string
	versioned := false
	for name, value := range said {
		switch name {
		case "reaction":
			reaction = value
		case "idempotencyKey", "idempotency_key":
			key, _ = value.(string)
		case "expectedVersion", "expected_version":
			versioned = value != nil
		case "videoId", "video_id":
			require.Contains(t, []any{"", nil}, value)
		default:
			require.Fail(t, "a field was dropped", name)
		}
	}
	require.NotNil(t, reaction)
	if name, ok := reaction.(string); ok {
		require.Equal(t, map[string]storage.Reaction{"LIKE": storage.Like, "DISLIKE": storage.Dislike, "NONE": storage.None}[name], set.Desired)
	}
	require.Equal(t, key, set.IdempotencyKey)
	require.Equal(t, versioned, set.ExpectedVersion != nil)
}
