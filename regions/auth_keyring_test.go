package regions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// soon is for sources that may be asked as often as the test likes; never, for
// those that are not asked again by themselves.
const (
	soon  = time.Millisecond
	never = 24 * time.Hour
)

// Negative control: a token that was verified with a key which is withdrawn.
func TestAWithdrawnKeyCountsNoMore(t *testing.T) {
	t.Parallel()
	keys := testSigners()
	from := newIssuer(t, keys.rsa.jwk(t, "old"))
	auth := startAuth(t, AuthConfig{Secret: testSecret, JWKSURL: from.URL, JWKSRefresh: never, JWKSCooldown: soon}, zap.NewNop())
	oldToken, newToken, secretToken := keys.rsa.issue(t, "old"), keys.ec.issue(t, "new"), mint(t, "alice")
	require.True(t, auth.accepts(t, oldToken))
	require.True(t, auth.accepts(t, oldToken))
	require.True(t, auth.accepts(t, secretToken))
	require.EqualValues(t, 1, from.asked.Load())

	from.publish(t, keys.ec.jwk(t, "new"))
	require.Eventually(t, func() bool { return auth.accepts(t, newToken) }, time.Minute, soon, "an unknown key makes a fetch")
	requireGuard(t, !auth.accepts(t, oldToken), "a token that was verified outlives its key")
	require.True(t, auth.accepts(t, secretToken))
	if guarded {
		requireRefused(t, errUnknownKey, auth, oldToken)
	}
}

func TestKeysAreRefreshed(t *testing.T) {
	t.Parallel()
	keys := testSigners()
	from := newIssuer(t, keys.rsa.jwk(t, "old"))
	auth := startAuth(t, AuthConfig{JWKSURL: from.URL, JWKSRefresh: 10 * soon, JWKSCooldown: soon}, zap.NewNop())
	token := keys.rsa.issue(t, "old")
	require.True(t, auth.accepts(t, token))
	from.publish(t) // an empty set withdraws all keys
	require.Eventually(t, func() bool { return !auth.accepts(t, token) }, time.Minute, soon)
	from.publish(t, keys.rsa.jwk(t, "old"))
	require.Eventually(t, func() bool { return auth.accepts(t, token) }, time.Minute, soon)
}

// The same keys, fetched anew, are no reason to verify tokens again.
func TestTheSameKeysStayTheSame(t *testing.T) {
	t.Parallel()
	keys := testSigners()
	from := newIssuer(t, keys.ed.jwk(t, "k"))
	auth := startAuth(t, AuthConfig{JWKSURL: from.URL, JWKSRefresh: soon, JWKSCooldown: soon}, zap.NewNop())
	before := auth.keys.now()
	require.Eventually(t, func() bool { return from.asked.Load() > 5 }, time.Minute, soon)
	require.Same(t, before, auth.keys.now())
}

