package regions

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"likewise/routing"
)

// PeerName is the DNS name that the certificate of every node carries, and the
// only one that nodes accept from each other.
const PeerName = "peer.likewise.internal"

// Config configures a Server. Durations and sizes of zero take their defaults.
type Config struct {
	// Node names this node, as in the routing map. Required.
	Node string
	// Region is where this node runs. Required.
	Region routing.Region

	// Listen is the host:port for users; port 0 takes any. Unused if Listener is
	// given. Default 127.0.0.1:8080.
	Listen string
	// Listener is an open listener for users, which the Server then owns.
	Listener net.Listener

	// HTTP says how users reach the front door: from which web pages, and by TLS.
	HTTP HTTPConfig

	// Peers configures calls between nodes. nil: this node runs alone, opens no
	// listener for others and calls none.
	Peers *PeersConfig

	// Auth says whose tokens are believed.
	Auth AuthConfig
	// PrivateCounts makes counts need a token, as the other calls do.
	PrivateCounts bool

	// Deadline is for calls that bring none. Default 5 s.
	Deadline time.Duration
	// MaxDeadline caps the deadline that a caller brings. Default 30 s.
	MaxDeadline time.Duration
	// DrainTimeout bounds how long Run waits for calls in flight once it was
	// told to stop. Default 10 s.
	DrainTimeout time.Duration

	// Counts configures the cache of counts.
	Counts CountsConfig
}

// PeersConfig configures calls between nodes. All nodes carry certificates of
// one CA, valid for PeerName and for both ends of a connection.
type PeersConfig struct {
	// Listen is the host:port for other nodes; port 0 takes any. Unused if
	// Listener is given.
	Listen string
	// Listener is an open TCP listener for other nodes, which the Server then
	// owns and wraps in TLS.
	Listener net.Listener

	// CA, Cert and Key are PEM: the certificates of the CA that nodes trust, and
	// this node's own chain and private key. Required.
	CA, Cert, Key []byte

	// Proxy is an HTTP proxy through which calls to other nodes go, by CONNECT:
	// TLS holds from end to end. nil: none. The environment is not consulted.
	Proxy *url.URL

	// HopTimeout bounds one call to another node. Default 1 s.
	HopTimeout time.Duration
}

// CountsConfig configures the cache of counts.
type CountsConfig struct {
	// Videos is how many videos are kept. Default 100,000.
	Videos int
	// RefreshAfter is the age at which an answer is still given, and loaded anew
	// behind it; ± 10 %. Default 300 ms.
	RefreshAfter time.Duration
	// MaxAge is the age up to which an answer is given without waiting for a
	// load, to callers who give no bound. Default 2 s.
	MaxAge time.Duration
	// MaxStale is the age up to which an answer is given to such callers while
	// loads fail. Default 60 s.
	MaxStale time.Duration
	// LoadTimeout bounds one load. Default 2 s.
	LoadTimeout time.Duration
	// Loads is how many loads read the database at once. Others wait within their
	// LoadTimeout, and leave connections to strong reads. Default 6.
	Loads int
	// BesideWrite bounds how long the reply to a write waits for counts. Default
	// 250 ms.
	BesideWrite time.Duration
}

// Deps are what a Server works with. It closes none of them.
type Deps struct {
	// Store commits and reads. Required.
	Store store
	// Routes answers the current map. If it can also Refresh, as routing.Gossip
	// can, it is asked to when another node knows a newer topology. Required.
	Routes routes
	// AnnounceLeaving tells the other nodes that this one wants no new calls. It
	// is called first when the Server drains. nil: there is nobody to tell.
	AnnounceLeaving func(context.Context) error
	// Log takes failures. nil: nothing.
	Log *zap.Logger
	// Registerer takes the metrics. nil: none.
	Registerer prometheus.Registerer
	// Gatherer is what /metrics answers. nil: /metrics is not there.
	Gatherer prometheus.Gatherer
}

