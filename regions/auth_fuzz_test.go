package regions

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// fuzzedDoor believes the secret and three keys, of one issuer and for one
// audience. It runs nothing: its keys are all there.
func fuzzedDoor(tb testing.TB) *authenticator {
	tb.Helper()
	keys := testSigners()
	cfg := AuthConfig{Secret: testSecret, JWKSFile: "not read", Issuer: "us", Audience: []string{"likes"}}.withDefaults()
	auth, err := newAuthenticator(cfg, zap.NewNop(), newMetrics())
	require.NoError(tb, err)
	require.NoError(tb, auth.keys.sources[0].take(keySetOf(tb, keys.rsa.jwk(tb, "rsa"), keys.ec.jwk(tb, "ec"), keys.ed.jwk(tb, "ed"))))
	return auth
}

// hand is who signs a fuzzed token.
type hand struct {
	signer
	ours bool
	kid  string // of a key of ours; empty: the secret, which has no name
}

// hands lists who may have signed: first ours, then others, with all that a
// stranger could know.
func hands(tb testing.TB) []hand {
	tb.Helper()
	keys := testSigners()
	public := keys.rsa.rsaPublic(tb)
	pkix := must(x509.MarshalPKIXPublicKey(public))
	known := func(secret []byte) hand { return hand{signer: signer{jwt.SigningMethodHS256, secret}} }
	return []hand{
		{keys.secret, true, ""},
		{keys.rsa, true, "rsa"},
		{keys.ec, true, "ec"},
		{keys.ed, true, "ed"},
		{signer: keys.otherSecret},
		{signer: keys.otherRSA},
		{signer: keys.otherEC},
		{signer: keys.weakRSA},
		known(pkix), known(pemOf("PUBLIC KEY", pkix)), known(public.N.Bytes()), known(nil),
		{signer: keys.secret.by(jwt.SigningMethodHS512)},
		{signer: keys.rsa.by(jwt.SigningMethodPS256)},
		{signer: keys.rsa.by(jwt.SigningMethodRS512)},
		{signer: signer{jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType}},
	}
}

// FuzzToken asks that a token is accepted only if it is one that we signed, for
// this service and this time. A header and a payload are signed by one of many
// hands, ours among them, and the answer is compared with a second, slower
// reading of both. Then the token is changed, and must not be accepted at all.
func FuzzToken(f *testing.F) {
	auth, all := fuzzedDoor(f), hands(f)
	header := func(h hand) string { return fmt.Sprintf(`{"alg":%q,"kid":%q}`, h.method.Alg(), h.kid) }
	const payload = `{"sub":"alice","iss":"us","aud":"likes","exp":9999999999}`
	for i, h := range all {
		f.Add(header(h), payload, uint8(i), uint16(0), byte(0))
		f.Add(`{"alg":"RS256","kid":"rsa"}`, payload, uint8(i), uint16(i), byte(1))
	}
	for _, odd := range []string{
		`{"alg":"HS256","alg":"none"}`, `{"ALG":"HS256"}`, `{"alg":"HS256","crit":[]}`, `{"alg":"HS256","typ":"logout+jwt"}`, ` {"alg":"HS256"} `,
		`{"alg":"HS256"}{}`, `{"alg":null}`, `[]`, `"HS256"`, ``, "{\"alg\":\"HS256\",\"\xff\":1}",
	} {
		f.Add(odd, payload, uint8(0), uint16(0), byte(0))
	}
	for _, odd := range []string{
		`{"sub":"alice","SUB":"bob","iss":"us","aud":["x","likes"],"exp":1e10,"scope":"likewise:admin"}`,
		`{"sub":"alice","sub":"bob","iss":"us","aud":"likes","exp":9999999999}`, `{"iss":"us","aud":"likes","exp":"9999999999"}`,
		`{"sub":"a/b","iss":"us","aud":"likes","exp":253402300800}`, `{"iss":"us","aud":"likes","exp":-1}`, `{"iss":"US","aud":"likes","exp":9999999999}`,
		`{"iss":"us","aud":["likes",1],"exp":9999999999}`, `{"iss":"us","aud":"likes","exp":9999999999,"nbf":9999999998}`, `{"iss":"us","aud":null,"exp":9.9e9}`,
	} {
		f.Add(header256, odd, uint8(0), uint16(0), byte(0))
	}
	f.Fuzz(func(t *testing.T, header, payload string, hand uint8, at uint16, to byte) {
		h := all[int(hand)%len(all)]
		token := h.sign(t, header, payload)
		who, err := auth.caller(t.Context(), bearerOf(token))
		if err == nil {
			requireOurs(t, h, header, payload, who)
		}
		requireChanged(t, auth, token, int(at)%len(token), to, h)
	})
}

