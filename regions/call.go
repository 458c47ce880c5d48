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
	left int // bytes that the body may still have

	reached bool         // the interceptors have the call, and count it
	status  int          // of the answer; 0: none was begun
	code    connect.Code // of a refusal before the interceptors, if it is known
	empty   string       // what an answer without a body says instead; "": nothing
}

// maxEnvelope is what gRPC puts before a message, in bytes.
const maxEnvelope = 5

func newCall(w http.ResponseWriter, r *http.Request) *call {
	return &call{ResponseWriter: w, body: r.Body, left: maxBody + maxEnvelope}
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

// countRefused counts a call that ended before the interceptors.
func (m *metrics) countRefused(c *call, procedure string, began time.Time) {
	if c.reached {
		return
	}
	m.latency.WithLabelValues(procedure).Observe(time.Since(began).Seconds())
	m.calls.WithLabelValues(procedure, c.refusedAs().String()).Inc()
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
	case http.StatusInternalServerError, 0: // it panicked
		return connect.CodeInternal
	default: // a gRPC error has the status 200
		return connect.CodeInvalidArgument
	}
}
