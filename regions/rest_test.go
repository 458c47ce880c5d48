package regions

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/storage"
)

// answer is what a REST call was answered.
type answer struct {
	Status int
	Header http.Header
	Body   map[string]any
	Raw    string
}

// restCall is a request as it goes over the wire: the path is not cleaned.
type restCall struct {
	Method, Path, Body string
	Header             map[string]string
	Chunked            bool
}

func (n *node) rest(t *testing.T, call restCall) answer {
	t.Helper()
	var body io.Reader
	if call.Body != "" {
		body = strings.NewReader(call.Body)
		if call.Chunked {
			body = io.MultiReader(body)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), call.Method, n.url(""), body)
	require.NoError(t, err)
	path, query, _ := strings.Cut(call.Path, "?")
	req.URL.Opaque, req.URL.RawQuery = "//"+n.FrontAddr()+path, query
	req.Header.Set("Authorization", "Bearer "+mint(t, "alice"))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range call.Header {
		req.Header.Set(name, value)
		if value == "" {
			req.Header.Del(name)
		}
	}
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	got := answer{Status: resp.StatusCode, Header: resp.Header, Raw: string(raw)}
	if strings.Contains(got.Header.Get("Content-Type"), "json") && len(raw) > 0 {
		require.NoError(t, json.Unmarshal(raw, &got.Body), "%s", raw)
	}
	return got
}

// requireProblem asks for an RFC 9457 problem of a kind.
func requireProblem(t *testing.T, got answer, status int, slug string) {
	t.Helper()
	require.Equal(t, status, got.Status, got.Raw)
	require.Equal(t, "application/problem+json", got.Header.Get("Content-Type"))
	require.Equal(t, problemTypes+slug, got.Body["type"], got.Raw)
	require.EqualValues(t, status, got.Body["status"])
	for _, member := range []string{"title", "detail", "code"} {
		require.NotEmpty(t, got.Body[member], member)
	}
	require.NotContains(t, got.Raw, "proto:", "the library's own text")
}

// R12: REST as people expect it.
func TestREST(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	const path = "/v1/videos/cat/reaction"

	got := n.rest(t, restCall{Method: http.MethodPut, Path: path, Body: `{"reaction":"LIKE"}`})
	require.Equal(t, http.StatusOK, got.Status, got.Raw)
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	require.Equal(t, "LIKE", got.Body["reaction"])
	require.Equal(t, "1", got.Body["version"])
	require.Equal(t, `"1"`, got.Header.Get("ETag"))
	require.Subset(t, got.Body["counts"], map[string]any{"likes": "1", "dislikes": "0"}, "zeros are shown")

	got = n.rest(t, restCall{Method: http.MethodGet, Path: path})
	require.Equal(t, http.StatusOK, got.Status, got.Raw)
	require.Equal(t, map[string]any{"reaction": "LIKE", "version": "1"}, got.Body)
	require.Equal(t, `"1"`, got.Header.Get("ETag"))

	got = n.rest(t, restCall{Method: http.MethodHead, Path: path})
	require.Equal(t, http.StatusOK, got.Status)
	require.Empty(t, got.Raw)
	require.Equal(t, `"1"`, got.Header.Get("ETag"))

	got = n.rest(t, restCall{Method: http.MethodPost, Path: "/v1/votes", Body: `{"content_id":"cat","action":"dislike"}`})
	require.Equal(t, http.StatusOK, got.Status, got.Raw)
	require.Equal(t, "LIKE", got.Body["previousReaction"])

	got = n.rest(t, restCall{Method: http.MethodGet, Path: "/v1/videos/cat/reaction-counts?maxStaleness=0.5s", Header: map[string]string{"Authorization": ""}})
	require.Equal(t, http.StatusOK, got.Status, got.Raw)

	got = n.rest(t, restCall{Method: http.MethodPost, Path: "/v1/reactions:batchGet", Body: `{"videoIds":["cat","dog","cat"]}`})
	require.Equal(t, http.StatusOK, got.Status, got.Raw)
	require.Len(t, got.Body["outcomes"], 3)

	got = n.rest(t, restCall{Method: http.MethodDelete, Path: path + "?expectedVersion=2"})
	require.Equal(t, http.StatusOK, got.Status, got.Raw)
	require.Equal(t, "NONE", got.Body["reaction"])
	require.Equal(t, storage.State{Version: 3}, n.store.db.state("cat", "alice"))

	got = n.rest(t, restCall{Method: http.MethodOptions, Path: path})
	require.Equal(t, http.StatusNoContent, got.Status)
	require.Equal(t, "DELETE, GET, PUT, HEAD, OPTIONS", got.Header.Get("Allow"))
}

