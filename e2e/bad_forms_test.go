package e2e

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	likewisev1 "likewise/proto/likewise/v1"
)

// badForm is a request that is spoilt on the wire: no client library sends it.
type badForm struct {
	name    string
	request proto.Message       // nil: a like of someVideo
	in      func(scribe) bool   // which protocols can put it so; nil: all
	spoil   func(scribe, *form) // nil: it is spoilt already
	code    string              // invalid_argument, if empty
	status  int                 // of HTTP, in every protocol; 0: what the code gives
	rest    int                 // of HTTP, in REST; 0: what the code gives
	says    string              // names what to change
}

func inJSON(s scribe) bool    { return s.json }
func inBinary(s scribe) bool  { return !s.json }
func inREST(s scribe) bool    { return s.rest }
func inConnect(s scribe) bool { return s.connect() }
func inFrames(s scribe) bool  { return s.framed }
func notInREST(s scribe) bool { return !s.rest }

const (
	maxBody = 64 << 10 // bytes of a request
	tooBig  = "65536 bytes"
)

// testBadForms sends requests that are wrong before anybody looks at what they
// ask for.
func (d *deployment) testBadForms(t *testing.T) {
	cases := slices.Concat(bigForms(), typedForms(), jsonForms(), binaryForms(), queryForms(), timedForms())
	for i, s := range scribes(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			n := d.Nodes()[i%len(d.Nodes())]
			me := "bad-forms-" + identifier(s.name)
			bearer := userToken(t, me)
			for _, c := range cases {
				if c.in != nil && !c.in(s) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					c.check(t, s, s.send(t.Context(), n, c.form(s, bearer), c.asks()))
					d.requireNothingWritten(t, me)
				})
			}
			// Whatever came before, the same connection, user and form still work.
			r := s.send(t.Context(), n, s.form(aLike(), bearer), aLike())
			require.Empty(t, r.code, r.text)
			require.Equal(t, traces{Reactions: 1, Changes: 1}, d.traces(t, me))
		})
	}
}

func aLike() *likewisev1.SetReactionRequest {
	return &likewisev1.SetReactionRequest{VideoId: "forms", Reaction: like}
}

func (c badForm) asks() proto.Message {
	if c.request == nil {
		return aLike()
	}
	return c.request
}

func (c badForm) form(s scribe, bearer string) form {
	f := s.form(c.asks(), bearer)
	if c.spoil != nil {
		c.spoil(s, &f)
	}
	return f
}

func (c badForm) check(t *testing.T, s scribe, r reply) {
	t.Helper()
	require.Contains(t, strings.Join(append(violationsOf(r), r.text), "\n"), c.says, "%+v", r)
	switch {
	case c.status != 0 && r.status != 0, c.rest != 0 && s.rest:
		require.Equal(t, cmp.Or(c.status, c.rest), r.status, r.text)
	default:
		require.Equal(t, cmp.Or(c.code, "invalid_argument"), r.code, r.text)
		if s.rest {
			require.Equal(t, statusOf(r), r.status)
		}
	}
	if r.status == http.StatusMethodNotAllowed {
		require.NotEmpty(t, r.header.Get("Allow"))
	}
}

