package traffic

import (
	"errors"
	"net"
	"time"

	"connectrpc.com/connect"

	likewisev1 "likewise/proto/likewise/v1"
)

// verdict is what the error of one attempt says.
type verdict struct {
	outcome Outcome
	// again says that another attempt may succeed, after pause.
	again bool
	pause time.Duration
}

// defaultPause is the time between attempts where the server names none.
const defaultPause = 20 * time.Millisecond

// OutcomeOf says what the error of one call to a server means for its effect.
func OutcomeOf(err error) Outcome { return judge(err).outcome }

// judge decides what an attempt's error says of its effect. What it does not
// know for sure to be harmless is Unknown.
func judge(err error) verdict {
	if err == nil {
		return verdict{outcome: OK}
	}
	if !connect.IsWireError(err) {
		return judgeTransport(err)
	}
	switch connect.CodeOf(err) {
	case connect.CodeResourceExhausted:
		return verdict{outcome: Failed, again: true, pause: retryAfter(err)}
	case connect.CodeUnavailable:
		return judgeUnavailable(err)
	case connect.CodeInvalidArgument, connect.CodeUnauthenticated, connect.CodePermissionDenied,
		connect.CodeFailedPrecondition, connect.CodeAlreadyExists, connect.CodeNotFound,
		connect.CodeOutOfRange, connect.CodeUnimplemented:
		return verdict{outcome: Failed}
	default:
		return verdict{outcome: Unknown, again: true, pause: defaultPause}
	}
}

// judgeTransport judges an error that no server sent: a connection that was
// never made carried nothing.
func judgeTransport(err error) verdict {
	v := verdict{outcome: Unknown, again: true, pause: defaultPause}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		v.outcome = Failed
	}
	return v
}

// judgeUnavailable reads the detail that says whether anything happened.
func judgeUnavailable(err error) verdict {
	v := verdict{outcome: Unknown, again: true, pause: retryAfter(err)}
	if hasDetail[*likewisev1.RetryAfter](err) && !hasDetail[*likewisev1.OutcomeUnknown](err) {
		v.outcome = Failed
	}
	return v
}

func retryAfter(err error) time.Duration {
	if d, ok := Detail[*likewisev1.RetryAfter](err); ok && d.GetDelay().IsValid() {
		return d.GetDelay().AsDuration()
	}
	return defaultPause
}

func hasDetail[T any](err error) bool {
	_, ok := Detail[T](err)
	return ok
}

// Detail returns the first detail of type T that a server sent with an error.
func Detail[T any](err error) (T, bool) {
	var none T
	wire, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return none, false
	}
	for _, d := range wire.Details() {
		msg, err := d.Value()
		if err != nil {
			continue // a detail of a type that this client does not know
		}
		if typed, ok := msg.(T); ok {
			return typed, true
		}
	}
	return none, false
}
