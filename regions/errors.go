package regions

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "likewise/proto/likewise/peer/v1"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/storage"
)

type (
	// invalidError refuses a request that no rule of the proto could refuse. Both
	// fields are fixed texts.
	invalidError struct{ Field, Say string }

	// unauthenticatedError refuses a caller, and says what to do about it.
	unauthenticatedError struct{ Say string }

	// staleCountsError means that counts as young as asked for cannot be had.
	staleCountsError struct{ Cause error }

	// staleMapError means that a node goes by a newer topology than its caller.
	// Nothing was done.
	staleMapError struct{ Epoch int64 }

	// nothingAppliedError says of an error that the write it ended changed nothing.
	nothingAppliedError struct{ Cause error }

	// notSentError means that not one byte of a call reached the other node.
	notSentError struct{ Cause error }
)

func (e *invalidError) Error() string         { return e.Field + " " + e.Say }
func (e *unauthenticatedError) Error() string { return e.Say }
func (e *staleCountsError) Error() string     { return fmt.Sprintf("counts are too old: %v", e.Cause) }
func (e *staleCountsError) Unwrap() error     { return e.Cause }
func (e *notSentError) Error() string         { return fmt.Sprintf("not sent: %v", e.Cause) }
func (e *notSentError) Unwrap() error         { return e.Cause }

func (e *nothingAppliedError) Error() string { return e.Cause.Error() }
func (e *nothingAppliedError) Unwrap() error { return e.Cause }

func (e *staleMapError) Error() string {
	return fmt.Sprintf("stale map: the topology's epoch is %d", e.Epoch)
}

func unauthenticated(say string) error { return &unauthenticatedError{Say: say} }

var (
	// errLeaving means that a node is about to leave and has not begun the call.
	errLeaving = errors.New("this node is leaving")
	// errPanicked stands for a panic. One in a call was logged where it was caught.
	errPanicked = errors.New("panicked")
)

// retrySoon is what callers are told where nothing better is known.
const retrySoon = 250 * time.Millisecond

// mapErrors is the way out of every call: it logs the whole chain of an error,
// once, and gives the caller a code, a fixed sentence and typed details.
func mapErrors(log *zap.Logger) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			resp, err := next(ctx, req)
			if err == nil {
				return resp, nil
			}
			public := toConnect(err)
			if errors.Is(ctx.Err(), context.Canceled) {
				public = canceled(err)
			}
			log.Log(levelOf(public.Code()), "call failed",
				zap.String("procedure", req.Spec().Procedure),
				zap.Stringer("code", public.Code()),
				zap.Error(err))
			return nil, public
		}
	}
}

// canceled is what a caller that went away would hear: over HTTP/1.1 one that
// only stopped to send does. Of a write it keeps whether it may have happened.
func canceled(err error) *connect.Error {
	if errors.Is(err, storage.ErrOutcomeUnknown) {
		return public(connect.CodeCanceled, "the caller went away, outcome unknown; repeat with an idempotency key", &likewisev1.OutcomeUnknown{})
	}
	if _, ok := errors.AsType[*nothingAppliedError](err); ok {
		return toConnect(&nothingAppliedError{context.Canceled})
	}
	return toConnect(context.Canceled)
}

// levelOf keeps what callers do wrong, and what they could cause at will, out of
// a production log.
func levelOf(code connect.Code) zapcore.Level {
	switch code {
	case connect.CodeInternal, connect.CodeUnknown, connect.CodeDataLoss:
		return zap.ErrorLevel
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		return zap.WarnLevel
	default:
		return zap.DebugLevel
	}
}

// toConnect is the only place where a domain error meets a Connect code; the way
// back, between nodes, is fromPeer. No text of an error that is not a fixed
// sentence passes it.
func toConnect(err error) *connect.Error {
	if unknown := unknownToConnect(err); unknown != nil { // first: it may wrap any of the others
		return unknown
	}
	mapped := definiteToConnect(err)
	if _, ok := errors.AsType[*nothingAppliedError](err); ok && len(mapped.Details()) == 0 {
		addDetail(mapped, &likewisev1.NothingChanged{})
	}
	return mapped
}

// unknownToConnect maps what may or may not have happened.
func unknownToConnect(err error) *connect.Error {
	if _, ok := errors.AsType[*storage.UnsettledError](err); ok {
		return public(connect.CodeUnavailable, "the video's state may or may not be in force; repeat the call, it has one effect",
			&likewisev1.OutcomeUnknown{})
	}
	if errors.Is(err, storage.ErrOutcomeUnknown) {
		return public(connect.CodeUnavailable, "outcome unknown; repeat with an idempotency key", &likewisev1.OutcomeUnknown{})
	}
	return nil
}

func definiteToConnect(err error) *connect.Error {
	for _, attempt := range []func(error) *connect.Error{refusalToConnect, troubleToConnect, peerToConnect, callToConnect} {
		if mapped := attempt(err); mapped != nil {
			return mapped
		}
	}
	if _, ok := errors.AsType[*nothingAppliedError](err); ok {
		return public(connect.CodeInternal, "internal error, nothing was changed")
	}
	return public(connect.CodeInternal, "internal error; nothing is known to have happened")
}