func TestRESTConditionalReads(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	_, err := n.as(t, "alice").SetReaction(t.Context(), like("cat"))
	require.NoError(t, err)
	for header, status := range map[string]int{
		`"1"`: 304, `W/"1"`: 304, `"0", "1"`: 304, `*`: 304, `"2"`: 200, `1`: 200, ``: 200,
	} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				got := n.rest(t, restCall{Method: method, Path: "/v1/videos/cat/reaction", Header: map[string]string{"If-None-Match": header}})
				require.Equal(t, status, got.Status)
				require.Equal(t, `"1"`, got.Header.Get("ETag"))
				require.Equal(t, status == 304 || method == http.MethodHead, got.Raw == "")
			}
		})
	}
}

// One URL and one ETag may be those of two users.
func TestAnswersToOneUserAreNotForOthers(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	_, err := n.as(t, "alice").SetReaction(t.Context(), like("cat"))
	require.NoError(t, err)
	for _, header := range []string{"", `"1"`} {
		got := n.rest(t, restCall{Method: http.MethodGet, Path: "/v1/videos/cat/reaction", Header: map[string]string{"If-None-Match": header}})
		require.Equal(t, "private, no-cache", got.Header.Get("Cache-Control"))
		require.Contains(t, got.Header.Values("Vary"), "Authorization")
	}
}

