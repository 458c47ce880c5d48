package regions

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"
	"go.uber.org/zap"
)

const (
	// maxToken bounds what is parsed of a token, in bytes.
	maxToken = 8192
	// maxVerified bounds the memory for tokens that were verified, in bytes.
	maxVerified = 16 << 20
	// verifiedBytes is about what one of them takes beside its text.
	verifiedBytes = 256
)

// authenticator finds out who calls. It is safe for concurrent use.
type authenticator struct {
	cfg      AuthConfig
	methods  map[string]jwt.SigningMethod // those of cfg.Algorithms
	keys     *keyring                     // nil: there is no key set
	say      sentences
	verified *otter.Cache[string, verifiedToken]
}

// verifiedToken is what a token that was once verified says. Afterwards only two
// things can change the verdict: its expiry, and the withdrawal of its key.
type verifiedToken struct {
	who     caller
	expires time.Time
	keys    *keySet // those that it was verified with; nil: the secret
}

func newAuthenticator(cfg AuthConfig, log *zap.Logger, m *metrics) (*authenticator, error) {
	verified, err := otter.New(&otter.Options[string, verifiedToken]{
		MaximumWeight: maxVerified,
		Weigher:       func(token string, _ verifiedToken) uint32 { return uint32(len(token)) + verifiedBytes }, //nolint:gosec // at most maxToken
	})
	if err != nil {
		return nil, fmt.Errorf("make the cache of tokens: %w", err)
	}
	known, methods := signingMethods(), make(map[string]jwt.SigningMethod, len(cfg.Algorithms))
	for _, name := range cfg.Algorithms {
		methods[name] = known[name]
	}
	return &authenticator{
		cfg:      cfg,
		methods:  methods,
		keys:     newKeyring(cfg, log, m),
		say:      newSentences(cfg),
		verified: verified,
	}, nil
}

// caller returns whom the bearer token of a call names. It may wait for keys to
// be fetched, no longer than ctx and AuthConfig.JWKSTimeout allow.
func (a *authenticator) caller(ctx context.Context, header http.Header) (caller, error) {
	token, err := bearer(header)
	if err != nil {
		return caller{}, err
	}
	known, ok := a.verified.GetIfPresent(token)
	if !ok || !vouchedFor(known, a.keys) {
		return a.meet(ctx, token)
	}
	if !time.Now().Before(known.expires.Add(a.cfg.Leeway)) {
		return caller{}, errExpired
	}
	return known.who, nil
}

// meet verifies a token and remembers it. One that it refuses was either never
// remembered, or is of keys that are no more, and is refused again.
func (a *authenticator) meet(ctx context.Context, token string) (caller, error) {
	known, err := a.verify(ctx, token)
	if err != nil {
		return caller{}, err
	}
	a.verified.Set(token, known)
	return known.who, nil
}

// bearer returns the token of a call. It bounds its length before anything looks
// at it.
func bearer(header http.Header) (string, error) {
	values := header.Values("Authorization")
	if len(values) > 1 {
		return "", errManyTokens
	}
	if len(values) == 0 {
		return "", errNoToken
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return "", errNoToken
	case len(token) > maxToken:
		return "", errLongToken
	default:
		return token, nil
	}
}

// verify believes nothing of a token before its signature: the header only picks
// among the pinned algorithms and our own keys, and claims are read last.
func (a *authenticator) verify(ctx context.Context, token string) (verifiedToken, error) {
	signed, err := splitToken(token)
	if err != nil {
		return verifiedToken{}, err
	}
	method, ok := pinned(signed.header.algorithm, a.methods)
	if !ok {
		return verifiedToken{}, a.say.algorithm
	}
	keys, err := a.verifySignature(ctx, method, signed)
	if err != nil {
		return verifiedToken{}, err
	}
	claims, err := parseClaims(signed.payload)
	if err != nil {
		return verifiedToken{}, err
	}
	if err := a.check(claims, time.Now()); err != nil {
		return verifiedToken{}, err
	}
	return verifiedToken{who: claims.caller(), expires: claims.expires, keys: keys}, nil
}

// verifySignature returns the key set that vouches for the token; none if it is
// the secret. The secret verifies by HMAC and nothing else does, so that no
// public key is ever taken for a secret.
func (a *authenticator) verifySignature(ctx context.Context, method jwt.SigningMethod, signed signedToken) (*keySet, error) {
	if isHMAC(method) {
		if method.Verify(signed.input, signed.signature, a.cfg.Secret) != nil {
			return nil, errBadSignature
		}
		return nil, nil
	}
	return a.keys.verify(ctx, method, signed)
}

// check asks whether the claims are for this service and this time.
func (a *authenticator) check(claims claims, now time.Time) error {
	switch {
	case !now.Before(claims.expires.Add(a.cfg.Leeway)):
		return errExpired
	case now.Before(claims.notBefore.Add(-a.cfg.Leeway)), now.Before(claims.issuedAt.Add(-a.cfg.Leeway)):
		return errNotYet
	case a.cfg.Issuer != "" && claims.issuer != a.cfg.Issuer:
		return a.say.issuer
	case !meantFor(claims.audience, a.cfg.Audience):
		return a.say.audience
	default:
		return nil
	}
}
