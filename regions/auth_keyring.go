package regions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

const (
	// fileRefresh is the time between two readings of a file of keys, and
	// fileCooldown the least: reading one costs next to nothing.
	fileRefresh  = 5 * time.Second
	fileCooldown = time.Second
)

// KeysError means that the keys of tokens could not be had when the server
// started.
type KeysError struct {
	Field string // of Config: Auth.JWKSFile or Auth.JWKSURL
	From  string // the file, or the URL without what may be secret in it
	Cause error
}

func (e *KeysError) Error() string {
	return fmt.Sprintf("%s: no keys from %s: %v; see to it that they can be had there, or name another place", e.Field, e.From, e.Cause)
}

// Unwrap returns the cause.
func (e *KeysError) Unwrap() error { return e.Cause }

// keyring holds the public keys of the issuers, of all sources together. It is
// safe for concurrent use; a nil one holds none.
type keyring struct {
	sources []*keySource
	timeout time.Duration
	current atomic.Pointer[keySet]
	mu      sync.Mutex // held to put a new set together
}

// newKeyring returns nil if no key set is configured.
func newKeyring(cfg AuthConfig, log *zap.Logger, m *metrics) *keyring {
	if !cfg.hasKeySet() {
		return nil
	}
	if len(cfg.Audience) == 0 {
		log.Warn("no audience is configured: tokens that the issuer made for other services count here as well")
	}
	r := &keyring{timeout: cfg.JWKSTimeout}
	r.current.Store(&keySet{})
	add := func(s *keySource) {
		s.log = log.With(zap.String("keys_from", s.from))
		s.changed, s.loads = r.rebuild, m.keyLoads
		s.wake = make(chan struct{}, 1)
		r.sources = append(r.sources, s)
	}
	if cfg.JWKSFile != "" {
		add(&keySource{
			field: "Auth.JWKSFile", kind: "file", from: cfg.JWKSFile, read: readKeyFile(cfg.JWKSFile),
			every: min(fileRefresh, cfg.JWKSRefresh), cooldown: min(fileCooldown, cfg.JWKSCooldown),
		})
	}
	if cfg.JWKSURL != "" {
		add(&keySource{
			field: "Auth.JWKSURL", kind: "url", from: withoutSecrets(cfg.JWKSURL), read: fetchKeys(cfg.JWKSURL, cfg.JWKSTimeout),
			every: cfg.JWKSRefresh, cooldown: cfg.JWKSCooldown,
		})
	}
	return r
}

// now returns the keys of the moment. The same pointer means the same keys.
func (r *keyring) now() *keySet { return r.current.Load() }

func (r *keyring) rebuild() {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := &keySet{}
	for _, s := range r.sources {
		all.keys = append(all.keys, s.keysNow()...)
	}
	r.current.Store(all)
}

// verify returns the key set that vouches for a token. If it may be signed by a
// key that is not known yet, the keys are loaded anew first, as far as the
// cool-down allows.
func (r *keyring) verify(ctx context.Context, method jwt.SigningMethod, token signedToken) (*keySet, error) {
	if r == nil {
		return nil, errUnknownKey
	}
	before := r.now()
	err := before.verify(method, token)
	if !errors.Is(err, errUnknownKey) {
		return before, err
	}
	if err := r.reload(ctx); err != nil {
		return nil, err
	}
	after := r.now()
	if after == before {
		return nil, errUnknownKey
	}
	return after, after.verify(method, token)
}

// reload waits for loads that begin now or are under way. It fails only if ctx
// ends first.
func (r *keyring) reload(ctx context.Context) error {
	var loads []<-chan struct{}
	for _, s := range r.sources {
		loads = append(loads, s.ask())
	}
	patience := time.NewTimer(r.timeout)
	defer patience.Stop()
	for _, load := range loads {
		select {
		case <-load:
		case <-patience.C:
			return nil // what came meanwhile counts
		case <-ctx.Done():
			return fmt.Errorf("wait for the issuer's keys: %w", ctx.Err())
		}
	}
	return nil
}

// load fills the ring for the first time. Whoever has keys from one source and
// not from another is told: a node that refuses good tokens is no use.
func (r *keyring) load(ctx context.Context) error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, s := range r.sources {
		if s.loaded() {
			continue
		}
		if err := s.load(ctx); err != nil {
			errs = append(errs, &KeysError{Field: s.field, From: s.from, Cause: err})
		}
	}
	return errors.Join(errs...)
}