// Whatever comes instead of keys: at the start it is an error that names what to
// change; later the keys stay as they are.
func TestAnswersThatAreNoKeys(t *testing.T) {
	t.Parallel()
	keys := testSigners()
	elsewhere := newIssuer(t, keys.otherEC.jwk(t, "new"))
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		say    string
	}{
		"an error":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "status 500"},
		"not found":       {http.NotFound, "status 404"},
		"no content":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "status 204"},
		"a redirect":      {http.RedirectHandler(elsewhere.URL, http.StatusFound).ServeHTTP, "redirects (status 302)"},
		"a page":          {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, errNoKeySet.Error()},
		"half a set":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keySetOf(t, keys.ec.jwk(t, "x"))[:40]) }, errNoKeySet.Error()},
		"another object":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"error":"keys"}`)) }, errNoKeySet.Error()},
		"without end":     {endless, "larger than 262144 bytes"},
		"too slow":        {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "it took longer than 200ms"},
		"a slow body":     {slowBody, "it took longer than 200ms"},
		"a broken answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"a long header":   {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", maxHeader)) }, "headers exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 30 * time.Second
			if strings.Contains(c.say, "it took longer") {
				timeout = 200 * time.Millisecond
			}
			bad := newIssuer(t)
			bad.answerBy(c.answer)
			err := newTestAuth(t, AuthConfig{JWKSURL: bad.URL, JWKSTimeout: timeout}).keys.load(t.Context())
			var keysErr *KeysError
			require.ErrorAs(t, err, &keysErr)
			require.Equal(t, "Auth.JWKSURL", keysErr.Field)
			require.ErrorContains(t, err, c.say)

			good := newIssuer(t, keys.ec.jwk(t, "k"))
			core, logs := observer.New(zap.InfoLevel)
			auth := newLoggedAuth(t, AuthConfig{JWKSURL: good.URL}, zap.New(core))
			require.NoError(t, auth.keys.load(t.Context()))
			good.answerBy(c.answer)
			source := auth.keys.sources[0]
			source.read = fetchKeys(good.URL, timeout)
			for range 3 {
				require.ErrorContains(t, source.load(t.Context()), c.say)
			}
			require.True(t, auth.accepts(t, keys.ec.issue(t, "k")), "the old keys go on")
			requireRefused(t, errUnknownKey, auth, keys.otherEC.issue(t, "new"))
			require.Len(t, logs.FilterMessage("the issuer's keys cannot be loaded; the old ones go on").All(), 1, "once")
		})
	}
	require.Zero(t, elsewhere.asked.Load(), "a redirect is not followed")
}

func endless(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write([]byte(`{"keys":[`))
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte(strings.Repeat("{},", 1000))); err != nil {
			return
		}
	}
}

func slowBody(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write([]byte(`{"keys":[`))
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func TestAnIssuerThatIsNotThere(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	address := strings.Replace(gone.URL, "http://", "http://me:sesame@", 1) + "/jwks.json?key=sesame"
	core, logs := observer.New(zap.DebugLevel)
	auth := newLoggedAuth(t, AuthConfig{JWKSURL: address}, zap.New(core))
	err := auth.keys.load(t.Context())
	require.ErrorContains(t, err, "Auth.JWKSURL: no keys from "+gone.URL+"/jwks.json: ")
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "sesame")
	auth.keys.sources[0].document = []byte{} // as if there had been keys
	require.Error(t, auth.keys.sources[0].load(t.Context()))
	require.NotEmpty(t, logs.All())
	require.NotContains(t, fmt.Sprint(logs.All()), "sesame")
}

// A storm of tokens with keys that nobody knows reaches the issuer no more often
// than the cool-down allows, and good tokens go on.
func TestAStormOfUnknownKeys(t *testing.T) {
	t.Parallel()
	keys := testSigners()
	from := newIssuer(t, keys.ed.jwk(t, "k"))
	const cooldown = 100 * time.Millisecond
	began := time.Now()
	auth := startAuth(t, AuthConfig{JWKSURL: from.URL, JWKSRefresh: never, JWKSCooldown: cooldown}, zap.NewNop())
	good := keys.ed.issue(t, "k")
	const enough = 100
	var refused atomic.Int64
	var storm sync.WaitGroup
	for worker := range 8 {
		storm.Go(func() {
			for i := 0; time.Since(began) < 5*cooldown || refused.Load() <= enough; i++ {
				if _, err := auth.caller(t.Context(), bearerOf(keys.ed.issue(t, fmt.Sprintf("%d-%d", worker, i)))); errors.Is(err, errUnknownKey) {
					refused.Add(1)
				}
			}
		})
	}
	for time.Since(began) < 5*cooldown {
		require.True(t, auth.accepts(t, good))
	}
	storm.Wait()
	require.Greater(t, refused.Load(), int64(enough))
	require.Greater(t, from.asked.Load(), int64(1))
	require.LessOrEqual(t, from.asked.Load(), int64(1+time.Since(began)/cooldown))
}

// clockedSource notes when it is read. Reading takes a second.
type clockedSource struct {
	*keySource
	mu    sync.Mutex
	reads []time.Time // guarded by mu
	fail  bool        // guarded by mu
}

func newClockedSource(t *testing.T) *clockedSource {
	t.Helper()
	document := keySetOf(t, testSigners().ed.jwk(t, "k"))
	c := &clockedSource{}
	c.keySource = &keySource{
		kind: "url", every: 5 * time.Minute, cooldown: 10 * time.Second, changed: func() {},
		log: zap.NewNop(), loads: newMetrics().keyLoads, wake: make(chan struct{}, 1),
		read: func(context.Context) ([]byte, error) {
			failing := c.note()
			<-time.After(time.Second)
			if failing {
				return nil, errors.New("down")
			}
			return document, nil
		},
	}
	return c
}

func (c *clockedSource) note() (failing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = append(c.reads, time.Now())
	return c.fail
}

// halfAnHour returns the reads of that time, in which others ask every now and
// then.
func (c *clockedSource) halfAnHour(every time.Duration, fail bool) []time.Time {
	const span = 30 * time.Minute
	c.mu.Lock()
	c.reads, c.fail = nil, fail
	c.mu.Unlock()
	for end := time.Now().Add(span); time.Now().Before(end); {
		<-time.After(min(every, span))
		if every < span {
			<-c.ask()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

// The same by the clock.
func TestHowOftenASourceIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newClockedSource(t)
		require.NoError(t, source.load(t.Context()))
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = source.run(ctx) })
		synctest.Wait()

		const never, often = time.Hour, 10 * time.Millisecond
		require.InDelta(t, 6, len(source.halfAnHour(never, false)), 1, "left alone, it is read every 5 minutes")
		for _, reads := range [][]time.Time{source.halfAnHour(often, false), source.halfAnHour(often, true)} {
			require.InDelta(t, 170, len(reads), 15, "asked all the time, it is read every 10 s")
			for i := 1; i < len(reads); i++ {
				require.GreaterOrEqual(t, reads[i].Sub(reads[i-1]), 10*time.Second)
			}
		}
		require.InDelta(t, 135, len(source.halfAnHour(never, true)), 15, "while it fails, it is tried again sooner")

		stop()
		running.Wait()
		<-source.ask() // nobody waits for what is not read any more
	})
}

// Who waits for a key waits no longer than they want to.
func TestACallerWaitsNoLongerThanItsDeadline(t *testing.T) {
	t.Parallel()
	keys := testSigners()
	from := newIssuer(t, keys.ed.jwk(t, "k"))
	auth := startAuth(t, AuthConfig{JWKSURL: from.URL, JWKSRefresh: never, JWKSCooldown: soon, JWKSTimeout: time.Hour}, zap.NewNop())
	from.answerBy(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := auth.caller(ctx, bearerOf(keys.ed.issue(t, "x")))
		return errors.Is(err, context.DeadlineExceeded)
	}, time.Minute, soon, "once the cool-down is over")
	require.True(t, auth.accepts(t, keys.ed.issue(t, "k")), "and nobody else waits")
}

func TestAFileOfKeysIsReadAgain(t *testing.T) {
	t.Parallel()
	keys, path := testSigners(), filepath.Join(t.TempDir(), "keys.json")
	cfg := AuthConfig{JWKSFile: path, JWKSRefresh: 10 * soon, JWKSCooldown: soon}
	err := newTestAuth(t, cfg).keys.load(t.Context())
	require.ErrorContains(t, err, "Auth.JWKSFile: no keys from "+path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte(`{"keys":[]}`), 0o600))
	require.ErrorIs(t, newTestAuth(t, cfg).keys.load(t.Context()), errNoKeys)

	replace := func(content []byte) {
		require.NoError(t, os.WriteFile(path+".new", content, 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
	replace(keySetOf(t, keys.rsa.jwk(t, "old")))
	auth := startAuth(t, cfg, zap.NewNop())
	require.True(t, auth.accepts(t, keys.rsa.issue(t, "old")))

	replace([]byte("half a f"))
	failures := auth.keys.sources[0].loads.WithLabelValues("file", "error")
	require.Eventually(t, func() bool { return testutil.ToFloat64(failures) > 2 }, time.Minute, soon)
	require.True(t, auth.accepts(t, keys.rsa.issue(t, "old")), "a file that is no key set changes nothing")

	replace(keySetOf(t, keys.ec.jwk(t, "new")))
	require.Eventually(t, func() bool { return auth.accepts(t, keys.ec.issue(t, "new")) }, time.Minute, soon)
	require.False(t, auth.accepts(t, keys.rsa.issue(t, "old")))
}

// A file and a URL count together, each with its own failures.
func TestTwoSources(t *testing.T) {
	t.Parallel()
	keys, path := testSigners(), filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(path, keySetOf(t, keys.rsa.jwk(t, "k")), 0o600))
	from := newIssuer(t, keys.ec.jwk(t, "k"))
	auth := startAuth(t, AuthConfig{JWKSFile: path, JWKSURL: from.URL, JWKSRefresh: 10 * soon, JWKSCooldown: soon}, zap.NewNop())
	require.True(t, auth.accepts(t, keys.rsa.issue(t, "k")))
	require.True(t, auth.accepts(t, keys.ec.issue(t, "k")))
	from.answerBy(http.NotFound)
	require.NoError(t, os.WriteFile(path, keySetOf(t, keys.ed.jwk(t, "k")), 0o600))
	require.Eventually(t, func() bool { return !auth.accepts(t, keys.rsa.issue(t, "k")) }, time.Minute, soon)
	require.True(t, auth.accepts(t, keys.ec.issue(t, "k")))
	require.True(t, auth.accepts(t, keys.ed.issue(t, "k")))
}

func TestAServerThatHasNoKeysDoesNotServe(t *testing.T) {
	t.Parallel()
	bad, other := newIssuer(t), startNode(t, "n1")
	s, err := New(
		Config{Node: "n2", Region: "here", Listen: "127.0.0.1:0", Auth: AuthConfig{JWKSURL: bad.URL}},
		Deps{Store: other.store, Routes: other.routes},
	)
	require.NoError(t, err)
	var keysErr *KeysError
	require.ErrorAs(t, s.LoadKeys(t.Context()), &keysErr)
	require.ErrorIs(t, keysErr, errNoKeys)
	require.ErrorAs(t, s.Run(t.Context()), &keysErr, "it ends by itself")
}

func TestTokensOfAnIssuerAtTheFrontDoor(t *testing.T) {
	t.Parallel()
	keys := testSigners()
	from := newIssuer(t, keys.rsa.jwk(t, "k"))
	n := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.Auth = AuthConfig{JWKSURL: from.URL, Audience: []string{"likes"}} })
	token := keys.rsa.sign(t, `{"alg":"RS256","kid":"k"}`, aliceClaims(`"aud":"likes"`))
	reply, err := clientOf(t, n.FrontAddr(), token).SetReaction(t.Context(), like("cat"))
	require.NoError(t, err)
	require.True(t, reply.GetChanged())
	_, err = clientOf(t, n.FrontAddr(), mint(t, "alice")).SetReaction(t.Context(), like("cat"))
	require.ErrorContains(t, err, "the token must be signed by RS256 or ES256 or EdDSA")
	for _, secret := range []string{token, mint(t, "alice"), string(testSecret)} {
		require.NotContains(t, fmt.Sprint(n.logs.All()), secret)
	}
}
