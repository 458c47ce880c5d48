package regions

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

// exchange sends bytes and returns all that comes back.
func exchange(t *testing.T, n *node, request string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", n.FrontAddr())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return fmt.Sprintf("%s %s %s", resp.Proto, resp.Status, body)
}

const setProcedure = likewisev1connect.ReactionServiceSetReactionProcedure

// What Connect refuses before the interceptors is said in words that help, and
// counted as every other call.
func TestRefusalsBeforeTheInterceptors(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	token := "Bearer " + mint(t, "alice")
	t.Cleanup(func() { require.Zero(t, n.store.sets.Load()) })
	large := `{"videoId":"` + strings.Repeat("a", maxBody) + `"}`
	for name, c := range map[string]struct {
		method, path, body string
		header             map[string]string
		status             int
		code, says         string
	}{
		"too large":           {body: large, status: 400, code: "invalid_argument", says: "the request is larger than 65536 bytes"},
		"too large in chunks": {body: "chunked" + large, status: 400, code: "invalid_argument", says: "the request is larger than 65536 bytes"},
		"a bomb": {
			body: zipped(strings.Repeat(" ", 1<<20)), header: map[string]string{"Content-Encoding": "gzip"},
			status: 400, code: "invalid_argument", says: "the request is larger than 65536 bytes",
		},
		"no gzip":           {body: "{}", header: map[string]string{"Content-Encoding": "gzip"}, status: 400, code: "invalid_argument", says: "the body is not gzip"},
		"half a gzip":       {body: zipped("{}")[:12], header: map[string]string{"Content-Encoding": "gzip"}, status: 400, code: "invalid_argument", says: "the body is not gzip"},
		"unknown encoding":  {body: "{}", header: map[string]string{"Content-Encoding": "br"}, status: 501, code: "unimplemented", says: "gzip"},
		"no JSON":           {body: "{", status: 400, code: "invalid_argument", says: "the body is not JSON from byte 1 on"},
		"empty":             {body: "", status: 400, code: "invalid_argument", says: "the body is empty"},
		"an unknown field":  {body: `{"userId":"bob"}`, status: 400, code: "invalid_argument", says: `the field "userId" is unknown: this takes videoId, reaction, idempotencyKey, expectedVersion`},
		"no protobuf":       {body: "\xff", header: map[string]string{"Content-Type": "application/proto"}, status: 400, code: "invalid_argument", says: "no SetReactionRequest in protobuf's wire format"},
		"a field not known": {body: string(protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 1)), header: map[string]string{"Content-Type": "application/proto"}, status: 400, code: "invalid_argument", says: "field number 9"},
		"another wire type": {body: string(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)), header: map[string]string{"Content-Type": "application/proto"}, status: 400, code: "invalid_argument", says: "field video_id (number 1) in another type"},
		"a mark of ours":    {body: string(protowire.AppendString(protowire.AppendTag(nil, unreadSay, protowire.BytesType), "fooled")), header: map[string]string{"Content-Type": "application/proto"}, status: 400, code: "invalid_argument", says: "which this server does not know"},
		"another type":      {body: "{}", header: map[string]string{"Content-Type": "text/json"}, status: 415, code: "invalid_argument", says: "send POST with the content type application/json"},
		"no type":           {body: "{}", header: map[string]string{"Content-Type": ""}, status: 415, code: "invalid_argument", says: "application/json"},
		"another method":    {method: http.MethodPut, body: "{}", status: 405, code: "invalid_argument", says: "send POST"},
		"GET of nothing":    {method: http.MethodGet, header: map[string]string{"Content-Type": ""}, status: 405, code: "invalid_argument", says: "send POST"},
		"GET of a write":    {method: http.MethodGet, path: setProcedure + "?encoding=json&message={}", header: map[string]string{"Content-Type": ""}, status: 405, code: "invalid_argument", says: "send POST"},
		"another procedure": {path: "/likewise.v1.ReactionService/ToggleReaction", body: "{}", status: 404, code: "unimplemented", says: "there is nothing at this path"},
		"another service":   {path: "/likewise.v1.ReactionService//SetReaction", body: "{}", status: 404, code: "unimplemented", says: "there is nothing at this path"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.method == "" {
				c.method = http.MethodPost
			}
			if c.path == "" {
				c.path = setProcedure
			}
			text, chunked := strings.CutPrefix(c.body, "chunked")
			header := map[string]string{"Authorization": token, "Content-Type": "application/json"}
			maps.Copy(header, c.header)
			got := n.rest(t, restCall{Method: c.method, Path: c.path, Body: text, Chunked: chunked, Header: header})
			require.Equal(t, c.status, got.Status, got.Raw)
			require.Equal(t, c.code, got.Body["code"])
			require.Contains(t, got.Body["message"], c.says)
			require.NotContains(t, got.Raw, "unmarshal")
		})
	}
}

