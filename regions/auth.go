package regions

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"likewise/storage"
)

const (
	// maxToken bounds what is parsed and kept of a token, in bytes.
	maxToken = 4096
	// maxVerified bounds the tokens whose verification is remembered.
	maxVerified = 10_000
)

var (
	errNoToken      = unauthenticated("no token: send the header 'Authorization: Bearer <token>'")
	errManyTokens   = unauthenticated("several Authorization headers: send one")
	errLongToken    = unauthenticated(fmt.Sprintf("the token is longer than %d bytes: ask its issuer for a shorter one", maxToken))
	errExpired      = unauthenticated("the token is expired: get a new one")
	errNotYet       = unauthenticated("the token is not valid yet: check the clock of its issuer")
	errNoExpiry     = unauthenticated("the token never expires: it needs the claim 'exp'")
	errBadSignature = unauthenticated("the token is not signed by HS256 with this service's secret: get one from its issuer")
	errMalformed    = unauthenticated("the token cannot be read: send a JWT, signed by HS256, as 'Authorization: Bearer <token>'")
	errBadSubject   = unauthenticated("the token names no user: its claim 'sub' must be 1 to 128 of the characters A-Z a-z 0-9 - . _ ~ : @ + = , |")
)

// authenticator finds out who calls. It is safe for concurrent use.
type authenticator struct {
	secret   []byte
	leeway   time.Duration
	parser   *jwt.Parser
	verified *otter.Cache[string, verifiedToken]
}

// verifiedToken is what a token that was once verified says. Only its expiry
// can change the verdict afterwards.
type verifiedToken struct {
	user    storage.UserID
	expires time.Time
}

func newAuthenticator(cfg AuthConfig) (*authenticator, error) {
	verified, err := otter.New(&otter.Options[string, verifiedToken]{MaximumSize: maxVerified})
	if err != nil {
		return nil, fmt.Errorf("make the cache of tokens: %w", err)
	}
	return &authenticator{
		secret: cfg.Secret,
		leeway: cfg.Leeway,
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithExpirationRequired(),
			jwt.WithLeeway(cfg.Leeway),
			jwt.WithIssuedAt(),
		),
		verified: verified,
	}, nil
}

// user returns whom the bearer token of a call names.
func (a *authenticator) user(header http.Header) (storage.UserID, error) {
	token, err := bearer(header)
	if err != nil {
		return "", err
	}
	known, ok := a.verified.GetIfPresent(token)
	if !ok {
		if known, err = a.verify(token); err != nil {
			return "", err
		}
		a.verified.Set(token, known)
	}
	if !time.Now().Before(known.expires.Add(a.leeway)) {
		return "", errExpired
	}
	return known.user, nil
}

func bearer(header http.Header) (string, error) {
	values := header.Values("Authorization")
	if len(values) > 1 {
		return "", errManyTokens
	}
	if len(values) == 0 {
		return "", errNoToken
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	switch {
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return "", errNoToken
	case len(token) > maxToken:
		return "", errLongToken
	default:
		return token, nil
	}
}

func (a *authenticator) verify(token string) (verifiedToken, error) {
	var claims jwt.RegisteredClaims
	_, err := a.parser.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return a.secret, nil })
	if err != nil {
		return verifiedToken{}, sayWhy(err)
	}
	if !validID(claims.Subject) {
		return verifiedToken{}, errBadSubject
	}
	return verifiedToken{user: storage.UserID(claims.Subject), expires: claims.ExpiresAt.Time}, nil
}

// sayWhy picks the sentence that helps. The parser's own text stays inside.
func sayWhy(err error) error {
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return errBadSignature
	case errors.Is(err, jwt.ErrTokenExpired):
		return errExpired
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return errNotYet
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return errNoExpiry
	default:
		return errMalformed
	}
}

// MintToken returns a token with which user may call for as long as ttl, at
// nodes that share the secret. It refuses secrets and users that no node would
// accept.
func MintToken(secret []byte, user storage.UserID, ttl time.Duration) (string, error) {
	if len(secret) < minSecret {
		return "", fmt.Errorf("mint a token: the secret has %d bytes, want at least %d", len(secret), minSecret)
	}
	if !validID(string(user)) {
		return "", fmt.Errorf("mint a token: user %q: want 1 to 128 of the characters A-Z a-z 0-9 - . _ ~ : @ + = , |", string(user))
	}
	if ttl <= 0 {
		return "", fmt.Errorf("mint a token: lifetime %s: want more than 0", ttl)
	}
	now := time.Now()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Subject:   string(user),
		IssuedAt:  jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	}).SignedString(secret)
	if err != nil {
		return "", fmt.Errorf("mint a token: %w", err)
	}
	return signed, nil
}
