//go:build unguarded

package regions

import "github.com/golang-jwt/jwt/v5"

// See auth_guards.go.

func pinned(algorithm string, _ map[string]jwt.SigningMethod) (jwt.SigningMethod, bool) {
	method := jwt.GetSigningMethod(algorithm)
	return method, method != nil
}

func (k publicKey) fits(method jwt.SigningMethod) bool { return k.canVerify(method) }

func meantFor(_, _ []string) bool { return true }

func vouchedFor(verifiedToken, *keyring) bool { return true }