func bigForms() []badForm {
	// Made once: ten megabytes for each protocol would be most of this test's time.
	huge, packed := map[bool]func() []byte{}, map[bool]func() []byte{} // by whether it is JSON
	key := bytes.Repeat([]byte("k"), 10<<20)
	huge[true] = sync.OnceValue(func() []byte { return slices.Concat([]byte(`{"idempotencyKey":"`), key, []byte(`"}`)) })
	huge[false] = sync.OnceValue(func() []byte { return protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), key) })
	for json, message := range huge {
		packed[json] = sync.OnceValue(func() []byte { return gzipped(message()) })
	}
	const large = http.StatusRequestEntityTooLarge
	return []badForm{
		{name: "10 MB", rest: large, says: tooBig, spoil: func(s scribe, f *form) { f.message = huge[s.json]() }},
		{name: "10 MB in chunks", rest: large, says: tooBig, spoil: func(s scribe, f *form) { f.message, f.chunked = huge[s.json](), true }},
		{name: "10 MB in 10 kB", rest: large, says: tooBig, spoil: func(s scribe, f *form) {
			f.message = packed[s.json]()
			s.compressed(f)
		}},
		{name: "a byte too much", in: inJSON, rest: large, says: tooBig, spoil: func(_ scribe, f *form) {
			f.message = append(f.message, bytes.Repeat([]byte(" "), maxBody+1-len(f.message))...)
		}},
		{
			name: "a header of 32 kB", spoil: func(_ scribe, f *form) { f.header.Set("X-Large", strings.Repeat("x", 32<<10)) },
			in: func(s scribe) bool { return !s.http2 }, status: http.StatusRequestHeaderFieldsTooLarge,
		},
	}
}

func gzipped(message []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(message)
	_ = w.Close()
	return packed.Bytes()
}

// typedForms have another type, encoding or method than they should.
func typedForms() []badForm {
	var cases []badForm
	for _, kind := range []string{"text/plain", "application/xml", "application/x-www-form-urlencoded", "application/json; charset=latin1", "rubbish", "application/grpc+thrift", "*/*"} {
		cases = append(cases, badForm{
			name: "the content type " + kind, status: http.StatusUnsupportedMediaType, says: "application/json",
			spoil: func(_ scribe, f *form) { f.header.Set("Content-Type", kind) },
		})
	}
	for _, verb := range []string{http.MethodPatch, "LIKE", http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodGet} {
		spoil := func(_ scribe, f *form) { f.verb = verb }
		if verb != http.MethodPost {
			cases = append(cases, badForm{name: "the method " + verb, in: notInREST, status: http.StatusMethodNotAllowed, says: "POST", spoil: spoil})
		}
		if verb == http.MethodPatch || verb == "LIKE" || verb == http.MethodPost {
			cases = append(cases, badForm{name: "the method " + verb, in: inREST, status: http.StatusMethodNotAllowed, says: "DELETE, GET, PUT", spoil: spoil})
		}
	}
	return append(cases,
		badForm{
			name: "no content type", in: notInREST, status: http.StatusUnsupportedMediaType, says: "application/json",
			spoil: func(_ scribe, f *form) { f.header.Del("Content-Type") },
		},
		badForm{
			name: "an encoding that nobody knows", code: "unimplemented", rest: http.StatusUnsupportedMediaType, says: "gzip",
			spoil: func(s scribe, f *form) {
				s.compressed(f)
				for _, key := range []string{"Content-Encoding", "Grpc-Encoding"} {
					if f.header.Get(key) != "" {
						f.header.Set(key, "br")
					}
				}
			},
		},
		badForm{name: "an encoding that it has not", says: "gzip", spoil: func(s scribe, f *form) { s.compressed(f) }},
		badForm{name: "half of what was encoded", says: "gzip", spoil: func(s scribe, f *form) {
			packed := gzipped(f.message)
			f.message = packed[:len(packed)-8]
			s.compressed(f)
		}},
		badForm{
			name: "a write by GET", in: inConnect, status: http.StatusMethodNotAllowed, says: "POST",
			spoil: func(s scribe, f *form) { *f = byGet(s, *f) },
		},
		badForm{
			name: "another version of Connect", in: inConnect, says: "Connect-Protocol-Version",
			spoil: func(_ scribe, f *form) { f.header.Set("Connect-Protocol-Version", "2") },
		},
		badForm{
			name: "a body of a deletion", request: &likewisev1.DeleteReactionRequest{VideoId: someVideo}, in: inREST, says: "body",
			spoil: func(_ scribe, f *form) { f.message = []byte(`{}`) },
		},
	)
}