// requireChanged changes one byte of a token, which nobody then has signed.
func requireChanged(t *testing.T, auth *authenticator, token string, at int, to byte, h hand) {
	t.Helper()
	changed := token[:at] + string([]byte{to}) + token[at+1:]
	if changed == token || strings.Trim(changed, " ") != changed {
		return
	}
	_, err := auth.caller(t.Context(), bearerOf(changed))
	require.Error(t, err, "%s, signed by %s, was changed at %d", changed, h.method.Alg(), at)
}

// requireOurs reads an accepted token once more, and leaves nothing to the code
// that accepted it.
func requireOurs(t *testing.T, h hand, header, payload string, who caller) {
	t.Helper()
	require.True(t, h.ours, "a stranger's signature")
	head, body := mapOf(t, header), mapOf(t, payload)
	require.Equal(t, h.method.Alg(), head["alg"])
	require.NotContains(t, head, "crit")
	if kid, ok := head["kid"]; ok && h.kid != "" {
		require.Equal(t, h.kid, kid)
	}
	require.Equal(t, "us", body["iss"])
	audience, ok := body["aud"].([]any)
	require.True(t, body["aud"] == "likes" || ok && slices.Contains(audience, any("likes")))
	expires, ok := body["exp"].(float64)
	require.True(t, ok)
	now, leeway := float64(time.Now().Unix()), 31.0
	require.Greater(t, expires, now-leeway)
	require.LessOrEqual(t, expires, 253402300799.0)
	for _, claim := range []string{"nbf", "iat"} {
		if from, ok := body[claim]; ok {
			require.IsType(t, 0.0, from)
			require.LessOrEqual(t, from, now+leeway)
			require.GreaterOrEqual(t, from, 0.0)
		}
	}
	subject, _ := body["sub"].(string)
	require.Equal(t, subject, who.subject)
	require.True(t, who.user == "" || string(who.user) == subject && validID(subject))
	text := fmt.Sprint(body["scope"], body["scp"])
	require.True(t, !who.has(ScopeAdmin) || strings.Contains(text, ScopeAdmin))
}

// mapOf reads an object, and finds names that occur twice by counting: written
// again, the object must have as many members.
func mapOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &fields))
	require.Len(t, fields, members(t, text))
	return fields
}

// members counts the members of an object by its tokens.
func members(t *testing.T, text string) int {
	t.Helper()
	dec, depth, values := json.NewDecoder(bytes.NewReader([]byte(text))), 0, 0
	for {
		token, err := dec.Token()
		if err != nil {
			return values / 2
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth == 1 {
				values++
			}
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		default:
			if depth == 1 {
				values++
			}
		}
	}
}

// A token of another spelling is another token: see FuzzToken.
func TestFuzzedTokensAreWhatTheySeem(t *testing.T) {
	t.Parallel()
	require.Equal(t, 3, members(t, `{"a":1,"a":{"b":2},"c":[1,2,{"d":3}]}`))
	token := testSigners().secret.sign(t, `{"alg":"HS256"}`, `{}`)
	decoded, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	require.NoError(t, err)
	require.JSONEq(t, header256, string(decoded))
}
