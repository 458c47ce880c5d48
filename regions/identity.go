package regions

import (
	"context"

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

type userKey struct{}

// withUser is called by the auth interceptor and by nobody else: it is the only
// way by which a user gets into a call.
func withUser(ctx context.Context, user storage.UserID) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

func userFrom(ctx context.Context) (storage.UserID, error) {
	user, ok := ctx.Value(userKey{}).(storage.UserID)
	if !ok {
		return "", errNoToken
	}
	return user, nil
}
