package regions

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Claims are what a minted token says.
type Claims struct {
	// Subject is the user for whom it speaks. It may be empty if there are Scopes.
	Subject string
	// Scopes are what else its bearer may do, such as ScopeAdmin.
	Scopes []string
	// Issuer and Audience are what the nodes ask for, if they do.
	Issuer   string
	Audience []string
}

// MintToken returns a token that counts for as long as ttl at nodes that share
// the secret. It refuses what no node would accept.
func MintToken(secret []byte, claims Claims, ttl time.Duration) (string, error) {
	if err := mintable(secret, claims, ttl); err != nil {
		return "", fmt.Errorf("mint a token: %w", err)
	}
	now := time.Now()
	ends := now.Add(ttl + time.Second - time.Nanosecond) // rounded up to whole seconds
	fields := jwt.MapClaims{"iat": now.Unix(), "exp": ends.Unix()}
	for name, value := range map[string]string{
		"sub": claims.Subject, "iss": claims.Issuer, "scope": strings.Join(claims.Scopes, " "),
	} {
		if value != "" {
			fields[name] = value
		}
	}
	if len(claims.Audience) > 0 {
		fields["aud"] = claims.Audience
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, fields).SignedString(secret)
	if err != nil {
		return "", fmt.Errorf("mint a token: %w", err)
	}
	if len(signed) > maxToken {
		return "", fmt.Errorf("mint a token: it would have %d bytes, and nodes take %d: give it fewer scopes", len(signed), maxToken)
	}
	return signed, nil
}

func mintable(secret []byte, claims Claims, ttl time.Duration) error {
	var errs []error
	if len(secret) < minSecret {
		errs = append(errs, fmt.Errorf("the secret has %d bytes, want at least %d", len(secret), minSecret))
	}
	if !validID(claims.Subject) && (claims.Subject != "" || len(claims.Scopes) == 0) {
		errs = append(errs, fmt.Errorf("user %q: want 1 to 128 of the characters A-Z a-z 0-9 - . _ ~ : @ + = , |", claims.Subject))
	}
	for _, scope := range claims.Scopes {
		if !validScope(scope) {
			errs = append(errs, fmt.Errorf("scope %q: want printable ASCII characters, without space, quote and backslash", scope))
		}
	}
	if ttl <= 0 {
		errs = append(errs, fmt.Errorf("lifetime %s: want more than 0", ttl))
	}
	return errors.Join(errs...)
}

// validScope is scope-token of RFC 6749, section 3.3.
func validScope(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}
