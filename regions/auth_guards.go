//go:build !unguarded

package regions

import (
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

// The decisions in this file keep tokens out that are signed, but not for us:
// see guards.go.

// pinned returns the method of an algorithm, if the configuration names it. What
// a token says of itself never widens that choice.
func pinned(algorithm string, methods map[string]jwt.SigningMethod) (jwt.SigningMethod, bool) {
	method, ok := methods[algorithm]
	return method, ok
}

// fits reports whether a key may verify a method: it is of that kind and size,
// and its issuer keeps it for no other.
func (k publicKey) fits(method jwt.SigningMethod) bool {
	return k.canVerify(method) && (k.algorithm == "" || k.algorithm == method.Alg())
}

// meantFor reports whether one of the names that a token is for is ours.
func meantFor(audience, ours []string) bool {
	return len(ours) == 0 || slices.ContainsFunc(ours, func(name string) bool { return slices.Contains(audience, name) })
}

// vouchedFor reports whether what was once verified would be so again: the keys
// are still the same.
func vouchedFor(known verifiedToken, keys *keyring) bool {
	return known.keys == nil || known.keys == keys.now()
}