// refusalToConnect maps what depends on the state of a reaction or a video.
func refusalToConnect(err error) *connect.Error {
	if mismatch, ok := errors.AsType[*storage.VersionMismatchError](err); ok {
		return mismatchToConnect(mismatch.Current)
	}
	if video, ok := errors.AsType[*storage.VideoStateError](err); ok {
		return public(connect.CodeFailedPrecondition, "the video takes no reactions",
			&likewisev1.VideoNotActive{State: videoStateToProto(video.State)})
	}
	if _, ok := errors.AsType[*storage.VideoDeletedError](err); ok {
		return public(connect.CodeNotFound, "the video is deleted", &likewisev1.VideoNotActive{State: likewisev1.VideoState_DELETED})
	}
	if reused, ok := errors.AsType[*storage.KeyReusedError](err); ok {
		return public(connect.CodeAlreadyExists,
			"the idempotency key was used with another reaction or expected version; take a new key",
			&likewisev1.IdempotencyKeyReused{IdempotencyKey: reused.Key})
	}
	return nil
}

// mismatchToConnect says what the reaction is, also in the header in which an
// HTTP client looks for it.
func mismatchToConnect(current storage.State) *connect.Error {
	err := public(connect.CodeFailedPrecondition,
		"the reaction has another version; decide anew from the one that comes with this error",
		&likewisev1.VersionMismatch{Reaction: reactionToProto(current.Reaction), Version: current.Version})
	err.Meta().Set(etagHeader, etag(current.Version))
	return err
}

// troubleToConnect maps what the service cannot do now. Nothing was applied.
func troubleToConnect(err error) *connect.Error {
	if overloaded, ok := errors.AsType[*storage.OverloadedError](err); ok {
		return retryable(connect.CodeResourceExhausted, "overloaded, nothing was changed; come back later", overloaded.RetryAfter)
	}
	if unavailable, ok := errors.AsType[*storage.UnavailableError](err); ok {
		return retryable(connect.CodeUnavailable, "the database cannot be reached, nothing was changed; come back later", unavailable.RetryAfter)
	}
	if _, ok := errors.AsType[*staleCountsError](err); ok {
		return retryable(connect.CodeUnavailable, "counts this young cannot be had now; come back later, or allow older ones", retrySoon)
	}
	if errors.Is(err, storage.ErrClosing) {
		return retryable(connect.CodeUnavailable, "this node is leaving, nothing was changed; try another", retrySoon)
	}
	if errors.Is(err, storage.ErrStaleMap) {
		return retryable(connect.CodeUnavailable, "the regions are being moved, nothing was changed; come back later", retrySoon)
	}
	return nil
}

// peerToConnect maps what only other nodes are told.
func peerToConnect(err error) *connect.Error {
	if errors.Is(err, errLeaving) {
		return public(connect.CodeUnavailable, "this node is leaving", &peerv1.Leaving{})
	}
	if stale, ok := errors.AsType[*staleMapError](err); ok {
		return public(connect.CodeFailedPrecondition, "stale map", &peerv1.StaleMap{TopologyEpoch: stale.Epoch})
	}
	return nil
}

// callToConnect maps what is about the call itself.
func callToConnect(err error) *connect.Error {
	if invalid, ok := errors.AsType[*invalidError](err); ok {
		return public(connect.CodeInvalidArgument, invalid.Error())
	}
	if who, ok := errors.AsType[*unauthenticatedError](err); ok {
		refusal := public(connect.CodeUnauthenticated, who.Say)
		refusal.Meta().Set("WWW-Authenticate", "Bearer")
		return refusal
	}
	if who, ok := errors.AsType[*permissionDeniedError](err); ok {
		return public(connect.CodePermissionDenied, who.Say)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return public(connect.CodeCanceled, "the caller went away")
	case errors.Is(err, context.DeadlineExceeded):
		return public(connect.CodeDeadlineExceeded, "deadline exceeded, nothing was changed; allow more time, or try again")
	}
	// The validation interceptor, and what reads a request, speak Connect itself.
	if broken, ok := errors.AsType[*protovalidate.ValidationError](err); ok {
		rules := broken.ToProto()
		return public(connect.CodeInvalidArgument, ruleSentence(rules, protovalidate.FieldPathString), rules)
	}
	if own, ok := errors.AsType[*connect.Error](err); ok && own.Code() == connect.CodeInvalidArgument && !connect.IsWireError(own) {
		return own
	}
	return nil
}

// ruleSentence says which fields break which rules.
func ruleSentence(broken *validate.Violations, spell func(*validate.FieldPath) string) string {
	parts := make([]string, len(broken.GetViolations()))
	for i, one := range broken.GetViolations() {
		parts[i] = spell(one.GetField()) + " " + one.GetMessage()
	}
	return strings.Join(parts, "; ")
}

func public(code connect.Code, sentence string, details ...proto.Message) *connect.Error {
	err := connect.NewError(code, errors.New(sentence))
	for _, message := range details {
		addDetail(err, message)
	}
	return err
}

func addDetail(err *connect.Error, message proto.Message) {
	// It fails only for messages that cannot be marshalled; ours can.
	if detail, detailErr := connect.NewErrorDetail(message); detailErr == nil {
		err.AddDetail(detail)
	}
}

// retryable says when to come back, in a detail, and in the header that HTTP
// clients know, which takes whole seconds.
func retryable(code connect.Code, sentence string, after time.Duration) *connect.Error {
	if after <= 0 {
		after = retrySoon
	}
	err := public(code, sentence, &likewisev1.RetryAfter{Delay: durationpb.New(after)})
	err.Meta().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	return err
}
