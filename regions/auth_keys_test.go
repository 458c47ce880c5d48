package regions

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// issued starts an authenticator that believes the secret and an issuer's three
// keys, named after their kinds.
func issued(t *testing.T) *authenticator {
	t.Helper()
	keys := testSigners()
	from := newIssuer(t, keys.rsa.jwk(t, "rsa"), keys.ec.jwk(t, "ec"), keys.ed.jwk(t, "ed"))
	return startAuth(t, AuthConfig{Secret: testSecret, JWKSURL: from.URL}, zap.NewNop())
}

func TestWhichKeysCount(t *testing.T) {
	t.Parallel()
	auth, keys := issued(t), testSigners()
	stranger := fmt.Sprintf(`{"alg":"RS256","kid":"rsa","jwk":%s,"jku":"http://127.0.0.1:1/","x5u":"http://127.0.0.1:1/"}`,
		must(json.Marshal(keys.otherRSA.jwk(t, "rsa"))))
	for name, c := range map[string]struct {
		token string
		want  error // nil: it is alice
	}{
		"RSA":                       {token: keys.rsa.issue(t, "rsa")},
		"an elliptic curve":         {token: keys.ec.issue(t, "ec")},
		"Edwards' curve":            {token: keys.ed.issue(t, "ed")},
		"the secret":                {token: mint(t, "alice")},
		"the secret with a name":    {token: keys.secret.issue(t, "rsa")},
		"RSA without a name":        {token: keys.rsa.sign(t, `{"alg":"RS256"}`, aliceClaims())},
		"a curve without a name":    {token: keys.ec.sign(t, `{"alg":"ES256"}`, aliceClaims())},
		"another key of that name":  {keys.otherRSA.issue(t, "rsa"), errBadSignature},
		"a key that it brings":      {keys.otherRSA.sign(t, stranger, aliceClaims()), errBadSignature},
		"another key, no name":      {keys.otherEC.sign(t, `{"alg":"ES256"}`, aliceClaims()), errUnknownKey},
		"another key, another name": {keys.otherEC.issue(t, "x"), errUnknownKey},
		"another name":              {keys.rsa.issue(t, "RSA"), errUnknownKey},
		"an empty name":             {keys.rsa.issue(t, ""), errUnknownKey},
		"the name of a file":        {keys.rsa.issue(t, "../../../../etc/passwd"), errUnknownKey},
		"the name of a page":        {keys.rsa.issue(t, "https://127.0.0.1:1/rsa"), errUnknownKey},
		"the name of another kind":  {keys.ec.issue(t, "rsa"), errUnknownKey},
		"an algorithm of that key":  {keys.rsa.by(jwt.SigningMethodRS512).issue(t, "rsa"), auth.say.algorithm},
		"another padding":           {keys.rsa.by(jwt.SigningMethodPS256).issue(t, "rsa"), auth.say.algorithm},
		"unsigned":                  {signer{jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType}.issue(t, "rsa"), auth.say.algorithm},
		"a strange secret":          {keys.otherSecret.issue(t, "rsa"), errBadSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := auth.caller(t.Context(), bearerOf(c.token))
			require.Equal(t, c.want, err)
		})
	}
}

// A public key is known to everybody, so it is no secret, in no spelling.
func TestAPublicKeyIsNoSecret(t *testing.T) {
	t.Parallel()
	keys := testSigners()
	from := newIssuer(t, keys.rsa.jwk(t, "rsa"))
	both := startAuth(t, AuthConfig{Secret: testSecret, JWKSURL: from.URL}, zap.NewNop())
	alone := startAuth(t, AuthConfig{JWKSURL: from.URL}, zap.NewNop())
	public := keys.rsa.rsaPublic(t)
	pkix := must(x509.MarshalPKIXPublicKey(public))
	for name, secret := range map[string][]byte{
		"PKIX":             pkix,
		"PEM":              pemOf("PUBLIC KEY", pkix),
		"PKCS 1":           x509.MarshalPKCS1PublicKey(public),
		"PEM of PKCS 1":    pemOf("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(public)),
		"the modulus":      public.N.Bytes(),
		"the JSON web key": must(json.Marshal(keys.rsa.jwk(t, "rsa"))),
		"nothing":          {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forged := signer{jwt.SigningMethodHS256, secret}
			for _, token := range []string{forged.issue(t, "rsa"), forged.sign(t, header256, aliceClaims())} {
				requireRefused(t, errBadSignature, both, token)
				requireRefused(t, alone.say.algorithm, alone, token)
			}
			// The header says RSA, the signature is an HMAC.
			requireRefused(t, errBadSignature, both, forged.sign(t, `{"alg":"RS256","kid":"rsa"}`, aliceClaims()))
		})
	}
	requireRefused(t, alone.say.algorithm, alone, mint(t, "alice"))
}

