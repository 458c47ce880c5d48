package regions

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"likewise/proto/likewise/v1/likewisev1connect"
)

// Scopes that a token may carry, in its claim 'scope' or 'scp'.
const (
	// ScopeAdmin is for those who run the site.
	ScopeAdmin = "likewise:admin"
	// ScopeService is for programs that act for no user.
	ScopeService = "likewise:service"
)

// access says who may call a procedure. Its zero value is nobody.
type access int

const (
	accessNobody access = iota
	accessPublic        // everybody; a token is not even looked at
	accessCaller        // whose token names a user, or carries one of the scopes
	accessUser          // whose token names a user
	accessAdmin         // whose token carries ScopeAdmin
)

// accessTable says for each procedure who may call it. A procedure that is not in
// it can be called by nobody.
func (c Config) accessTable() map[string]access {
	counts := accessPublic
	if c.PrivateCounts {
		counts = accessCaller
	}
	return map[string]access{
		likewisev1connect.ReactionServiceSetReactionProcedure:       accessUser,
		likewisev1connect.ReactionServiceDeleteReactionProcedure:    accessUser,
		likewisev1connect.ReactionServiceCastVoteProcedure:          accessUser,
		likewisev1connect.ReactionServiceGetReactionProcedure:       accessUser,
		likewisev1connect.ReactionServiceBatchGetReactionsProcedure: accessUser,
		likewisev1connect.ReactionServiceGetCountsProcedure:         counts,
		likewisev1connect.ReactionServiceBatchGetCountsProcedure:    counts,
		likewisev1connect.AdminServiceSetVideoStateProcedure:        accessAdmin,
	}
}

// permissionDeniedError refuses a caller who is known, and says what is missing.
type permissionDeniedError struct{ Say string }

func (e *permissionDeniedError) Error() string { return e.Say }

func permissionDenied(say string) error { return &permissionDeniedError{Say: say} }

// Sentences for callers whose token is good, and not enough.
var (
	errNobodyMay  = permissionDenied("no caller may use this procedure")
	errNeedsAdmin = permissionDenied(fmt.Sprintf("this call needs the scope %s: ask the token's issuer for one that carries it in its claim 'scope'", ScopeAdmin))
	errNeedsSome  = permissionDenied(fmt.Sprintf("this call needs a token whose claim 'sub' is a user's id, or one with the scope %s or %s", ScopeService, ScopeAdmin))
)

// allow decides whether a caller with a good token may have that access.
func (a access) allow(who caller) error {
	switch a {
	case accessPublic:
		return nil
	case accessCaller:
		if who.user == "" && !who.has(ScopeService) && !who.has(ScopeAdmin) {
			return errNeedsSome
		}
		return nil
	case accessUser:
		if who.user == "" {
			return errBadSubject
		}
		return nil
	case accessAdmin:
		if !who.has(ScopeAdmin) {
			return errNeedsAdmin
		}
		return nil
	case accessNobody:
	}
	return errNobodyMay
}

// authenticate finds out who calls, by the bearer token, refuses who may not, and
// puts the caller into the context. Nothing else ever does.
func authenticate(auth *authenticator, table map[string]access) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			rule := table[req.Spec().Procedure]
			switch rule {
			case accessPublic:
				return next(ctx, req)
			case accessNobody:
				return nil, errNobodyMay
			case accessCaller, accessUser, accessAdmin:
			}
			who, err := auth.caller(ctx, req.Header())
			if err != nil {
				return nil, err
			}
			if err := rule.allow(who); err != nil {
				return nil, err
			}
			return next(withCaller(ctx, who), req)
		}
	}
}