func TestRefusalsOfConnectGET(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	const procedure = likewisev1connect.ReactionServiceGetCountsProcedure
	encoded := base64.RawURLEncoding.EncodeToString(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "cat"))
	for _, c := range []struct {
		query  string
		status int
		says   string
	}{
		{`connect=v1&encoding=json&message={"videoId":"cat"}`, 200, ""},
		{`encoding=proto&base64=1&message=` + encoded, 200, ""},
		{`encoding=json&base64=1&message=*`, 400, "is not base64"},
		{`encoding=json&base64=yes&message=e30`, 400, "base64 must be 1"},
		{`encoding=json&message={"videoId":"cat"}&x=1`, 400, `unknown query parameter "x"`},
		{`encoding=json&message={"videoId":"cat"}&message={}`, 400, `"message" is there twice`},
		{`encoding=json`, 400, "no parameter message"},
		{`message={}`, 400, "no parameter encoding"},
		{`encoding=xml&message={}`, 415, "application/json"},
		{`encoding=json&message=%zz`, 400, "the query cannot be read"},
		{`encoding=json&message={`, 400, "is not JSON from byte 1 on"},
		{`encoding=json&message=`, 400, "the body is empty"},
		{`encoding=json&connect=v2&message={}`, 400, "connect"},
		{`encoding=json&compression=br&message={"videoId":"cat"}`, 501, "gzip"},
		{`encoding=json&compression=gzip&base64=1&message=` + encoded, 400, "not gzip"},
	} {
		t.Run(c.query, func(t *testing.T) {
			t.Parallel()
			query := strings.NewReplacer("{", "%7B", "}", "%7D", `"`, "%22").Replace(c.query)
			got := n.rest(t, restCall{Method: http.MethodGet, Path: procedure + "?" + query})
			require.Equal(t, c.status, got.Status, got.Raw)
			if c.says != "" {
				require.Contains(t, got.Body["message"], c.says)
			}
		})
	}
}

// gRPC hears of its mistakes by gRPC's own means.
func TestRefusalsOverGRPC(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+mint(t, "alice"))
	conn := dialGRPC(t, n.FrontAddr())
	invoke := func(procedure string, req *likewisev1.SetReactionRequest, options ...grpc.CallOption) *grpcstatus.Status {
		err := conn.Invoke(ctx, procedure, req, &likewisev1.SetReactionResponse{}, options...)
		said, ok := grpcstatus.FromError(err)
		require.True(t, ok)
		return said
	}

	said := invoke(setProcedure, like(strings.Repeat("a", 10<<20)))
	require.Equal(t, codes.InvalidArgument, said.Code(), said.Message())
	require.Contains(t, said.Message(), "the request is larger than 65536 bytes")

	said = invoke("/likewise.v1.ReactionService/ToggleReaction", like("cat"))
	require.Equal(t, codes.Unimplemented, said.Code())
	require.Contains(t, said.Message(), "there is nothing at this path")

	unknown := like("cat")
	unknown.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 1))
	said = invoke(setProcedure, unknown)
	require.Equal(t, codes.InvalidArgument, said.Code())
	require.Contains(t, said.Message(), "field number 9")

	require.Zero(t, n.store.sets.Load())
}

