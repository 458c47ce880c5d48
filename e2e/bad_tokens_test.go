package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	likewisev1 "likewise/proto/likewise/v1"
)

// badToken is a way not to say who one is.
type badToken struct {
	name          string
	authorization []string
	code          string // unauthenticated, if empty
	says          string
	status        int // of HTTP alone; 0: what the code gives
}

// testBadTokens sends every protocol credentials that prove nothing.
func (d *deployment) testBadTokens(t *testing.T) {
	for i, s := range scribes(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			n := d.Nodes()[i%len(d.Nodes())]
			me := "bad-tokens-" + identifier(s.name)
			for _, c := range badTokens(t, me) {
				if c.status != 0 && s.http2 {
					continue // the client does not send it
				}
				t.Run(c.name, func(t *testing.T) {
					for _, request := range []proto.Message{aLike(), &likewisev1.GetReactionRequest{VideoId: "forms"}} {
						f := s.form(request, "")
						f.header["Authorization"] = c.authorization
						c.check(t, s, s.send(t.Context(), n, f, request))
					}
					d.requireNothingWritten(t, me)
				})
			}
			t.Run("of a user for what only an administrator may", func(t *testing.T) {
				request := &likewisev1.SetVideoStateRequest{VideoId: "forms", State: likewisev1.VideoState_DELETED}
				for _, scope := range []any{"", "likewise:administrator", "likewise:admin2 likewise", "LIKEWISE:ADMIN", []string{"likewise:service"}} {
					bearer := mint(t, jwt.MapClaims{"sub": me, "exp": inAnHour(), "scope": scope})
					badToken{code: "permission_denied", says: "likewise:admin"}.check(t, s, s.send(t.Context(), n, s.form(request, bearer), request))
				}
			})
			t.Run("is not looked at where everybody may call", func(t *testing.T) {
				request := &likewisev1.GetCountsRequest{VideoId: "forms"}
				r := s.send(t.Context(), n, s.form(request, "rubbish"), request)
				require.Empty(t, r.code, r.text)
			})
			d.testOtherUsers(t, s, i)
		})
	}
}

func (c badToken) check(t *testing.T, s scribe, r reply) {
	t.Helper()
	if c.status != 0 {
		require.Equal(t, c.status, r.status)
		return
	}
	code := c.code
	if code == "" {
		code = "unauthenticated"
		// HTTP forbids this one in trailers, where gRPC has all that is about errors.
		require.True(t, s.trailers || strings.HasPrefix(r.header.Get("Www-Authenticate"), "Bearer"), "%v", r.header)
	}
	require.Equal(t, code, r.code, r.text)
	require.Contains(t, r.text, c.says)
	if r.status != 0 {
		require.Equal(t, statusOf(r), r.status)
	}
}

func badTokens(t *testing.T, me string) []badToken {
	good := jwt.MapClaims{"sub": me, "exp": inAnHour()}
	signed := mint(t, good)
	by := func(method jwt.SigningMethod, key any) []string {
		token, err := jwt.NewWithClaims(method, good).SignedString(key)
		require.NoError(t, err)
		return []string{"Bearer " + token}
	}
	of := func(claims jwt.MapClaims) []string { return []string{"Bearer " + mint(t, claims)} }
	unsigned := signed[:strings.LastIndex(signed, ".")+1]
	another := strings.Split(mint(t, jwt.MapClaims{"sub": "somebody else", "exp": inAnHour()}), ".")
	mixed := strings.Join([]string{another[0], another[1], signed[len(unsigned):]}, ".")
	return []badToken{
		{name: "no token", says: "Authorization: Bearer"},
		{name: "an empty header", authorization: []string{""}, says: "Authorization: Bearer"},
		{name: "a scheme alone", authorization: []string{"Bearer "}, says: "Authorization: Bearer"},
		{name: "a token without a scheme", authorization: []string{signed}, says: "Authorization: Bearer"},
		{name: "a password", authorization: []string{"Basic YWxpY2U6c2VjcmV0"}, says: "Authorization: Bearer"},
		{name: "two tokens", authorization: []string{"Bearer " + signed, "Bearer " + signed}, says: "send one"},
		{name: "rubbish", authorization: []string{"Bearer rubbish"}, says: "cannot be read"},
		{name: "an over-long token", authorization: []string{"Bearer " + strings.Repeat("a", 10<<10)}, says: "longer than"},
		{name: "a token that fills the header", authorization: []string{"Bearer " + strings.Repeat("a", 32<<10)}, status: http.StatusRequestHeaderFieldsTooLarge},
		{name: "an expired token", authorization: of(jwt.MapClaims{"sub": me, "exp": time.Now().Add(-time.Hour).Unix()}), says: "expired"},
		{name: "a token of tomorrow", authorization: of(jwt.MapClaims{"sub": me, "exp": inAnHour(), "nbf": inAnHour()}), says: "not valid yet"},
		{name: "a token for ever", authorization: of(jwt.MapClaims{"sub": me}), says: "'exp'"},
		{name: "a foreign token", authorization: by(jwt.SigningMethodHS256, []byte("the secret of somebody else, who runs something else")), says: "signature"},
		{name: "an unsigned token", authorization: []string{"Bearer " + unsigned}, says: "signature"},
		{name: "a signature of another token", authorization: []string{"Bearer " + mixed}, says: "signature"},
		{name: "no algorithm", authorization: by(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType), says: "signed by HS256"},
		{name: "another algorithm", authorization: by(jwt.SigningMethodHS512, []byte(secret)), says: "signed by HS256"},
		{name: "a token of nobody", authorization: of(jwt.MapClaims{"exp": inAnHour()}), says: "'sub'"},
		{name: "a user who is none", authorization: of(jwt.MapClaims{"sub": "a/b", "exp": inAnHour()}), says: "'sub'"},
		{name: "a user of 129", authorization: of(jwt.MapClaims{"sub": idOf(129), "exp": inAnHour()}), says: "'sub'"},
		{name: "a user who is a number", authorization: of(jwt.MapClaims{"sub": 7, "exp": inAnHour()}), says: "'sub'"},
	}
}

// testOtherUsers names another user in every place but the token: R2.
func (d *deployment) testOtherUsers(t *testing.T, s scribe, i int) {
	me, other := "the-token-"+identifier(s.name), "the-request-"+identifier(s.name)
	for _, name := range []string{"User-Id", "X-User-Id", "X-User", "X-Forwarded-User", "X-Auth-Request-User", "X-Remote-User", "Remote-User", "From", "Sub", "Likewise-User-Id"} {
		f := s.form(aLike(), userToken(t, me))
		f.header.Set(name, other)
		f.header.Set("Cookie", "user_id="+other)
		r := s.send(t.Context(), d.Nodes()[i%len(d.Nodes())], f, aLike())
		require.Empty(t, r.code, "%s: %s", name, r.text)
	}
	require.Equal(t, traces{Reactions: 1, Changes: 1}, d.traces(t, me), "one user, one reaction, whatever else was said")
	f := s.form(aLike(), userToken(t, me))
	f.path += "?user_id=" + other
	if r := s.send(t.Context(), d.Nodes()[i%len(d.Nodes())], f, aLike()); s.rest || r.code != "" {
		require.Equal(t, "invalid_argument", r.code)
		require.Contains(t, r.text, "user_id")
	}
	require.Equal(t, traces{Reactions: 1, Changes: 1}, d.traces(t, me))
	d.requireNothingWritten(t, other)
}
