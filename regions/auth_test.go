package regions

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/storage"
)

const header256 = `{"alg":"HS256"}`

func inSeconds(d time.Duration) int64 { return time.Now().Add(d).Unix() }

// R2
func TestWhichHeadersAreRead(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret})
	good := mint(t, "alice")
	for name, c := range map[string]struct {
		header []string
		want   error // nil: it is alice
	}{
		"a good token":           {header: []string{"Bearer " + good}},
		"a scheme in lower case": {header: []string{"bearer " + good}},
		"spaces around":          {header: []string{"Bearer   " + good + " "}},
		"no header":              {want: errNoToken},
		"an empty header":        {header: []string{""}, want: errNoToken},
		"another scheme":         {header: []string{"Basic YTpi"}, want: errNoToken},
		"no token":               {header: []string{"Bearer "}, want: errNoToken},
		"a token alone":          {header: []string{good}, want: errNoToken},
		"a tab for a space":      {header: []string{"Bearer\t" + good}, want: errNoToken},
		"two headers":            {header: []string{"Bearer " + good, "Bearer " + good}, want: errManyTokens},
		"two in one header":      {header: []string{"Bearer " + good + ", Bearer " + good}, want: errMalformed},
		"a space inside":         {header: []string{"Bearer " + good[:50] + " " + good[50:]}, want: errMalformed},
		"a line break inside":    {header: []string{"Bearer " + good[:50] + "\r\n" + good[50:]}, want: errMalformed},
		"a line break behind":    {header: []string{"Bearer " + good + "\n"}, want: errMalformed},
		"a wide space before":    {header: []string{"Bearer \u00a0" + good}, want: errMalformed},
		"padded":                 {header: []string{"Bearer " + good + "="}, want: errMalformed},
		"rubbish":                {header: []string{"Bearer rubbish"}, want: errMalformed},
		"only dots":              {header: []string{"Bearer .."}, want: errMalformed},
		"four parts":             {header: []string{"Bearer " + good + ".e30"}, want: errMalformed},
		"over-long":              {header: []string{"Bearer " + strings.Repeat("a", maxToken+1)}, want: errLongToken},
		"signed and over-long":   {header: []string{"Bearer " + hs256Token(t, aliceClaims(`"pad":"`+strings.Repeat("a", maxToken)+`"`))}, want: errLongToken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who, err := auth.caller(t.Context(), http.Header{"Authorization": c.header})
			require.Equal(t, c.want, err)
			if c.want == nil {
				require.Equal(t, storage.UserID("alice"), who.user)
			}
		})
	}
}

func hs256Token(t *testing.T, payload string) string {
	t.Helper()
	return testSigners().secret.sign(t, header256, payload)
}

