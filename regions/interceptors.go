package regions

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/validate"
	"go.uber.org/zap"
)

// maxBody bounds a request's message, in bytes. The largest valid one has some
// hundreds.
const maxBody = 64 << 10

// minCompress is the size from which an answer is worth compressing: below it,
// gzip costs more time than its bytes do.
const minCompress = 1024

// frontChain is what every call of a user goes through, from the outside in.
func (s *Server) frontChain() connect.Option {
	return connect.WithInterceptors(
		recoverPanics(s.log, s.metrics),
		measure(s.metrics),
		mapErrors(s.log),
		refuseUnread(),
		limitTime(s.cfg.Deadline, s.cfg.MaxDeadline), // before authenticate, which may wait for keys
		authenticate(s.auth, s.cfg.accessTable()),
		validate.NewInterceptor(),
	)
}

// peerChain is what every call of another node goes through. The listener has
// authenticated the node, and the node the user.
func (s *Server) peerChain() connect.Option {
	return connect.WithInterceptors(
		recoverPanics(s.log, s.metrics),
		measure(s.metrics),
		mapErrors(s.log),
		limitTime(s.cfg.Deadline, s.cfg.MaxDeadline),
	)
}

// recoverPanics turns a panic into an error of its caller alone. net/http's own
// signal to drop a connection passes.
func recoverPanics(log *zap.Logger, m *metrics) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (_ connect.AnyResponse, err error) {
			defer func() {
				switch reason := recover(); reason {
				case nil:
				case http.ErrAbortHandler:
					panic(reason) //nolint:forbidigo // it is not ours: net/http waits for it
				default:
					m.panics.Inc()
					log.Error("call panicked",
						zap.String("procedure", req.Spec().Procedure),
						zap.Any("reason", reason),
						zap.ByteString("stack", debug.Stack()))
					err = toConnect(errPanicked)
				}
			}()
			return next(ctx, req)
		}
	}
}

// caught turns a panic into an error, in goroutines which recoverPanics does not
// watch: one query that goes wrong must not end the process. Defer it.
func caught(err *error) {
	if reason := recover(); reason != nil {
		*err = fmt.Errorf("%w: %v\n%s", errPanicked, reason, debug.Stack())
	}
}

// measure counts a call under its code, also when it panics.
func measure(m *metrics) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			reach(ctx)
			began, procedure, code := time.Now(), req.Spec().Procedure, codeOf(toConnect(errPanicked))
			defer func() {
				m.latency.WithLabelValues(procedure).Observe(time.Since(began).Seconds())
				m.calls.WithLabelValues(procedure, code).Inc()
			}()
			resp, err := next(ctx, req)
			code = codeOf(err)
			return resp, err
		}
	}
}

// refuseUnread refuses a message that its codec could not read.
func refuseUnread() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if why := unread(req.Any()); why != nil {
				return nil, why.toConnect()
			}
			return next(ctx, req)
		}
	}
}

var errCallTimeout = fmt.Errorf("%w: the call took too long", context.DeadlineExceeded)

// limitTime gives a call a deadline: the caller's, if it brings one, but at most
// longest; otherwise usual.
func limitTime(usual, longest time.Duration) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			limit := usual
			if _, ok := ctx.Deadline(); ok {
				limit = longest // the context's own may be shorter, and then wins
			}
			ctx, cancel := context.WithTimeoutCause(ctx, limit, errCallTimeout)
			defer cancel()
			return next(ctx, req)
		}
	}
}