// run loads the keys again and again until ctx ends.
func (r *keyring) run(ctx context.Context) error {
	if r == nil {
		return nil
	}
	if err := r.load(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range r.sources {
		g.Go(func() error { return s.run(ctx) })
	}
	return g.Wait()
}

// keySource is one place where keys come from. Its loads never overlap.
type keySource struct {
	field, kind, from string
	read              func(context.Context) ([]byte, error)
	every, cooldown   time.Duration
	changed           func()
	log               *zap.Logger
	loads             *prometheus.CounterVec
	wake              chan struct{} // a load is wanted; holds one

	mu       sync.Mutex
	running  bool          // run would hear of a wish; guarded by mu
	pending  chan struct{} // closed when the load that is wanted or under way has ended; guarded by mu
	began    time.Time     // of the last load; guarded by mu
	document []byte        // as it was last taken; nil before the first; guarded by mu
	keys     []publicKey   // of document; guarded by mu
	failing  bool          // the last load failed; guarded by mu
}

func (s *keySource) keysNow() []publicKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys
}

func (s *keySource) loaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.document != nil
}

// ask wants a load, and returns what is closed when it has ended; at once, if the
// last one is too young.
func (s *keySource) ask() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.pending != nil:
		return s.pending
	case !s.running || time.Since(s.began) < s.cooldown:
		return closedChannel()
	}
	s.pending = make(chan struct{})
	select {
	case s.wake <- struct{}{}:
	default: // it is awake already
	}
	return s.pending
}

func closedChannel() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}

func (s *keySource) run(ctx context.Context) error {
	s.setRunning(true)
	defer s.setRunning(false)
	timer := time.NewTimer(jittered(s.every))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-timer.C:
		}
		pause := s.every
		if s.load(ctx) != nil {
			pause = s.cooldown * 5 / 4 // with its jitter above the cool-down
		}
		timer.Reset(jittered(pause))
	}
}

// setRunning hangs up on those who wait when it ends.
func (s *keySource) setRunning(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = running
	s.endLoad()
}

// endLoad is called with mu held.
func (s *keySource) endLoad() {
	if s.pending != nil {
		close(s.pending)
		s.pending = nil
	}
}

// load reads the source once. A failure leaves the keys as they were.
func (s *keySource) load(ctx context.Context) error {
	s.mu.Lock()
	s.began = time.Now()
	if s.pending == nil {
		s.pending = make(chan struct{})
	}
	select {
	case <-s.wake: // this load is the one that is wanted
	default:
	}
	s.mu.Unlock()

	document, err := s.read(ctx)
	if err == nil {
		err = s.take(document)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLoad()
	s.report(err)
	return err
}

var errNoKeys = errors.New("no key of the set can verify tokens: want RSA keys of at least 2048 bits, or keys of P-256, P-384, P-521 or Ed25519, that are for signatures")

// take replaces the keys by those of a document. A set that holds none withdraws
// them all; only as the first one it is a mistake.
func (s *keySource) take(document []byte) error {
	keys, err := parseKeySet(document)
	if err != nil {
		return err
	}
	s.mu.Lock()
	before := s.document
	if before == nil && len(keys) == 0 {
		s.mu.Unlock()
		return errNoKeys
	}
	same := before != nil && bytes.Equal(before, document)
	s.document, s.keys = document, keys
	s.mu.Unlock()
	if same {
		return nil
	}
	s.changed()
	if len(keys) == 0 {
		s.log.Warn("the issuer has withdrawn all its keys: no token is accepted")
	} else {
		s.log.Info("took the issuer's keys", zap.Int("keys", len(keys)))
	}
	return nil
}

// report logs when failures begin and when they end. It is called with mu held.
func (s *keySource) report(err error) {
	outcome := "ok"
	switch {
	case err != nil:
		outcome = "error"
		if !s.failing && s.document != nil {
			s.log.Warn("the issuer's keys cannot be loaded; the old ones go on", zap.Error(err))
		}
	case s.failing:
		s.log.Info("the issuer's keys can be loaded again")
	}
	s.failing = err != nil
	s.loads.WithLabelValues(s.kind, outcome).Inc()
}

// jittered spreads what many nodes do at once: ± 10 %.
func jittered(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d)) //nolint:gosec // nothing depends on it
}

// LoadKeys loads the keys of tokens for the first time: a KeysError says which
// cannot be had. Run does so as well, if nobody has; who calls this before it
// learns of the error before the node says that it serves.
func (s *Server) LoadKeys(ctx context.Context) error { return s.auth.keys.load(ctx) }