// A token that is signed is not yet one that counts.
func TestWhichClaimsCount(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret, Leeway: 5 * time.Minute})
	hour := inSeconds(time.Hour)
	for name, c := range map[string]struct {
		payload string
		want    error // nil: it is alice
	}{
		"a fraction":                  {payload: fmt.Sprintf(`{"sub":"alice","exp":%d.5}`, hour)},
		"an exponent":                 {payload: `{"sub":"alice","exp":2.5e11}`},
		"the last second":             {payload: `{"sub":"alice","exp":253402300799}`},
		"just expired":                {payload: fmt.Sprintf(`{"sub":"alice","exp":%d}`, inSeconds(-time.Minute))},
		"a clock a little ahead":      {payload: fmt.Sprintf(`{"sub":"alice","exp":%d,"iat":%d,"nbf":%[2]d}`, hour, inSeconds(time.Minute))},
		"expired":                     {payload: fmt.Sprintf(`{"sub":"alice","exp":%d}`, inSeconds(-10*time.Minute)), want: errExpired},
		"expired in 1970":             {payload: `{"sub":"alice","exp":-0}`, want: errExpired},
		"not valid yet":               {payload: fmt.Sprintf(`{"sub":"alice","exp":%d,"nbf":%d}`, hour, inSeconds(10*time.Minute)), want: errNotYet},
		"issued in the future":        {payload: fmt.Sprintf(`{"sub":"alice","exp":%d,"iat":%d}`, hour, inSeconds(10*time.Minute)), want: errNotYet},
		"without expiry":              {payload: `{"sub":"alice"}`, want: errNoExpiry},
		"an expiry in capitals":       {payload: fmt.Sprintf(`{"sub":"alice","EXP":%d}`, hour), want: errNoExpiry},
		"an expiry that is null":      {payload: `{"sub":"alice","exp":null}`, want: errBadTime},
		"an expiry in quotes":         {payload: fmt.Sprintf(`{"sub":"alice","exp":"%d"}`, hour), want: errBadTime},
		"an expiry before 1970":       {payload: `{"sub":"alice","exp":-1}`, want: errBadTime},
		"an expiry in the year 10000": {payload: `{"sub":"alice","exp":253402300800}`, want: errBadTime},
		"an expiry that wraps":        {payload: `{"sub":"alice","exp":18446744075505597616}`, want: errBadTime},
		"an expiry beyond numbers":    {payload: `{"sub":"alice","exp":1e400}`, want: errBadTime},
		"valid from before 1970":      {payload: fmt.Sprintf(`{"sub":"alice","exp":%d,"nbf":-1}`, hour), want: errBadTime},
		"issued at no time":           {payload: fmt.Sprintf(`{"sub":"alice","exp":%d,"iat":[]}`, hour), want: errBadTime},
		"a user that is a number":     {payload: fmt.Sprintf(`{"sub":7,"exp":%d}`, hour), want: errBadClaims},
		"a user that is null":         {payload: fmt.Sprintf(`{"sub":null,"exp":%d}`, hour), want: errBadClaims},
		"a user twice":                {payload: aliceClaims(`"sub":"bob"`), want: errTwice},
		"a user twice, once escaped":  {payload: aliceClaims(`"s\u0075b":"bob"`), want: errTwice},
		"another case is no claim":    {payload: aliceClaims(`"SUB":"bob","Exp":1`)},
		"an audience for anybody":     {payload: aliceClaims(`"aud":["a","b"]`)},
		"an audience of numbers":      {payload: aliceClaims(`"aud":[1]`), want: errBadClaims},
		"an issuer that is a list":    {payload: aliceClaims(`"iss":["a"]`), want: errBadClaims},
		"scopes that are a number":    {payload: aliceClaims(`"scope":7`), want: errBadScopes},
		"scopes that are an object":   {payload: aliceClaims(`"scp":{}`), want: errBadScopes},
		"no object":                   {payload: `["alice"]`, want: errMalformed},
		"two objects":                 {payload: aliceClaims() + `{}`, want: errMalformed},
		"cut off":                     {payload: strings.TrimSuffix(aliceClaims(), "}"), want: errMalformed},
		"not JSON":                    {payload: `{sub:"alice"}`, want: errMalformed},
		"not UTF-8":                   {payload: aliceClaims("\"x\":\"\xff\""), want: errMalformed},
		"nothing":                     {payload: ``, want: errMalformed},
		"deep":                        {payload: aliceClaims(`"x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who, err := auth.caller(t.Context(), bearerOf(hs256Token(t, c.payload)))
			require.Equal(t, c.want, err)
			if c.want == nil {
				require.Equal(t, storage.UserID("alice"), who.user)
			}
		})
	}
}

func TestWhomATokenNames(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret})
	for name, c := range map[string]struct {
		claims string
		want   caller
	}{
		"a user":                   {`"sub":"a|b"`, caller{subject: "a|b", user: "a|b"}},
		"nobody":                   {`"x":1`, caller{}},
		"a program":                {`"sub":"a/b"`, caller{subject: "a/b"}},
		"129 characters":           {`"sub":"` + strings.Repeat("a", 129) + `"`, caller{subject: strings.Repeat("a", 129)}},
		"a zero byte":              {`"sub":"a\u0000"`, caller{subject: "a\x00"}},
		"half a character":         {`"sub":"a\ud800"`, caller{subject: "a\ufffd"}},
		"scopes in a string":       {`"scope":"likewise:admin x"`, caller{scopes: []string{ScopeAdmin, "x"}}},
		"no scopes in a string":    {`"scope":""`, caller{scopes: []string{""}}},
		"scopes in an array":       {`"scp":["x","likewise:service"]`, caller{scopes: []string{"x", ScopeService}}},
		"scopes in both":           {`"scope":"x","scp":"y"`, caller{scopes: []string{"x", "y"}}},
		"one scope with a space":   {`"scp":["x likewise:admin"]`, caller{scopes: []string{"x likewise:admin"}}},
		"a scope in other letters": {`"scope":"LIKEWISE:ADMIN"`, caller{scopes: []string{"LIKEWISE:ADMIN"}}},
		"scopes behind a tab":      {`"scope":"x\tlikewise:admin"`, caller{scopes: []string{"x\tlikewise:admin"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := hs256Token(t, fmt.Sprintf(`{"exp":%d,%s}`, inSeconds(time.Hour), c.claims))
			who, err := auth.caller(t.Context(), bearerOf(token))
			require.NoError(t, err)
			require.Equal(t, c.want, who)
			require.Equal(t, strings.HasPrefix(name, "scopes in a string"), who.has(ScopeAdmin))
		})
	}
}

func TestWhichHeadersOfTokensCount(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret})
	for name, c := range map[string]struct {
		header string
		want   error
	}{
		"a type":                        {header: `{"alg":"HS256","typ":"JWT"}`},
		"an access token":               {header: `{"alg":"HS256","typ":"application/AT+JWT"}`},
		"a key's name":                  {header: `{"alg":"HS256","kid":"../../x"}`},
		"another case is no field":      {header: `{"alg":"HS256","ALG":"none","Crit":["x"]}`},
		"a logout token":                {header: `{"alg":"HS256","typ":"logout+jwt"}`, want: errType},
		"a type that is null":           {header: `{"alg":"HS256","typ":null}`, want: errType},
		"an extension":                  {header: `{"alg":"HS256","crit":["exp"],"exp":1}`, want: errCritical},
		"an extension of no content":    {header: `{"alg":"HS256","crit":[]}`, want: errCritical},
		"an extension that is null":     {header: `{"alg":"HS256","crit":null}`, want: errCritical},
		"a payload that is not encoded": {header: `{"alg":"HS256","b64":false,"crit":["b64"]}`, want: errCritical},
		"two algorithms":                {header: `{"alg":"none","alg":"HS256"}`, want: errTwice},
		"no algorithm named":            {header: `{"typ":"JWT"}`, want: errMalformed},
		"an algorithm in capitals only": {header: `{"ALG":"HS256"}`, want: errMalformed},
		"an algorithm that is null":     {header: `{"alg":null}`, want: errMalformed},
		"algorithms in a list":          {header: `{"alg":["HS256"]}`, want: errMalformed},
		"a key's name that is a number": {header: `{"alg":"HS256","kid":1}`, want: errMalformed},
		"an algorithm with a space":     {header: `{"alg":"HS256 "}`, want: auth.say.algorithm},
		"an algorithm in lower case":    {header: `{"alg":"hs256"}`, want: auth.say.algorithm},
		"an empty algorithm":            {header: `{"alg":""}`, want: auth.say.algorithm},
		"none":                          {header: `{"alg":"none"}`, want: auth.say.algorithm},
		"none in other letters":         {header: `{"alg":"nOnE"}`, want: auth.say.algorithm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := auth.caller(t.Context(), bearerOf(testSigners().secret.sign(t, c.header, aliceClaims())))
			require.Equal(t, c.want, err)
		})
	}
}

func TestWhoseSignaturesCount(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret})
	keys, good := testSigners(), strings.Split(mint(t, "alice"), ".")
	none := signer{jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType}
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"another secret":             {keys.otherSecret.sign(t, header256, aliceClaims()), errBadSignature},
		"another secret, expired":    {keys.otherSecret.sign(t, header256, `{"sub":"alice","exp":1}`), errBadSignature},
		"a payload that was changed": {forge(t), errBadSignature},
		"no signature":               {good[0] + "." + good[1] + ".", errBadSignature},
		"half a signature":           {strings.Join(good, ".")[:len(strings.Join(good, "."))-11], errBadSignature}, // 32 characters: 24 whole bytes
		"unsigned":                   {none.sign(t, `{"alg":"none"}`, aliceClaims()), auth.say.algorithm},
		"unsigned, by another name":  {none.sign(t, header256, aliceClaims()), errBadSignature},
		"keys that are not asked":    {keys.rsa.issue(t, "r"), auth.say.algorithm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireRefused(t, c.want, auth, c.token)
		})
	}
}

// A signature has one spelling, so nobody can make two tokens out of one.
func TestATokenHasOneSpelling(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret})
	token := mint(t, "alice")
	require.True(t, auth.accepts(t, token))
	for _, last := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=" {
		if other := token[:len(token)-1] + string(last); other != token {
			require.False(t, auth.accepts(t, other), "%c", last)
		}
	}
}

// Negative control: algorithms that nobody has pinned, signed with our own secret.
func TestOnlyPinnedAlgorithmsCount(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret})
	for _, method := range []jwt.SigningMethod{jwt.SigningMethodHS384, jwt.SigningMethodHS512} {
		_, err := auth.caller(t.Context(), bearerOf(testSigners().secret.by(method).issue(t, "k")))
		requireGuard(t, err != nil, "an algorithm that is not pinned is refused")
		if guarded {
			require.Equal(t, auth.say.algorithm, err)
			require.ErrorContains(t, err, "HS256")
		}
	}
}

// Negative control: an audience that nobody asks for.
func TestOnlyTokensForUsCount(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret, Audience: []string{"likes", "likes.example"}})
	for claim, good := range map[string]bool{
		`"aud":"likes"`:               true,
		`"aud":["x","likes.example"]`: true,
		`"aud":"x"`:                   false,
		`"aud":"LIKES"`:               false,
		`"aud":"likes likes.example"`: false,
		`"aud":[]`:                    false,
		`"AUD":"likes"`:               false,
		`"x":"likes"`:                 false,
	} {
		_, err := auth.caller(t.Context(), bearerOf(hs256Token(t, aliceClaims(claim))))
		if good {
			require.NoError(t, err, claim)
			continue
		}
		requireGuard(t, err != nil, "a token for another service is refused: "+claim)
		if guarded {
			require.Equal(t, auth.say.audience, err)
			require.ErrorContains(t, err, `"likes" or "likes.example"`)
		}
	}
}

func TestOnlyTokensOfTheIssuerCount(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret, Issuer: "https://issuer.example"})
	require.True(t, auth.accepts(t, hs256Token(t, aliceClaims(`"iss":"https://issuer.example"`))))
	for _, claim := range []string{`"iss":"https://issuer.example/"`, `"iss":"HTTPS://issuer.example"`, `"iss":""`, `"x":1`} {
		requireRefused(t, auth.say.issuer, auth, hs256Token(t, aliceClaims(claim)))
	}
	require.ErrorContains(t, auth.say.issuer, "https://issuer.example")
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
	require.True(t, auth.accepts(t, token))
	_, ok := auth.verified.GetIfPresent(token)
	require.True(t, ok)
	auth.verified.Set(token, verifiedToken{who: caller{user: "alice"}, expires: time.Now().Add(-31 * time.Second)})
	requireRefused(t, errExpired, auth, token)
}

// What is remembered is bounded by its size, not by the number of tokens.
func TestTheMemoryForTokensIsBounded(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret})
	long := strings.Repeat("a", maxToken-20)
	for i := range 2 * maxVerified / maxToken {
		auth.verified.Set(fmt.Sprintf("%s%d", long, i), verifiedToken{})
	}
	auth.verified.CleanUp()
	require.LessOrEqual(t, auth.verified.WeightedSize(), uint64(maxVerified))
	require.NotZero(t, auth.verified.EstimatedSize())
}

func TestMintTokenRefusesWhatNoNodeAccepts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secret []byte
		claims Claims
		ttl    time.Duration
	}{
		"a short secret":     {testSecret[:31], Claims{Subject: "alice"}, time.Hour},
		"a bad user":         {testSecret, Claims{Subject: "a b"}, time.Hour},
		"a bad user, scopes": {testSecret, Claims{Subject: "a b", Scopes: []string{ScopeAdmin}}, time.Hour},
		"nobody":             {testSecret, Claims{}, time.Hour},
		"two scopes in one":  {testSecret, Claims{Subject: "alice", Scopes: []string{"a b"}}, time.Hour},
		"an empty scope":     {testSecret, Claims{Subject: "alice", Scopes: []string{""}}, time.Hour},
		"no lifetime":        {testSecret, Claims{Subject: "alice"}, 0},
		"more than fits":     {testSecret, Claims{Subject: "alice", Scopes: []string{strings.Repeat("a", maxToken)}}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := MintToken(c.secret, c.claims, c.ttl)
			require.ErrorContains(t, err, "mint a token: ")
		})
	}
}

func TestMintedTokensCount(t *testing.T) {
	t.Parallel()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret, Issuer: "us", Audience: []string{"likes"}})
	token, err := MintToken(testSecret, Claims{
		Subject: "alice", Scopes: []string{ScopeService, ScopeAdmin}, Issuer: "us", Audience: []string{"likes", "more"},
	}, time.Millisecond)
	require.NoError(t, err)
	who, err := auth.caller(t.Context(), bearerOf(token))
	require.NoError(t, err)
	require.Equal(t, caller{subject: "alice", user: "alice", scopes: []string{ScopeService, ScopeAdmin}}, who)
}

// R2: a user id anywhere else than in the token never counts.
func TestTheUserIsTheTokens(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	code, _ := curl(t, n.url("/likewise.v1.ReactionService/SetReaction"),
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
