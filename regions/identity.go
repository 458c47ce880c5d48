package regions

import (
	"context"
	"slices"

	"likewise/storage"
)

// maxID is the length of the longest user or video id.
const maxID = 128

// validID reports whether s is 1 to 128 of the characters A–Z a–z 0–9
// - . _ ~ : @ + = , and the vertical bar: the form of user and video ids.
func validID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for i := range len(s) {
		if !idByte(s[i]) {
			return false
		}
	}
	return true
}

func idByte(c byte) bool {
	switch c {
	case '-', '.', '_', '~', ':', '@', '+', '=', ',', '|':
		return true
	default:
		return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
	}
}

// caller is who calls, as the verified token says.
type caller struct {
	subject string         // the claim 'sub'
	user    storage.UserID // the same, if it is a user's id; otherwise empty
	scopes  []string
}

func (c caller) has(scope string) bool { return slices.Contains(c.scopes, scope) }

type callerKey struct{}

// withCaller is called by the auth interceptor and by nobody else: it is the
// only way by which a user gets into a call.
func withCaller(ctx context.Context, who caller) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

// callerFrom returns who calls; nobody, if the call is public.
func callerFrom(ctx context.Context) (caller, bool) {
	who, ok := ctx.Value(callerKey{}).(caller)
	return who, ok
}

// userFrom returns the user who calls.
func userFrom(ctx context.Context) (storage.UserID, error) {
	who, ok := callerFrom(ctx)
	switch {
	case !ok:
		return "", errNoToken
	case who.user == "":
		return "", errBadSubject
	default:
		return who.user, nil
	}
}