// The limits count what is in a message, not in its envelope.
func TestEnvelopes(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	for name, c := range map[string]struct {
		body string
		says string
	}{
		"broken off":        {string(envelope(`{"videoId":"cat"`)[:9]), ""},
		"two messages":      {string(envelope(`{"videoId":"cat","reaction":"LIKE"}`)) + string(envelope(`{}`)), "multiple messages"},
		"two, one unread":   {string(envelope(`{"videoId":"cat","reaction":"LIKE"}`)) + string(envelope(`{`)), "multiple messages"},
		"a promise of 4 GB": {"\x00\xff\xff\xff\xff{}", ""},
		"none":              {"", "zero messages"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.url(setProcedure), strings.NewReader(c.body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/grpc-web+json")
			req.Header.Set("Authorization", "Bearer "+mint(t, "alice"))
			resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			said := resp.Header.Get("Grpc-Status") + resp.Header.Get("Grpc-Message") + string(body)
			require.NotContains(t, strings.ToLower(said), "grpc-status: 0")
			require.Contains(t, said, c.says)
			require.Zero(t, n.store.sets.Load())
		})
	}
}

func envelope(message string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	token := "Bearer " + mint(t, "alice")
	header := map[string]string{"Authorization": token, "Content-Type": "application/json"}
	n.rest(t, restCall{Method: http.MethodPost, Path: setProcedure, Body: "{", Header: header})
	n.rest(t, restCall{Method: http.MethodPost, Path: setProcedure, Body: strings.Repeat(" ", 2*maxBody), Header: header})
	n.rest(t, restCall{Method: http.MethodPut, Path: setProcedure, Body: "{}", Header: header})
	n.rest(t, restCall{Method: http.MethodPost, Path: setProcedure, Body: "{}", Header: map[string]string{"Content-Encoding": "br"}})
	n.rest(t, restCall{Method: http.MethodPost, Path: "/nowhere", Body: "{}", Header: header})
	n.rest(t, restCall{Method: http.MethodPut, Path: "/v1/videos/cat/reaction", Body: "{"})
	n.rest(t, restCall{Method: http.MethodPut, Path: "/v1/videos/cat/reaction", Body: `{"reaction":"LIKE"}`})
	n.rest(t, restCall{Method: http.MethodPut, Path: "/v1/nowhere", Body: "{"})

	text := page(t, n.url("/metrics"))
	for _, line := range []string{
		`likewise_regions_calls_total{code="invalid_argument",procedure="/likewise.v1.ReactionService/SetReaction"} 4`,
		`likewise_regions_calls_total{code="unimplemented",procedure="/likewise.v1.ReactionService/SetReaction"} 1`,
		`likewise_regions_calls_total{code="ok",procedure="/likewise.v1.ReactionService/SetReaction"} 1`,
		`likewise_regions_call_seconds_count{procedure="/likewise.v1.ReactionService/SetReaction"} 6`,
		`likewise_regions_calls_total{code="unimplemented",procedure="unknown"} 1`,
		`likewise_regions_calls_total{code="not_found",procedure="unknown"} 1`,
	} {
		require.Contains(t, text, line)
	}
}

// A caller who sends a body drop by drop is told, and does not hold the line.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.Deadline, cfg.MaxDeadline = 50*time.Millisecond, 100*time.Millisecond })
	head := " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + mint(t, "alice") + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
	got := exchange(t, n, "POST "+setProcedure+head)
	require.Contains(t, got, "deadline_exceeded")
	require.Contains(t, got, "the body did not arrive in time")
	got = exchange(t, n, "PUT /v1/videos/cat/reaction"+head)
	require.Contains(t, got, "504")
	require.Contains(t, got, "the body did not arrive in time")

	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	slow, end := io.Pipe()
	t.Cleanup(func() { _ = end.Close() })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, n.url("/v1/videos/cat/reaction"), slow)
	require.NoError(t, err)
	resp, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusGatewayTimeout, resp.StatusCode, "over HTTP/2")
}

// A caller who does not read its answers does not hold the line either.
func TestCallersWhoDoNotRead(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.Deadline, cfg.MaxDeadline = 50*time.Millisecond, 100*time.Millisecond })
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", n.FrontAddr())
	require.NoError(t, err)
	defer conn.Close()
	buffer, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, buffer.SetReadBuffer(4<<10))
	const asked = 400
	_, err = io.WriteString(conn, strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", asked))
	require.NoError(t, err)
	require.Eventually(t, func() bool { // the server has hung up: a write meets a reset
		_, err := io.WriteString(conn, "\r\n")
		return err != nil
	}, time.Minute, 100*time.Millisecond)
}