// Negative control: a key that its issuer keeps for one algorithm verifies others.
func TestAKeyIsForOneAlgorithm(t *testing.T) {
	t.Parallel()
	keys := testSigners()
	from := newIssuer(t, keys.rsa.jwk(t, "rsa"))
	auth := startAuth(t, AuthConfig{JWKSURL: from.URL, Algorithms: []string{"RS256", "PS256"}}, zap.NewNop())
	require.True(t, auth.accepts(t, keys.rsa.issue(t, "rsa")))
	for _, token := range []string{
		keys.rsa.by(jwt.SigningMethodPS256).issue(t, "rsa"),
		keys.rsa.by(jwt.SigningMethodPS256).sign(t, `{"alg":"PS256"}`, aliceClaims()),
	} {
		requireGuard(t, !auth.accepts(t, token), "a key serves the algorithm that its issuer says, and no other")
	}
}

func TestWhichKeysOfASetAreTaken(t *testing.T) {
	t.Parallel()
	keys := testSigners()
	change := func(s signer, how func(*jwkset.JWKMarshal)) jwkset.JWKMarshal {
		key := s.jwk(t, "k")
		how(&key)
		return key
	}
	secret := jwkset.JWKMarshal{KTY: jwkset.KtyOct, KID: "k", ALG: jwkset.AlgHS256, K: "AAAA"}
	for name, c := range map[string]struct {
		key  jwkset.JWKMarshal
		want int
	}{
		"RSA":                     {keys.rsa.jwk(t, "k"), 1},
		"no use, no algorithm":    {change(keys.rsa, func(k *jwkset.JWKMarshal) { k.USE, k.ALG = "", "" }), 1},
		"no name":                 {change(keys.rsa, func(k *jwkset.JWKMarshal) { k.KID = "" }), 1},
		"certificates elsewhere":  {change(keys.ec, func(k *jwkset.JWKMarshal) { k.X5U, k.X5C = "http://127.0.0.1:1/", []string{"?"} }), 1},
		"to verify":               {change(keys.ec, func(k *jwkset.JWKMarshal) { k.USE, k.KEYOPS = "", []jwkset.KEYOPS{jwkset.KeyOpsVerify} }), 1},
		"to encrypt":              {change(keys.rsa, func(k *jwkset.JWKMarshal) { k.USE = jwkset.UseEnc }), 0},
		"to wrap":                 {change(keys.rsa, func(k *jwkset.JWKMarshal) { k.KEYOPS = []jwkset.KEYOPS{jwkset.KeyOpsWrapKey} }), 0},
		"too weak":                {keys.weakRSA.jwk(t, "k"), 0},
		"an even exponent of one": {change(keys.rsa, func(k *jwkset.JWKMarshal) { k.E = "AQ" }), 0},
		"no modulus":              {change(keys.rsa, func(k *jwkset.JWKMarshal) { k.N = "" }), 0},
		"beside the curve":        {change(keys.ec, func(k *jwkset.JWKMarshal) { k.X = k.Y }), 0},
		"half an Edwards point":   {change(keys.ed, func(k *jwkset.JWKMarshal) { k.X = k.X[:20] }), 0},
		"a secret":                {secret, 0},
		"an unknown kind":         {jwkset.JWKMarshal{KTY: "PQ", KID: "k"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			taken, err := parseKeySet(keySetOf(t, c.key))
			require.NoError(t, err)
			require.Len(t, taken, c.want)
			mixed, err := parseKeySet(keySetOf(t, c.key, keys.ed.jwk(t, "good")))
			require.NoError(t, err)
			require.Len(t, mixed, c.want+1, "a bad key spoils no good one")
		})
	}
}

// Whoever publishes private keys by mistake has at least only public ones here.
func TestPrivateHalvesAreNotTaken(t *testing.T) {
	t.Parallel()
	keys := testSigners()
	private, err := jwkset.NewJWKFromKey(keys.rsa.key, jwkset.JWKOptions{
		Marshal: jwkset.JWKMarshalOptions{Private: true}, Metadata: jwkset.JWKMetadataOptions{KID: "k"},
	})
	require.NoError(t, err)
	taken, err := parseKeySet(keySetOf(t, private.Marshal()))
	require.NoError(t, err)
	require.Len(t, taken, 1)
	require.IsType(t, &rsa.PublicKey{}, taken[0].key)
}

func TestKeySetsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, document := range []string{``, `null`, `[]`, `{}`, `{"keys":null}`, `{"keys":{}}`, `{"keys":[}`, `<html>`, "\x00"} {
		_, err := parseKeySet([]byte(document))
		require.ErrorIs(t, err, errNoKeySet, document)
	}
	many := make([]jwkset.JWKMarshal, maxKeys+1)
	_, err := parseKeySet(keySetOf(t, many...))
	require.ErrorContains(t, err, "at most 50 keys, have 51")
}
