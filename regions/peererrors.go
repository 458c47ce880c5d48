package regions

import (
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	peerv1 "likewise/proto/likewise/peer/v1"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/storage"
)

// errPeerUnavailable is the cause of an UnavailableError that a peer answered:
// its own log has the rest.
var errPeerUnavailable = errors.New("the node that was asked cannot reach the database")

// fromPeer turns an answer of another node back into the domain error that its
// toConnect was given. Only typed details are believed. What carries none, such
// as a panic over there, says nothing of whether the call had an effect.
func fromPeer(answer *connect.Error) error {
	for _, detail := range answer.Details() {
		message, err := detail.Value()
		if err != nil {
			continue // of a newer version
		}
		if known := fromDetail(answer.Code(), message); known != nil {
			return known
		}
	}
	return fmt.Errorf("%w: another node answered %s", storage.ErrOutcomeUnknown, answer.Code())
}

func fromDetail(code connect.Code, detail proto.Message) error {
	switch detail := detail.(type) {
	case *likewisev1.VersionMismatch:
		return fromMismatch(detail)
	case *likewisev1.VideoNotActive:
		return fromNotActive(code, detail)
	case *likewisev1.IdempotencyKeyReused:
		return &storage.KeyReusedError{Key: detail.GetIdempotencyKey()}
	case *likewisev1.RetryAfter:
		return fromRetryAfter(code, detail.GetDelay().AsDuration())
	case *peerv1.Leaving:
		return errLeaving
	case *likewisev1.NothingChanged:
		return fromNothingApplied(code)
	case *peerv1.StaleMap:
		return &staleMapError{Epoch: detail.GetTopologyEpoch()}
	default: // OutcomeUnknown is one of them
		return nil
	}
}

var (
	errPeerFailed = &nothingAppliedError{errors.New("the node that was asked failed, and changed nothing")}
	errPeerLate   = errors.New("the node that was asked had no time for it, and changed nothing")
)

func fromNothingApplied(code connect.Code) error {
	if code == connect.CodeDeadlineExceeded {
		return errPeerLate
	}
	return errPeerFailed
}

func fromRetryAfter(code connect.Code, after time.Duration) error {
	switch code {
	case connect.CodeResourceExhausted:
		return &storage.OverloadedError{RetryAfter: after}
	case connect.CodeUnavailable:
		return &storage.UnavailableError{RetryAfter: after, Cause: errPeerUnavailable}
	default:
		return nil
	}
}

// fromMismatch is nil for a reaction that this version does not know.
func fromMismatch(detail *likewisev1.VersionMismatch) error {
	reaction, err := reactionFromProto(detail.GetReaction())
	if err == nil {
		return &storage.VersionMismatchError{Current: storage.State{Reaction: reaction, Version: detail.GetVersion()}}
	}
	return nil
}

// fromNotActive tells the refusal of a write from the answer to a read.
func fromNotActive(code connect.Code, detail *likewisev1.VideoNotActive) error {
	if code == connect.CodeNotFound {
		return &storage.VideoDeletedError{}
	}
	return &storage.VideoStateError{State: refusingStateFromPeer(detail.GetState())}
}