// Each path means exactly one video, or is refused.
func TestRESTPaths(t *testing.T) {
	t.Parallel()
	all := "-._~:@+=,|ABCxyz019"
	for path, want := range map[string]struct {
		video  string // "": refused
		status int
	}{
		"/v1/videos/" + all + "/reaction":                      {video: all},
		"/v1/videos/" + url.PathEscape(all) + "/reaction":      {video: all},
		"/v1/videos/%63at/reaction":                            {video: "cat"},
		"/%76%31/videos/cat/%72eaction":                        {video: "cat"},
		"/v1/videos/../reaction":                               {video: ".."},
		"/v1/videos/./reaction":                                {video: "."},
		"/v1/videos/%2e%2e/reaction":                           {video: ".."},
		"/v1/videos/a:b/reaction":                              {video: "a:b"},
		"/v1/videos/reaction/reaction":                         {video: "reaction"},
		"/v1/videos/c%2561t/reaction":                          {status: 400}, // c%61t: not decoded twice
		"/v1/videos/c%252561t/reaction":                        {status: 400},
		"/v1/videos/a%2Fb/reaction":                            {status: 400},
		"/v1/videos/a%00b/reaction":                            {status: 400},
		"/v1/videos/%25/reaction":                              {status: 400},
		"/v1/videos/%ff/reaction":                              {status: 400},
		"/v1/videos/%D0%BA/reaction":                           {status: 400},
		"/v1/videos/a%20b/reaction":                            {status: 400},
		"/v1/videos/a;b/reaction":                              {status: 400},
		"/v1/videos/{video_id}/reaction":                       {status: 400},
		"/v1/videos/*/reaction":                                {status: 400},
		"/v1/videos//reaction":                                 {status: 400},
		"/v1/videos/" + strings.Repeat("a", 128) + "/reaction": {video: strings.Repeat("a", 128)},
		"/v1/videos/" + strings.Repeat("a", 129) + "/reaction": {status: 400},
		"/v1/videos/a/b/reaction":                              {status: 404},
		"/v1/videos/cat/reaction/":                             {status: 404},
		"/v1/videos/cat%2Freaction":                            {status: 404},
		"/v1/videos/cat/reaction:go":                           {status: 404},
		"/v1//videos/cat/reaction":                             {status: 404},
		"//v1/videos/cat/reaction":                             {status: 404},
		"/v1/videos/cat/x/../reaction":                         {status: 404},
		"/v1":                                                  {status: 404},
		"/v1/":                                                 {status: 404},
		"/V1/videos/cat/reaction":                              {status: 404},
		"/v2/videos/cat/reaction":                              {status: 404},
		"/":                                                    {status: 404},
		"/healthz/":                                            {status: 404},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			n := startNode(t, "n1")
			var seen storage.VideoID
			n.store.beforeSet = func(_ context.Context, set storage.Set) error { seen = set.Video; return nil }
			got := n.rest(t, restCall{Method: http.MethodPut, Path: path, Body: `{"reaction":"LIKE"}`})
			if want.video != "" {
				require.Equal(t, http.StatusOK, got.Status, got.Raw)
				require.EqualValues(t, want.video, seen)
				return
			}
			slug := map[int]string{400: "invalid-request", 404: "not-found"}[want.status]
			requireProblem(t, got, want.status, slug)
			require.Zero(t, n.store.sets.Load())
			if want.status == 400 {
				require.Contains(t, got.Raw, `"violations":[{"field":"videoId","message":"`)
			}
		})
	}

	t.Run("a path that is no URL", func(t *testing.T) {
		t.Parallel()
		n := startNode(t, "n1")
		require.Contains(t, exchange(t, n, "PUT /v1/videos/%/reaction HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), "HTTP/1.1 400 ")
		require.Contains(t, exchange(t, n, "PUT /v1/videos/a b/reaction HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), "HTTP/1.1 400 ")
	})
}

// What is wrong with a request is named, and nothing is written.
func TestRESTRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	const path, counts, votes = "/v1/videos/cat/reaction", "/v1/videos/cat/reaction-counts", "/v1/votes"
	t.Cleanup(func() { require.Zero(t, n.store.sets.Load()) })
	for name, c := range map[string]struct {
		call   restCall
		status int
		slug   string
		says   string
	}{
		"an unknown field":      {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE","expectedVersoin":"7"}`}, 400, "invalid-request", `the field "expectedVersoin" is unknown: this takes`},
		"a user":                {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE","userId":"bob"}`}, 400, "invalid-request", `the field "userId" is unknown`},
		"another video":         {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE","videoId":"dog"}`}, 400, "invalid-request", `the field "videoId" is in the path`},
		"the same video":        {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE","video_id":"cat"}`}, 400, "invalid-request", `the field "videoId" is in the path`},
		"a field twice":         {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE","reaction":"NONE"}`}, 400, "invalid-request", `the field "reaction" is there twice`},
		"a wrong name":          {restCall{Method: "PUT", Path: path, Body: `{"reaction":"like"}`}, 400, "invalid-request", `the field "reaction" must be NONE, LIKE or DISLIKE`},
		"no name":               {restCall{Method: "PUT", Path: path, Body: `{"reaction":""}`}, 400, "invalid-request", `must be NONE, LIKE or DISLIKE`},
		"a wrong type":          {restCall{Method: "PUT", Path: path, Body: `{"reaction":["LIKE"]}`}, 400, "invalid-request", `must be NONE, LIKE or DISLIKE`},
		"a number for a string": {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE","idempotencyKey":7}`}, 400, "invalid-request", `the field "idempotencyKey" must be a string`},
		"half a surrogate":      {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE","idempotencyKey":"\ud800"}`}, 400, "invalid-request", `the field "idempotencyKey" must be a string of valid Unicode`},
		"a word for a number":   {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE","expectedVersion":"seven"}`}, 400, "invalid-request", `the field "expectedVersion" must be a whole number`},
		"2^63":                  {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE","expectedVersion":"9223372036854775808"}`}, 400, "invalid-request", `the field "expectedVersion" must be a whole number`},
		"a number in a list":    {restCall{Method: "POST", Path: "/v1/reactions:batchGet", Body: `{"videoIds":["cat",7]}`}, 400, "invalid-request", `the field "videoIds[1]" must be a string`},
		"no list":               {restCall{Method: "POST", Path: "/v1/reactions:batchGet", Body: `{"videoIds":"cat"}`}, 400, "invalid-request", `the field "videoIds" must be a JSON array`},
		"101 ids":               {restCall{Method: "POST", Path: "/v1/reactions:batchGet", Body: `{"videoIds":["cat"` + strings.Repeat(`,"cat"`, 100) + `]}`}, 400, "invalid-request", "must hold 1 to 100 ids"},
		"no JSON":               {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE"`}, 400, "invalid-request", `is not JSON from byte 18 on`},
		"more than one":         {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE"}{}`}, 400, "invalid-request", `is not JSON from byte 20 on`},
		"no object":             {restCall{Method: "PUT", Path: path, Body: `"LIKE"`}, 400, "invalid-request", `is not a JSON object`},
		"not UTF-8":             {restCall{Method: "PUT", Path: path, Body: "{\"reaction\":\"LIKE\",\"idempotencyKey\":\"\xff\"}"}, 400, "invalid-request", `is not UTF-8 at byte 37`},
		"deep":                  {restCall{Method: "PUT", Path: path, Body: strings.Repeat("[", 30_000)}, 400, "invalid-request", `is not JSON from byte`},
		"deep, and closed":      {restCall{Method: "PUT", Path: path, Body: `{"reaction":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "}"}, 400, "invalid-request", `must be NONE, LIKE or DISLIKE`},
		"a reaction's number":   {restCall{Method: "PUT", Path: path, Body: `{"reaction":1}`}, 400, "invalid-request", `the field "reaction" must be NONE, LIKE or DISLIKE`},
		"no body":               {restCall{Method: "PUT", Path: path}, 400, "invalid-request", `the body is empty: send a JSON object with reaction, `},
		"no reaction":           {restCall{Method: "PUT", Path: path, Body: `{}`}, 400, "invalid-request", `must be NONE, LIKE or DISLIKE`},
		"a query beside a body": {restCall{Method: "PUT", Path: path + "?reaction=LIKE", Body: `{"reaction":"LIKE"}`}, 400, "invalid-request", `unknown query parameter "reaction"`},
		"a body for GET":        {restCall{Method: "GET", Path: path, Body: `{}`}, 400, "invalid-request", `GET takes no body here`},
		"a body for DELETE":     {restCall{Method: "DELETE", Path: path, Body: `{}`, Chunked: true}, 400, "invalid-request", `DELETE takes no body here`},
		"a user in the query":   {restCall{Method: "GET", Path: path + "?userId=bob"}, 400, "invalid-request", `unknown query parameter "userId": this path takes none`},
		"a video in the query":  {restCall{Method: "GET", Path: path + "?videoId=dog"}, 400, "invalid-request", `unknown query parameter "videoId"`},
		"a dotted parameter":    {restCall{Method: "GET", Path: counts + "?max_staleness.seconds=7"}, 400, "invalid-request", `unknown query parameter "max_staleness.seconds": this path takes maxStaleness, consistencyToken`},
		"a parameter twice":     {restCall{Method: "GET", Path: counts + "?maxStaleness=1s&max_staleness=2s"}, 400, "invalid-request", `"maxStaleness" is there twice`},
		"a bad duration":        {restCall{Method: "GET", Path: counts + "?maxStaleness=1"}, 400, "invalid-request", `the field "maxStaleness" must be a duration`},
		"an empty duration":     {restCall{Method: "GET", Path: counts + "?maxStaleness="}, 400, "invalid-request", `the field "maxStaleness" must be a duration`},
		"a bad version":         {restCall{Method: "DELETE", Path: path + "?expectedVersion=x"}, 400, "invalid-request", `the field "expectedVersion" must be a whole number`},
		"no query":              {restCall{Method: "GET", Path: counts + "?maxStaleness=%zz"}, 400, "invalid-request", `the query cannot be read`},
		"semicolons":            {restCall{Method: "GET", Path: counts + "?maxStaleness=1s;x=1"}, 400, "invalid-request", `the query cannot be read`},
		"a query not UTF-8":     {restCall{Method: "GET", Path: counts + "?consistencyToken=%ff"}, 400, "invalid-request", `the query cannot be read`},
		"a bad token":           {restCall{Method: "GET", Path: counts + "?consistencyToken=bogus"}, 400, "invalid-request", `consistency_token`},
		"a form":                {restCall{Method: "PUT", Path: path, Body: "reaction=LIKE", Header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}, 415, "unsupported-media-type", "send application/json"},
		"another charset":       {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE"}`, Header: map[string]string{"Content-Type": "application/json; charset=latin1"}}, 415, "unsupported-media-type", "send application/json"},
		"gRPC":                  {restCall{Method: "POST", Path: votes, Body: "\x00\x00\x00\x00\x00", Header: map[string]string{"Content-Type": "application/grpc"}}, 415, "unsupported-media-type", "send application/json"},
		"an unknown encoding":   {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE"}`, Header: map[string]string{"Content-Encoding": "br"}}, 415, "unsupported-media-type", `content encoding "br"`},
		"no gzip":               {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE"}`, Header: map[string]string{"Content-Encoding": "gzip"}}, 400, "invalid-request", "the body is not gzip"},
		"a bad timeout":         {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE"}`, Header: map[string]string{"X-Server-Timeout": "NaN"}}, 400, "invalid-request", "X-Server-Timeout"},
		"too large":             {restCall{Method: "PUT", Path: path, Body: strings.Repeat(" ", maxBody+1)}, 413, "too-large", "larger than 65536 bytes"},
		"too large in chunks":   {restCall{Method: "PUT", Path: path, Body: strings.Repeat(" ", maxBody+1), Chunked: true}, 413, "too-large", "larger than 65536 bytes"},
		"very large":            {restCall{Method: "PUT", Path: path, Body: strings.Repeat(" ", 10<<20), Chunked: true}, 413, "too-large", "larger than 65536 bytes"},
		"a bomb":                {restCall{Method: "PUT", Path: path, Body: zipped(strings.Repeat(" ", 10<<20)), Header: map[string]string{"Content-Encoding": "gzip"}}, 413, "too-large", "larger than 65536 bytes"},
		"a wrong method":        {restCall{Method: "POST", Path: path, Body: `{"reaction":"LIKE"}`}, 405, "method-not-allowed", "this path takes DELETE, GET, PUT, HEAD, OPTIONS"},
		"no token":              {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE"}`, Header: map[string]string{"Authorization": ""}}, 401, "unauthenticated", "token"},
		"no scope":              {restCall{Method: "PUT", Path: "/v1/videos/cat/state", Body: `{"state":"DISABLED"}`}, 403, "permission-denied", ScopeAdmin},
		"no time":               {restCall{Method: "PUT", Path: path, Body: `{"reaction":"LIKE"}`, Header: map[string]string{"X-Server-Timeout": "0"}}, 504, "deadline-exceeded", "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := n.rest(t, c.call)
			requireProblem(t, got, c.status, c.slug)
			require.Contains(t, got.Body["detail"], c.says)
			if c.status == 401 {
				require.Equal(t, "Bearer", got.Header.Get("WWW-Authenticate"))
			}
		})
	}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// What is not said, and can be guessed in one way only, is taken.
func TestRESTTakesWhatIsClear(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]restCall{
		"no content type":       {Body: `{"reaction":"LIKE"}`, Header: map[string]string{"Content-Type": ""}},
		"a charset":             {Body: `{"reaction":"LIKE"}`, Header: map[string]string{"Content-Type": "Application/JSON; charset=UTF-8"}},
		"gzip":                  {Body: zipped(`{"reaction":"LIKE"}`), Header: map[string]string{"Content-Encoding": "gzip"}},
		"chunks":                {Body: `{"reaction":"LIKE"}`, Chunked: true},
		"Connect's own headers": {Body: `{"reaction":"LIKE"}`, Header: map[string]string{"Connect-Protocol-Version": "1", "Connect-Timeout-Ms": "1"}},
		"proto's own names":     {Body: `{"reaction":"LIKE","idempotency_key":"k"}`},
		"null":                  {Body: `{"reaction":"LIKE","idempotencyKey":null}`},
		"an even number":        {Body: `{"reaction":"LIKE","expectedVersion":0e0}`},
		"a timeout":             {Body: `{"reaction":"LIKE"}`, Header: map[string]string{"X-Server-Timeout": "1.5"}},
		"exactly the limit":     {Body: `{"reaction":"LIKE"}` + strings.Repeat(" ", maxBody-len(`{"reaction":"LIKE"}`))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startNode(t, "n1")
			call.Method, call.Path = http.MethodPut, "/v1/videos/cat/reaction"
			got := n.rest(t, call)
			require.Equal(t, http.StatusOK, got.Status, got.Raw)
			require.Equal(t, storage.State{Reaction: storage.Like, Version: 1}, n.store.db.state("cat", "alice"))
		})
	}
}

// The statuses and members of the refusals that the state of things decides.
func TestRESTProblems(t *testing.T) {
	t.Parallel()
	put := restCall{Method: http.MethodPut, Path: "/v1/videos/cat/reaction", Body: `{"reaction":"LIKE"}`}
	for name, c := range map[string]struct {
		err     error
		status  int
		slug    string
		members map[string]any
		header  map[string]string
	}{
		"another version": {
			&storage.VersionMismatchError{Current: storage.State{Reaction: storage.Dislike, Version: 1<<53 + 1}}, 412, "version-mismatch",
			map[string]any{"reaction": "DISLIKE", "version": "9007199254740993", "code": "failed_precondition"},
			map[string]string{"ETag": `"9007199254740993"`},
		},
		"a disabled video": {&storage.VideoStateError{State: storage.VideoDisabled}, 409, "video-not-active", map[string]any{"state": "DISABLED"}, nil},
		"a deleted video":  {&storage.VideoStateError{State: storage.VideoDeleted}, 410, "video-not-active", map[string]any{"state": "DELETED"}, nil},
		"a key again":      {&storage.KeyReusedError{Key: "k"}, 422, "idempotency-key-reused", map[string]any{"code": "already_exists"}, nil},
		"too much to do":   {&storage.OverloadedError{RetryAfter: 1500 * time.Millisecond}, 429, "overloaded", nil, map[string]string{"Retry-After": "2"}},
		"leaving":          {storage.ErrClosing, 503, "unavailable", nil, map[string]string{"Retry-After": "1"}},
		"unknown":          {storage.ErrOutcomeUnknown, 503, "outcome-unknown", map[string]any{"code": "unavailable"}, nil},
		"no time":          {context.DeadlineExceeded, 504, "deadline-exceeded", nil, nil},
		"a bug":            {errDatabaseDown, 500, "internal", map[string]any{"code": "internal"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startNode(t, "n1")
			n.store.beforeSet = func(context.Context, storage.Set) error { return c.err }
			got := n.rest(t, put)
			requireProblem(t, got, c.status, c.slug)
			for member, want := range c.members {
				require.Equal(t, want, got.Body[member], member)
			}
			for header, want := range c.header {
				require.Equal(t, want, got.Header.Get(header), header)
			}
			require.NotContains(t, got.Raw, "10.0.0.1")
		})
	}
}
