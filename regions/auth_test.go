package regions

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/storage"
)

func sign(t *testing.T, method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	require.NoError(t, err)
	return token
}

func newTestAuth(t testing.TB, cfg AuthConfig) *authenticator {
	t.Helper()
	cfg = cfg.withDefaults()
	require.NoError(t, cfg.validate())
	auth, err := newAuthenticator(cfg, zap.NewNop(), newMetrics())
	require.NoError(t, err)
	return auth
}

// R2
func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret, Leeway: 5 * time.Minute})
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	hs256 := func(claims jwt.MapClaims) []string {
		return []string{"Bearer " + sign(t, jwt.SigningMethodHS256, testSecret, claims)}
	}
	for name, c := range map[string]struct {
		header []string
		want   error // nil: it is alice
	}{
		"a good token":               {header: hs256(jwt.MapClaims{"sub": "alice", "exp": in(time.Hour)})},
		"a scheme in lower case":     {header: []string{"bearer " + mint(t, "alice")}},
		"just expired":               {header: hs256(jwt.MapClaims{"sub": "alice", "exp": in(-time.Minute)})},
		"a clock a little ahead":     {header: hs256(jwt.MapClaims{"sub": "alice", "exp": in(time.Hour), "iat": in(time.Minute), "nbf": in(time.Minute)})},
		"no header":                  {want: errNoToken},
		"another scheme":             {header: []string{"Basic YTpi"}, want: errNoToken},
		"no token":                   {header: []string{"Bearer "}, want: errNoToken},
		"two headers":                {header: []string{"Bearer " + mint(t, "alice"), "Bearer " + mint(t, "bob")}, want: errManyTokens},
		"rubbish":                    {header: []string{"Bearer rubbish"}, want: errMalformed},
		"over-long":                  {header: []string{"Bearer " + strings.Repeat("a", maxToken+1)}, want: errLongToken},
		"expired":                    {header: hs256(jwt.MapClaims{"sub": "alice", "exp": in(-10 * time.Minute)}), want: errExpired},
		"not valid yet":              {header: hs256(jwt.MapClaims{"sub": "alice", "exp": in(time.Hour), "nbf": in(10 * time.Minute)}), want: errNotYet},
		"issued in the future":       {header: hs256(jwt.MapClaims{"sub": "alice", "exp": in(time.Hour), "iat": in(10 * time.Minute)}), want: errNotYet},
		"without expiry":             {header: hs256(jwt.MapClaims{"sub": "alice"}), want: errNoExpiry},
		"without a user":             {header: hs256(jwt.MapClaims{"exp": in(time.Hour)}), want: errBadSubject},
		"a user with a slash":        {header: hs256(jwt.MapClaims{"sub": "a/b", "exp": in(time.Hour)}), want: errBadSubject},
		"an over-long user":          {header: hs256(jwt.MapClaims{"sub": strings.Repeat("a", 129), "exp": in(time.Hour)}), want: errBadSubject},
		"a user that is a number":    {header: hs256(jwt.MapClaims{"sub": 7, "exp": in(time.Hour)}), want: errMalformed},
		"another secret":             {header: []string{"Bearer " + sign(t, jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), jwt.MapClaims{"sub": "alice", "exp": in(time.Hour)})}, want: errBadSignature},
		"another algorithm":          {header: []string{"Bearer " + sign(t, jwt.SigningMethodHS512, testSecret, jwt.MapClaims{"sub": "alice", "exp": in(time.Hour)})}, want: errBadSignature},
		"no algorithm":               {header: []string{"Bearer " + sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"sub": "alice", "exp": in(time.Hour)})}, want: errBadSignature},
		"expired and badly signed":   {header: []string{"Bearer " + sign(t, jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), jwt.MapClaims{"sub": "alice", "exp": in(-time.Hour)})}, want: errBadSignature},
		"an expiry that is not one":  {header: hs256(jwt.MapClaims{"sub": "alice", "exp": "soon"}), want: errMalformed},
		"a payload that was changed": {header: []string{"Bearer " + forge(t)}, want: errBadSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who, err := auth.caller(t.Context(), http.Header{"Authorization": c.header})
			if c.want != nil {
				require.Equal(t, c.want, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, storage.UserID("alice"), who.user)
		})
	}
}