type (
	store interface {
		reactions
		counter
		videoStates
	}
	routes interface{ Map() *routing.Map }
	// refresher returns a map of that epoch or a higher one.
	refresher interface {
		Refresh(ctx context.Context, epoch int64) (*routing.Map, error)
	}
)

func orDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

func (c Config) withDefaults() Config {
	orDefault(&c.Listen, "127.0.0.1:8080")
	c.Auth = c.Auth.withDefaults()
	orDefault(&c.Deadline, 5*time.Second)
	orDefault(&c.MaxDeadline, 30*time.Second)
	orDefault(&c.DrainTimeout, 10*time.Second)
	c.Counts = c.Counts.withDefaults()
	if c.Peers != nil {
		peers := *c.Peers
		orDefault(&peers.HopTimeout, time.Second)
		c.Peers = &peers
	}
	return c
}

func (c CountsConfig) withDefaults() CountsConfig {
	orDefault(&c.Videos, 100_000)
	orDefault(&c.RefreshAfter, 300*time.Millisecond)
	orDefault(&c.MaxAge, 2*time.Second)
	orDefault(&c.MaxStale, 60*time.Second)
	orDefault(&c.LoadTimeout, 2*time.Second)
	orDefault(&c.Loads, 6)
	orDefault(&c.BesideWrite, 250*time.Millisecond)
	return c
}

// Validate names every field that cannot work.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Node == "" {
		errs = append(errs, errors.New("Node: give this node a name"))
	}
	if err := c.Region.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Region: %w", err))
	}
	errs = append(errs,
		c.Auth.validate(),
		positive("Deadline", c.Deadline),
		positive("DrainTimeout", c.DrainTimeout),
		c.HTTP.validate(),
		c.Counts.validate(),
		c.Peers.validate(),
	)
	if c.MaxDeadline < c.Deadline {
		errs = append(errs, fmt.Errorf("MaxDeadline: want at least Deadline (%s), have %s", c.Deadline, c.MaxDeadline))
	}
	return errors.Join(errs...)
}

func (c CountsConfig) validate() error {
	var errs []error
	if c.Videos < 1 {
		errs = append(errs, fmt.Errorf("Counts.Videos: want at least 1, have %d", c.Videos))
	}
	if c.Loads < 1 {
		errs = append(errs, fmt.Errorf("Counts.Loads: want at least 1, have %d", c.Loads))
	}
	if c.MaxStale < c.MaxAge {
		errs = append(errs, fmt.Errorf("Counts.MaxStale: want at least Counts.MaxAge (%s), have %s", c.MaxAge, c.MaxStale))
	}
	return errors.Join(append(errs,
		positive("Counts.RefreshAfter", c.RefreshAfter),
		positive("Counts.MaxAge", c.MaxAge),
		positive("Counts.LoadTimeout", c.LoadTimeout),
		positive("Counts.BesideWrite", c.BesideWrite),
	)...)
}

func positive(field string, d time.Duration) error {
	if d > 0 {
		return nil
	}
	return fmt.Errorf("%s: want more than 0, have %s", field, d)
}

func (p *PeersConfig) validate() error {
	if p == nil {
		return nil
	}
	var errs []error
	if p.Listen == "" && p.Listener == nil {
		errs = append(errs, errors.New("Peers.Listen: give a host:port"))
	}
	if p.Proxy != nil && (p.Proxy.Scheme != "http" || p.Proxy.Host == "") {
		errs = append(errs, fmt.Errorf("Peers.Proxy: want http://host:port, have %q", p.Proxy.Redacted()))
	}
	_, certErr := p.certificate()
	_, caErr := p.authority()
	return errors.Join(append(errs, positive("Peers.HopTimeout", p.HopTimeout), certErr, caErr)...)
}

func (p *PeersConfig) certificate() (tls.Certificate, error) {
	cert, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("Peers.Cert: want a PEM certificate whose private key is in Peers.Key: %w", err)
	}
	return cert, nil
}

func (p *PeersConfig) authority() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(p.CA) {
		return nil, errors.New("Peers.CA: want at least one PEM certificate")
	}
	return pool, nil
}