func TestUnknownPathsAnswerInTheCallersProtocol(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	got := n.rest(t, restCall{Method: http.MethodGet, Path: "/nowhere"})
	requireProblem(t, got, http.StatusNotFound, "not-found")
	require.Contains(t, got.Body["detail"], "/openapi.yaml")
	require.Contains(t, got.Body["detail"], "/likewise.v1.ReactionService/")
	got = n.rest(t, restCall{Method: http.MethodPost, Path: "/metrics"})
	requireProblem(t, got, http.StatusMethodNotAllowed, "method-not-allowed")
	require.Equal(t, "GET, HEAD", got.Header.Get("Allow"))
}

// A browser's page may call if its origin is on the list, and hears nothing of
// CORS otherwise.
func TestCORS(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.HTTP.CORSOrigins = []string{"https://app.example"} })
	preflight := func(origin, method, headers, path string) answer {
		return n.rest(t, restCall{Method: http.MethodOptions, Path: path, Header: map[string]string{
			"Authorization": "", "Origin": origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": headers,
		}})
	}

	t.Run("preflights", func(t *testing.T) {
		t.Parallel()
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPost, http.MethodGet} {
			got := preflight("https://app.example", method, "authorization,content-type,idempotency-key,if-match,if-none-match", "/v1/videos/cat/reaction")
			require.Equal(t, http.StatusNoContent, got.Status)
			require.Equal(t, "https://app.example", got.Header.Get("Access-Control-Allow-Origin"))
			require.Equal(t, "true", got.Header.Get("Access-Control-Allow-Credentials"))
			require.Equal(t, method, got.Header.Get("Access-Control-Allow-Methods"))
			require.NotEmpty(t, got.Header.Get("Access-Control-Allow-Headers"))
		}
		got := preflight("https://app.example", http.MethodPost, "connect-protocol-version,x-grpc-web", setProcedure)
		require.Equal(t, "https://app.example", got.Header.Get("Access-Control-Allow-Origin"))
	})

	t.Run("calls", func(t *testing.T) {
		t.Parallel()
		got := n.rest(t, restCall{Method: http.MethodGet, Path: "/v1/videos/cat/reaction", Header: map[string]string{"Origin": "https://app.example"}})
		require.Equal(t, "https://app.example", got.Header.Get("Access-Control-Allow-Origin"))
		for _, header := range []string{"Etag", "Retry-After", "Grpc-Status", "Grpc-Message"} {
			require.Contains(t, strings.ToLower(got.Header.Get("Access-Control-Expose-Headers")), strings.ToLower(header))
		}
		got = n.rest(t, restCall{Method: http.MethodGet, Path: "/nowhere", Header: map[string]string{"Origin": "https://app.example"}})
		require.Equal(t, "https://app.example", got.Header.Get("Access-Control-Allow-Origin"), "a page can read refusals too")
	})

	t.Run("other origins", func(t *testing.T) {
		t.Parallel()
		for _, origin := range []string{"https://evil.example", "http://app.example", "https://app.example:8443", "https://app.example.evil", "null", "*"} {
			for _, got := range []answer{
				preflight(origin, http.MethodPut, "authorization", "/v1/videos/cat/reaction"),
				n.rest(t, restCall{Method: http.MethodGet, Path: "/v1/videos/cat/reaction", Header: map[string]string{"Origin": origin}}),
			} {
				for header := range got.Header {
					require.NotContains(t, header, "Access-Control", origin)
				}
			}
		}
	})

	t.Run("nobody by default", func(t *testing.T) {
		t.Parallel()
		got := startNode(t, "n2").rest(t, restCall{Method: http.MethodGet, Path: "/v1/videos/cat/reaction", Header: map[string]string{"Origin": "https://app.example"}})
		require.Empty(t, got.Header.Get("Access-Control-Allow-Origin"))
	})
}

