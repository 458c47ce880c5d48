package regions

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// rpcEdge is the way of an RPC's HTTP request to its Connect handler. It bounds
// the body, puts into words what Connect refuses without any, and counts what
// never reaches the interceptors.
type rpcEdge struct {
	procedure string
	pure      bool   // it has no side effects, so that GET may call it
	empty     string // see call
	handler   http.Handler
	errors    *connect.ErrorWriter
	metrics   *metrics
}

const contentTypes = "application/json or application/proto (Connect), application/grpc+proto (gRPC) or application/grpc-web+proto (gRPC-Web)"

func (e *rpcEdge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newCall(w, r, e.procedure)
	c.empty = e.empty
	defer e.metrics.conclude(c, r, time.Now())
	if refusal := e.check(r); refusal != nil {
		c.code = refusal.Code()
		_ = e.errors.Write(c, r, refusal) // whoever asked has gone
		return
	}
	e.handler.ServeHTTP(c, c.with(r))
}

// check refuses what Connect would answer with 500, or read as another request
// than the one that was meant.
func (e *rpcEdge) check(r *http.Request) *connect.Error {
	if r.ContentLength > maxBody+maxEnvelope {
		return tooLarge()
	}
	if r.Method == http.MethodGet && e.pure {
		return checkGet(r.URL.RawQuery)
	}
	return nil
}

// checkGet checks the query of a Connect GET.
func checkGet(raw string) *connect.Error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return badQuery("the query cannot be read: percent-encode its values, and separate them by &")
	}
	for name, values := range query {
		switch name {
		case "connect", "encoding", "message", "base64", "compression":
		default:
			return badQuery(fmt.Sprintf("unknown query parameter %q: a GET takes connect, encoding, message, base64 and compression", short(name)))
		}
		if len(values) > 1 {
			return badQuery(fmt.Sprintf("the query parameter %q is there twice: send it once", name))
		}
	}
	if !query.Has("encoding") {
		return badQuery("the query has no parameter encoding: send json or proto in it")
	}
	if !query.Has("message") {
		return badQuery("the query has no parameter message: send the request in it")
	}
	switch query.Get("base64") {
	case "", "0":
		return nil
	case "1":
		return checkBase64(query.Get("message"))
	default:
		return badQuery("the query parameter base64 must be 1, or not be there")
	}
}

func checkBase64(message string) *connect.Error {
	if _, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(message, "=")); err != nil {
		return badQuery("the query parameter message is not base64: encode it with the characters A-Z a-z 0-9 - _")
	}
	return nil
}

func badQuery(say string) *connect.Error {
	return connect.NewError(connect.CodeInvalidArgument, errors.New(say))
}

// writeConnectJSON writes an error in Connect's JSON under a status of its own.
func writeConnectJSON(w http.ResponseWriter, status int, err *connect.Error) {
	body, _ := json.Marshal(map[string]string{"code": err.Code().String(), "message": err.Message()}) // of strings: it cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // whoever asked has gone
}