// jsonForms are bodies that are no JSON, or say what cannot be meant.
func jsonForms() []badForm {
	var cases []badForm
	fields := func(says string, each ...string) {
		for _, body := range each {
			cases = append(cases, badForm{name: "the fields " + body[:min(60, len(body))], in: inJSON, says: says, spoil: func(s scribe, f *form) {
				video := `"videoId":"forms",`
				if s.rest { // it is in the path
					video = ""
				}
				f.message = []byte("{" + video + body + "}")
			}})
		}
	}
	fields("reaction", `"reaction":""`, `"reaction":"like"`, `"reaction":"Like"`, `"reaction":"LIKE "`, `"reaction":"REACTION_UNSPECIFIED"`, `"reaction":"2"`,
		`"reaction":99`, `"reaction":2.5`, `"reaction":true`, `"reaction":null`, `"reaction":[]`, `"reaction":{}`, `"reaction":["LIKE"]`,
		`"reaction":"LIKE","reaction":"NONE"`, `"idempotencyKey":"a"`)
	fields("JSON", `"reaction":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000))
	fields("user_id", `"reaction":"LIKE","user_id":"bob"`)
	fields("userId", `"reaction":"LIKE","userId":"bob"`)
	fields("sub", `"reaction":"LIKE","sub":"bob"`)
	fields("Reaction", `"Reaction":"LIKE"`)
	fields("deep", `"reaction":"LIKE","deep":`+strings.Repeat(`{"a":`, 9_000)+"1"+strings.Repeat("}", 9_000))
	fields("idempotencyKey", `"reaction":"LIKE","idempotencyKey":7`, `"reaction":"LIKE","idempotencyKey":["a"]`, `"reaction":"LIKE","idempotencyKey":"a","idempotency_key":"a"`)
	fields("expectedVersion", `"reaction":"LIKE","expectedVersion":"x"`, `"reaction":"LIKE","expectedVersion":1.5`, `"reaction":"LIKE","expectedVersion":true`,
		`"reaction":"LIKE","expectedVersion":9223372036854775808`, `"reaction":"LIKE","expectedVersion":{}`, `"reaction":"LIKE","expectedVersion":""`)
	for _, body := range []string{
		`null`, `[]`, `"LIKE"`, `7`, `{`, `{"reaction":"LIKE"`, `{"reaction":"LIKE"}{}`, `{"reaction":"LIKE"} x`, `{"reaction":"LIKE",}`, `{reaction:"LIKE"}`,
		"\ufeff" + `{"reaction":"LIKE"}`, "\x00", `reaction=LIKE`, `<reaction>LIKE</reaction>`, "{\"reaction\":\"LIKE\",\"idempotencyKey\":\"\xff\"}", strings.Repeat("[", 60_000),
	} {
		cases = append(cases, badForm{name: "the body " + body[:min(60, len(body))], in: inJSON, says: "JSON", spoil: func(_ scribe, f *form) { f.message = []byte(body) }})
	}
	return append(cases, badForm{name: "no body", in: func(s scribe) bool { return s.json && !s.framed }, says: "JSON", spoil: func(_ scribe, f *form) { f.message = nil }})
}

// binaryForms are no messages, or frames that lie.
func binaryForms() []badForm {
	replaced := func(message []byte) func(scribe, *form) {
		return func(_ scribe, f *form) { f.message = message }
	}
	framed := func(body []byte) func(scribe, *form) {
		return func(_ scribe, f *form) { f.message, f.unframed = body, true }
	}
	whole, _ := proto.Marshal(aLike())
	strange := protowire.AppendTag(nil, 1, protowire.BytesType)
	return []badForm{
		{name: "half a message", in: inBinary, spoil: func(_ scribe, f *form) { f.message = f.message[:len(f.message)-3] }, says: "message"},
		{name: "a number where a text belongs", in: inBinary, spoil: replaced(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)), says: "field video_id (number 1) in another type"},
		{name: "a video that is not UTF-8", in: inBinary, spoil: replaced(protowire.AppendBytes(strange, []byte("\xff"))), says: "message"},
		{name: "rubbish", in: inBinary, spoil: replaced([]byte("\xff\xff\xff\xff")), says: "message"},
		{name: "nothing", in: inBinary, spoil: replaced(nil), says: idRule},
		// Connect's own words for a frame that lies, as gRPC has them.
		{name: "a frame of 4 GB", in: inFrames, spoil: framed(append([]byte{0, 0xff, 0xff, 0xff, 0xff}, whole...)), code: "internal", says: "promised 4294967295 bytes"},
		{name: "a frame that breaks off", in: inFrames, spoil: framed(frame(0, whole)[:len(whole)]), code: "internal", says: "promised"},
		{name: "half a head of a frame", in: inFrames, spoil: framed([]byte{0, 0, 0}), code: "internal", says: "incomplete"},
		{name: "no frame", in: inFrames, spoil: framed(nil), code: "unimplemented", says: "message"},
		{name: "two messages", in: inFrames, spoil: framed(append(frame(0, whole), frame(0, whole)...)), code: "unimplemented", says: "message"},
	}
}

// queryForms say things where nothing is read.
func queryForms() []badForm {
	var cases []badForm
	for name, request := range map[string]proto.Message{
		"setting": aLike(), "deleting": &likewisev1.DeleteReactionRequest{VideoId: someVideo}, "voting": &likewisev1.CastVoteRequest{ContentId: someVideo, Action: "like"},
		"reading": &likewisev1.GetReactionRequest{VideoId: someVideo}, "counting": &likewisev1.GetCountsRequest{VideoId: someVideo},
		"reading several": &likewisev1.BatchGetReactionsRequest{VideoIds: []string{someVideo}},
	} {
		for _, parameter := range []string{"user_id", "userId", "rubbish"} {
			cases = append(cases, badForm{
				name: name + " with " + parameter, request: request, in: inREST, says: parameter,
				spoil: func(_ scribe, f *form) { f.path += "?" + parameter + "=bob" },
			})
		}
	}
	return append(cases,
		badForm{
			name: "a query that cannot be read", request: &likewisev1.GetCountsRequest{VideoId: someVideo}, in: inREST, says: "query",
			spoil: func(_ scribe, f *form) { f.path += "?maxStaleness=%zz" },
		},
		badForm{
			name: "a duration that is none", request: &likewisev1.GetCountsRequest{VideoId: someVideo}, in: inREST, says: "maxStaleness",
			spoil: func(_ scribe, f *form) { f.path += "?maxStaleness=soon" },
		},
		badForm{
			name: "a parameter twice", request: &likewisev1.DeleteReactionRequest{VideoId: someVideo}, in: inREST, says: "idempotencyKey",
			spoil: func(_ scribe, f *form) { f.path += "?idempotencyKey=a&idempotency_key=b" },
		})
}

// timedForms have no time left, or say so in no way that can be read.
func timedForms() []badForm {
	timeout := func(value string) func(scribe, *form) {
		return func(s scribe, f *form) { f.header.Set(timeoutHeader(s), value) }
	}
	cases := []badForm{
		{name: "no time left, by Connect", in: inConnect, code: "deadline_exceeded", says: "deadline exceeded", spoil: timeout("0")},
		{name: "no time left, by gRPC", in: inFrames, code: "deadline_exceeded", says: "deadline exceeded", spoil: timeout("1n")},
		{name: "no time left, by REST", in: inREST, code: "deadline_exceeded", says: "deadline exceeded", spoil: timeout("0")},
	}
	for _, value := range []string{"soon", "-1", "12345678901", "1.5s"} {
		cases = append(cases, badForm{name: "the timeout " + value, says: "imeout", spoil: timeout(value)})
	}
	return cases
}

func timeoutHeader(s scribe) string {
	switch {
	case s.rest:
		return "X-Server-Timeout"
	case s.framed:
		return "Grpc-Timeout"
	default:
		return "Connect-Timeout-Ms"
	}
}
