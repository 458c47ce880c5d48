package regions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
)

// call is one HTTP request on its way to the interceptors. It is the request's
// body and its ResponseWriter, so that what is refused before the interceptors
// is refused in words that help, and is counted as every other call is.
//
// It belongs to the goroutine that serves the request.
type call struct {
	http.ResponseWriter
	body io.ReadCloser

	procedure string // what is called, as metrics name it
	left      int    // bytes that the body may still have

	reached bool         // the interceptors have the call, and count it
	status  int          // of the answer; 0: none was begun
	code    connect.Code // of a refusal before the interceptors, if it is known
	empty   string       // what an answer without a body says instead; "": nothing
}

// maxEnvelope is what gRPC puts before a message, in bytes.
const maxEnvelope = 5

func newCall(w http.ResponseWriter, r *http.Request, procedure string) *call {
	return &call{ResponseWriter: w, body: r.Body, procedure: procedure, left: maxBody + maxEnvelope}
}

type callKey struct{}

// with puts c into the context of a request, and itself in the place of its body.
func (c *call) with(r *http.Request) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	if r.Body != http.NoBody {
		r.Body = c
	}
	return r
}

// reach notes that the interceptors have the call.
func reach(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.reached = true
	}
}

// WriteHeader adds the sentence to a refusal to which Connect gives none.
func (c *call) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	refused := status == http.StatusMethodNotAllowed || status == http.StatusUnsupportedMediaType
	if c.reached || c.empty == "" || !refused {
		c.ResponseWriter.WriteHeader(status)
		return
	}
	c.code = connect.CodeInvalidArgument
	writeConnectJSON(c.ResponseWriter, status, connect.NewError(c.code, errors.New(c.empty)))
}

// Flush and Unwrap are for http.ResponseController and those who know only one
// of them.
func (c *call) Flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

// Unwrap returns the writer of net/http.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Read reads the request's body up to its limit. Its errors are Connect's own,
// so that Connect passes them on as they are.
func (c *call) Read(p []byte) (int, error) {
	if len(p) > c.left+1 {
		p = p[:c.left+1]
	}
	n, err := c.body.Read(p)
	if n > c.left {
		return 0, c.refuse(tooLarge())
	}
	c.left -= n
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return n, err
	}
	return n, c.refuse(bodyError(err))
}

func (c *call) refuse(err *connect.Error) error {
	c.code = err.Code()
	return err
}

// maxSoak is how much net/http itself reads of a body that nobody wanted, for the
// sake of the next request on the connection.
const maxSoak = 256 << 10

// soak reads on behind a refusal over HTTP/1.1: a caller who is still sending when
// the connection closes may never read what it was told.
func (c *call) soak(r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return
	}
	c.Flush()
	_, _ = io.CopyN(io.Discard, c.body, maxSoak) // or less
}

// Close closes the request's body.
func (c *call) Close() error { return c.body.Close() }

var errTooLarge = fmt.Errorf("the request is larger than %d bytes: send a smaller one", maxBody)

func tooLarge() *connect.Error { return connect.NewError(connect.CodeInvalidArgument, errTooLarge) }

// bodyError says why a body could not be read to its end.
func bodyError(err error) *connect.Error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the body did not arrive in time, nothing was changed; send it faster"))
	case errors.Is(err, context.Canceled), errors.Is(err, io.ErrUnexpectedEOF):
		return connect.NewError(connect.CodeCanceled, errors.New("the body broke off, nothing was changed"))
	default:
		return connect.NewError(connect.CodeInvalidArgument, errors.New("the body cannot be read, nothing was changed; send it whole"))
	}
}

// conclude counts a call that ended before the interceptors, also by a panic,
// which goes on. Defer it.
func (m *metrics) conclude(c *call, r *http.Request, began time.Time) {
	reason := recover()
	if reason != nil {
		c.code = connect.CodeInternal
		defer panic(reason) //nolint:forbidigo // it is not caught here
	}
	if c.reached {
		return
	}
	m.latency.WithLabelValues(c.procedure).Observe(time.Since(began).Seconds())
	m.calls.WithLabelValues(c.procedure, c.refusedAs().String()).Inc()
	if reason == nil {
		c.soak(r)
	}
}

// refusedAs is the code of a refusal: the one that was noted, or what Connect's
// status says.
func (c *call) refusedAs() connect.Code {
	if c.code != 0 {
		return c.code
	}
	switch c.status {
	case http.StatusNotImplemented, http.StatusNotFound:
		return connect.CodeUnimplemented
	case http.StatusInternalServerError:
		return connect.CodeInternal
	default: // a gRPC error has the status 200
		return connect.CodeInvalidArgument
	}
}