func TestOriginsAreChecked(t *testing.T) {
	t.Parallel()
	for origin, valid := range map[string]bool{
		"https://app.example": true, "http://localhost:5173": true, "http://[::1]:5173": true, "http://127.0.0.1:1": true,
		"*": false, "https://*.example": false, "app.example": false, "https://app.example/": false, "https://app.example/x": false,
		"https://": false, "https://a b": false, "ftp://app.example": false, "https://u@app.example": false, "https://App.example": false,
		"https://app.example:": false, "https://app.example:443": false, "http://app.example:80": false, "https://app.example?x": false, "null": false, "": false,
	} {
		err := HTTPConfig{CORSOrigins: []string{origin}}.validate()
		require.Equal(t, valid, err == nil, "%q: %v", origin, err)
		if err != nil {
			require.ErrorContains(t, err, "HTTP.CORSOrigins")
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	authority := newTestCA(t)
	cert, key := authority.issue(t, "front.example")
	n := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.HTTP.TLSCert, cfg.HTTP.TLSKey = cert, key })
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(authority.pem))
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			transport := &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "front.example"},
				Protocols:       new(http.Protocols),
			}
			transport.Protocols.SetHTTP1(proto == "HTTP/1.1")
			transport.Protocols.SetHTTP2(proto != "HTTP/1.1")
			defer transport.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+n.FrontAddr()+"/v1/videos/cat/reaction-counts", nil)
			require.NoError(t, err)
			resp, err := (&http.Client{Transport: transport}).Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, proto, resp.Proto)
		})
	}

	t.Run("config", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, HTTPConfig{TLSCert: cert, TLSKey: key}.validate())
		require.ErrorContains(t, HTTPConfig{TLSCert: cert}.validate(), "HTTP.TLSCert")
		require.ErrorContains(t, HTTPConfig{TLSCert: []byte("x"), TLSKey: key}.validate(), "HTTP.TLSCert")
	})
}

func TestReflectionListsTheAdministration(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	names, err := reflect(t, n.FrontAddr()).ListServices()
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(names), likewisev1connect.AdminServiceName)
}

// A caller who only stops to send hears what is known of its write.
func TestAHalfClosedCallerHearsOfItsWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails error
		says  string
	}{
		"unknown": {storage.ErrOutcomeUnknown, "outcome unknown; repeat with an idempotency key"},
		"nothing": {context.Canceled, "the caller went away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startNode(t, "n1")
			begun := make(chan struct{})
			n.store.beforeSet = func(ctx context.Context, _ storage.Set) error {
				close(begun)
				<-ctx.Done()
				return c.fails
			}
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", n.FrontAddr())
			require.NoError(t, err)
			defer conn.Close()
			const body = `{"videoId":"cat","reaction":"LIKE"}`
			_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				setProcedure, mint(t, "alice"), len(body), body)
			require.NoError(t, err)
			tcp, ok := conn.(*net.TCPConn)
			require.True(t, ok)
			<-begun
			require.NoError(t, tcp.CloseWrite())
			heard, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Contains(t, string(heard), c.says)
			require.Contains(t, string(heard), map[bool]string{true: "OutcomeUnknown", false: "NothingChanged"}[name == "unknown"])
		})
	}
}

// A panic before the interceptors is counted, logged, and no fault of its caller.
func TestAPanicAtTheEdge(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	door, err := n.frontHandler()
	require.NoError(t, err)
	inner, ok := door.(*front)
	require.True(t, ok)
	inner.rpcs[setProcedure] = &rpcEdge{
		procedure: setProcedure, metrics: n.Server.metrics,
		handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a body that cannot be") }),
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, setProcedure, strings.NewReader("{}"))
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { inner.ServeHTTP(httptest.NewRecorder(), req) })
	require.Len(t, n.logs.FilterMessage("request panicked").All(), 1)
	text := page(t, n.url("/metrics"))
	require.Contains(t, text, "likewise_regions_panics_total 1")
	require.Contains(t, text, `likewise_regions_calls_total{code="internal",procedure="/likewise.v1.ReactionService/SetReaction"} 1`)
}