// forge puts alice's claims over bob's signature.
func forge(t *testing.T) string {
	t.Helper()
	alice, bob := strings.Split(mint(t, "alice"), "."), strings.Split(mint(t, "bob"), ".")
	return strings.Join([]string{alice[0], alice[1], bob[2]}, ".")
}

func TestARememberedTokenStillExpires(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret})
	token := mint(t, "alice")
	header := http.Header{"Authorization": {"Bearer " + token}}
	_, err := auth.caller(t.Context(), header)
	require.NoError(t, err)
	_, ok := auth.verified.GetIfPresent(token)
	require.True(t, ok)
	auth.verified.Set(token, verifiedToken{who: caller{user: "alice"}, expires: time.Now().Add(-31 * time.Second)})
	_, err = auth.caller(t.Context(), header)
	require.Equal(t, errExpired, err)
}

func TestMintTokenRefusesWhatNoNodeAccepts(t *testing.T) {
	t.Parallel()
	for name, mint := range map[string]func() (string, error){
		"a short secret": func() (string, error) { return MintToken(testSecret[:31], Claims{Subject: "alice"}, time.Hour) },
		"a bad user":     func() (string, error) { return MintToken(testSecret, Claims{Subject: "a b"}, time.Hour) },
		"no lifetime":    func() (string, error) { return MintToken(testSecret, Claims{Subject: "alice"}, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := mint()
			require.Error(t, err)
		})
	}
}

// R2: a user id anywhere else than in the token never counts.
func TestTheUserIsTheTokens(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	code, _ := curl(t, n.url("/likewise.v1.ReactionService/SetReaction?user_id=bob"),
		`{"videoId":"cat","reaction":"LIKE"}`,
		map[string]string{"Authorization": "Bearer " + mint(t, "alice"), "User-Id": "bob", "X-User-Id": "bob"})
	require.Equal(t, http.StatusOK, code)
	code, _ = curl(t, n.url("/likewise.v1.ReactionService/SetReaction"),
		`{"videoId":"cat","reaction":"LIKE","userId":"bob"}`,
		map[string]string{"Authorization": "Bearer " + mint(t, "alice")})
	require.Equal(t, http.StatusBadRequest, code, "no such field")
	require.Equal(t, storage.Like, n.store.db.state("cat", "alice").Reaction)
	require.Equal(t, storage.None, n.store.db.state("cat", "bob").Reaction)
}

func TestWhatNeedsAToken(t *testing.T) {
	t.Parallel()
	public := startNode(t, "n1")
	private := startNode(t, "n2", func(cfg *Config, _ *Deps) { cfg.PrivateCounts = true })
	const nobody = "rubbish"

	_, err := clientOf(t, public.FrontAddr(), nobody).SetReaction(t.Context(), like("cat"))
	require.Equal(t, errMalformed.Error(), requireCode(t, connect.CodeUnauthenticated, err).Message())
	_, err = clientOf(t, public.FrontAddr(), nobody).GetReaction(t.Context(), &likewisev1.GetReactionRequest{VideoId: "cat"})
	requireOnlyCode(t, connect.CodeUnauthenticated, err)
	require.Zero(t, public.store.sets.Load()+public.store.gets.Load())

	counts := &likewisev1.GetCountsRequest{VideoId: "cat"}
	_, err = clientOf(t, public.FrontAddr(), nobody).GetCounts(t.Context(), counts)
	require.NoError(t, err)
	_, err = clientOf(t, private.FrontAddr(), nobody).GetCounts(t.Context(), counts)
	requireOnlyCode(t, connect.CodeUnauthenticated, err)
	_, err = private.as(t, "alice").GetCounts(t.Context(), counts)
	require.NoError(t, err)
}
