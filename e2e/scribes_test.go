package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	endian "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"likewise/deploy/local/cluster"
)

type (
	// scribe is one protocol, written by hand: a way to send what no client would.
	scribe struct {
		name        string
		client      *http.Client
		contentType string
		http2       bool
		json        bool // the message is JSON
		framed      bool // five bytes before each message, as gRPC has them
		trailers    bool // an answer ends in HTTP trailers, as gRPC's does
		rest        bool
	}

	// form is one request as it goes over the wire, to be spoilt.
	form struct {
		verb, path string
		header     http.Header
		message    []byte // before it is framed
		chunked    bool   // its length is not said
		unframed   bool   // the message is the whole body, whatever the protocol
	}
)

func scribes(t *testing.T) []scribe {
	t.Helper()
	h1, h2 := httpClient(t, false), httpClient(t, true)
	return []scribe{
		{name: "Connect JSON", client: h1, contentType: "application/json", json: true},
		{name: "Connect JSON over HTTP/2", client: h2, http2: true, contentType: "application/json; charset=utf-8", json: true},
		{name: "Connect binary", client: h1, contentType: "application/proto"},
		{name: "gRPC", client: h2, http2: true, contentType: "application/grpc", framed: true, trailers: true},
		{name: "gRPC JSON", client: h2, http2: true, contentType: "application/grpc+json", framed: true, trailers: true, json: true},
		{name: "gRPC-Web", client: h1, contentType: "application/grpc-web+proto", framed: true},
		{name: "REST", client: h1, contentType: "application/json", json: true, rest: true},
		{name: "REST over HTTP/2", client: h2, http2: true, contentType: "application/json", json: true, rest: true},
	}
}

// connect reports whether the protocol is Connect's own, in which HTTP's status says
// how a call ended.
func (s scribe) connect() bool { return !s.framed && !s.rest }

// form writes a request as it should be.
func (s scribe) form(request proto.Message, bearer string) form {
	f := form{verb: http.MethodPost, path: procedureOf(methodOf(request)), header: http.Header{}}
	var err error
	switch {
	case s.rest:
		f.verb, f.path, f.message, err = restForm(request)
	case s.json:
		f.message, err = protojson.Marshal(request)
	default:
		f.message, err = proto.Marshal(request)
	}
	if err != nil {
		panic(err)
	}
	if !s.rest || len(f.message) > 0 {
		f.header.Set("Content-Type", s.contentType)
	}
	if s.trailers {
		f.header.Set("Te", "trailers")
	}
	if bearer != "" {
		f.header.Set("Authorization", "Bearer "+bearer)
	}
	return f
}

// frame puts gRPC's five bytes before a message.
func frame(flags byte, message []byte) []byte {
	head := endian.BigEndian.AppendUint32([]byte{flags}, uint32(len(message)))
	return append(head, message...)
}

// compressed says in the header, or in the frame, that the message is gzip's.
func (s scribe) compressed(f *form) {
	if !s.framed {
		f.header.Set("Content-Encoding", "gzip")
		return
	}
	f.header.Set("Grpc-Encoding", "gzip")
	f.message, f.unframed = frame(1, f.message), true
}

// send sends a form and reads what is answered to a request.
func (s scribe) send(ctx context.Context, n *cluster.Node, f form, request proto.Message) reply {
	body := f.message
	if s.framed && !f.unframed {
		body = frame(0, body)
	}
	var from io.Reader = bytes.NewReader(body)
	if f.chunked {
		from = io.MultiReader(from) // hides the length
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, f.verb, "http://"+n.Addr()+f.path, from)
	if err != nil {
		return failed(err)
	}
	req.Header = f.header
	resp, err := s.client.Do(req)
	if err != nil {
		return failed(err)
	}
	return s.read(resp, answerOf(methodOf(request)))
}

func (s scribe) read(resp *http.Response, answer proto.Message) reply {
	if s.rest {
		return restReply(resp, answer)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return failed(err)
	}
	if s.framed {
		return s.readFramed(resp, body, answer)
	}
	r := reply{status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode == http.StatusOK {
		return s.success(r, body, answer)
	}
	var e connectError
	if json.Unmarshal(body, &e) != nil || e.Code == "" {
		return bareHTTP(r, body)
	}
	told := e.reply(resp.Header)
	told.status = resp.StatusCode
	return told
}

// bareHTTP is an answer of HTTP alone, in no protocol.
func bareHTTP(r reply, body []byte) reply {
	r.code, r.text = "HTTP "+strconv.Itoa(r.status), string(body)
	return r
}

func (s scribe) success(r reply, body []byte, answer proto.Message) reply {
	unmarshal := proto.Unmarshal
	if s.json {
		unmarshal = protojson.Unmarshal
	}
	if err := unmarshal(body, answer); err != nil {
		return failed(fmt.Errorf("%w: %q", err, body))
	}
	r.message = answer
	return r
}

// readFramed reads an answer of gRPC or gRPC-Web: a message, if all went well,
// and trailers.
func (s scribe) readFramed(resp *http.Response, body []byte, answer proto.Message) reply {
	r := reply{header: resp.Header}
	if resp.StatusCode != http.StatusOK {
		r.status = resp.StatusCode
		return bareHTTP(r, body)
	}
	trailer := resp.Trailer
	var message []byte
	for len(body) >= 5 {
		size := min(int(endian.BigEndian.Uint32(body[1:5])), len(body)-5)
		content := body[5 : 5+size]
		if body[0]&0x80 != 0 {
			trailer = webTrailer(content)
		} else {
			message = content
		}
		body = body[5+size:]
	}
	if resp.Header.Get("Grpc-Status") != "" {
		trailer = resp.Header // there was nothing but trailers
	}
	maps.Copy(r.header, trailer)
	code, err := strconv.ParseUint(trailer.Get("Grpc-Status"), 10, 32)
	if err != nil {
		return failed(fmt.Errorf("no status: %w", err))
	}
	if code == 0 {
		return s.success(r, message, answer)
	}
	r.code = connect.Code(code).String()
	r.text, _ = url.PathUnescape(trailer.Get("Grpc-Message"))
	return r
}

func webTrailer(content []byte) http.Header {
	header := http.Header{}
	for line := range strings.Lines(string(content)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		header.Add(textproto.CanonicalMIMEHeaderKey(key), strings.TrimSpace(value))
	}
	return header
}

// byGet is a form of Connect's GET, for methods without side effects.
func byGet(s scribe, f form) form {
	encoding := "proto"
	if s.json {
		encoding = "json"
	}
	f.verb = http.MethodGet
	f.path += "?" + url.Values{
		"connect": {"v1"}, "encoding": {encoding}, "base64": {"1"},
		"message": {base64.RawURLEncoding.EncodeToString(f.message)},
	}.Encode()
	f.message = nil
	f.header.Del("Content-Type")
	return f
}

// only returns the scribes of which something is true.
func only(all []scribe, is func(scribe) bool) []scribe {
	return slices.DeleteFunc(slices.Clone(all), func(s scribe) bool { return !is(s) })
}
