package regions

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// signer is a key of an issuer, of ours or of a stranger.
type signer struct {
	method jwt.SigningMethod
	key    any
}

// signers are made once: RSA keys take their time.
type signers struct{ rsa, otherRSA, weakRSA, ec, otherEC, ed, secret, otherSecret signer }

var testSigners = sync.OnceValue(func() signers {
	return signers{
		rsa:         signer{jwt.SigningMethodRS256, must(rsa.GenerateKey(rand.Reader, 2048))},
		otherRSA:    signer{jwt.SigningMethodRS256, must(rsa.GenerateKey(rand.Reader, 2048))},
		weakRSA:     signer{jwt.SigningMethodRS256, must(rsa.GenerateKey(rand.Reader, 1024))},
		ec:          signer{jwt.SigningMethodES256, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))},
		otherEC:     signer{jwt.SigningMethodES256, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))},
		ed:          signer{jwt.SigningMethodEdDSA, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))},
		secret:      signer{jwt.SigningMethodHS256, testSecret},
		otherSecret: signer{jwt.SigningMethodHS256, []byte("another secret of at least 32 bytes, for tests")},
	}
})

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// rsaPublic is the half that everybody knows.
func (s signer) rsaPublic(tb testing.TB) *rsa.PublicKey {
	tb.Helper()
	private, ok := s.key.(*rsa.PrivateKey)
	require.True(tb, ok)
	return &private.PublicKey
}

// by signs with the same key and another algorithm.
func (s signer) by(method jwt.SigningMethod) signer { return signer{method, s.key} }

// sign makes a token of JSON texts, which need not be sensible.
func (s signer) sign(tb testing.TB, header, payload string) string {
	tb.Helper()
	input := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	signature, err := s.method.Sign(input, s.key)
	require.NoError(tb, err)
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// issue makes a good token of alice, with the name of its key.
func (s signer) issue(tb testing.TB, kid string) string {
	tb.Helper()
	return s.sign(tb, fmt.Sprintf(`{"alg":%q,"kid":%q}`, s.method.Alg(), kid), aliceClaims())
}

func aliceClaims(more ...string) string {
	claims := fmt.Sprintf(`{"sub":"alice","exp":%d`, time.Now().Add(time.Hour).Unix())
	for _, claim := range more {
		claims += "," + claim
	}
	return claims + "}"
}

// jwk is the public half as issuers publish it.
func (s signer) jwk(tb testing.TB, kid string) jwkset.JWKMarshal {
	tb.Helper()
	private, ok := s.key.(interface{ Public() crypto.PublicKey })
	require.True(tb, ok)
	key, err := jwkset.NewJWKFromKey(private.Public(), jwkset.JWKOptions{
		Metadata: jwkset.JWKMetadataOptions{KID: kid, USE: jwkset.UseSig, ALG: jwkset.ALG(s.method.Alg())},
	})
	require.NoError(tb, err)
	return key.Marshal()
}

func keySetOf(tb testing.TB, keys ...jwkset.JWKMarshal) []byte {
	tb.Helper()
	document, err := json.Marshal(map[string]any{"keys": append([]jwkset.JWKMarshal{}, keys...)})
	require.NoError(tb, err)
	return document
}

// issuer publishes keys over HTTP, or answers something else.
type issuer struct {
	*httptest.Server
	asked  atomic.Int64
	answer atomic.Pointer[http.HandlerFunc]
}

func newIssuer(tb testing.TB, keys ...jwkset.JWKMarshal) *issuer {
	tb.Helper()
	i := &issuer{}
	i.publish(tb, keys...)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		(*i.answer.Load())(w, r)
	}))
	tb.Cleanup(i.Close)
	return i
}

func (i *issuer) publish(tb testing.TB, keys ...jwkset.JWKMarshal) {
	tb.Helper()
	i.answerText(string(keySetOf(tb, keys...)))
}

func (i *issuer) answerText(text string) {
	i.answerBy(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

func (i *issuer) answerBy(handler http.HandlerFunc) { i.answer.Store(&handler) }

func newTestAuth(tb testing.TB, cfg AuthConfig) *authenticator {
	tb.Helper()
	return newLoggedAuth(tb, cfg, zap.NewNop())
}

func newLoggedAuth(tb testing.TB, cfg AuthConfig, log *zap.Logger) *authenticator {
	tb.Helper()
	cfg = cfg.withDefaults()
	require.NoError(tb, cfg.validate())
	auth, err := newAuthenticator(cfg, log, newMetrics())
	require.NoError(tb, err)
	return auth
}

// startAuth runs an authenticator, with its keys loaded, until the test ends.
func startAuth(t *testing.T, cfg AuthConfig, log *zap.Logger) *authenticator {
	t.Helper()
	auth := newLoggedAuth(t, cfg, log)
	require.NoError(t, auth.keys.load(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = auth.keys.run(t.Context()) })
	t.Cleanup(running.Wait) // t's context ends before
	return auth
}

func bearerOf(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// accepts asks whether a token is believed.
func (a *authenticator) accepts(t *testing.T, token string) bool {
	t.Helper()
	_, err := a.caller(t.Context(), bearerOf(token))
	return err == nil
}

func requireRefused(t *testing.T, want error, auth *authenticator, token string) {
	t.Helper()
	_, err := auth.caller(t.Context(), bearerOf(token))
	require.Equal(t, want, err)
}
