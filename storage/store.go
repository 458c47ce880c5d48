package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Config configures a Store. The zero value of each field but URL is good.
type Config struct {
	// URL says where the writer's database is: postgres://user@host:port/name.
	URL string

	// Committer configures group commit.
	Committer CommitterConfig

	// ReadConnections bounds the connections for reads. Default 8.
	ReadConnections int

	// Registerer takes the metrics. nil: none.
	Registerer prometheus.Registerer

	// Log takes what an operator should know. nil: nothing.
	Log *zap.Logger
}

func (c Config) withDefaults() Config {
	if c.ReadConnections == 0 {
		c.ReadConnections = 8
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	c.Committer = c.Committer.withDefaults()
	return c
}

// Validate names every field that cannot work.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if _, err := pgxpool.ParseConfig(c.URL); c.URL == "" || err != nil || malformedURL(c.URL) {
		errs = append(errs, errURL)
	}
	if c.ReadConnections < 1 {
		errs = append(errs, fmt.Errorf("ReadConnections: want at least 1, have %d", c.ReadConnections))
	}
	return errors.Join(append(errs, c.Committer.validate())...)
}

// Store is the database. It is safe for concurrent use. Sets are committed only
// while Run runs.
type Store struct {
	writes    *pgxpool.Pool
	reads     *pgxpool.Pool
	committer *committer
	target    target
	log       *zap.Logger
}

const (
	connectTimeout = 3 * time.Second
	pingTimeout    = time.Second
	readTimeout    = 4 * time.Second
)

// errURL holds no part of the URL: a password may stand anywhere in one that
// cannot be parsed.
var errURL = errors.New("URL: want postgres://user:password@host:port/database, with / @ : # ? % of a password as %2F %40 %3A %23 %3F %25")

// Open connects to the database and checks that it answers and takes writes. If
// not, the error is a ConnectError. It starts no worker; see Run. The caller
// closes the Store.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	cfg = cfg.withDefaults()
	writes, err := openPool(ctx, cfg.URL, cfg.Committer.connections(), writeSettings())
	if err != nil {
		return nil, err
	}
	reads, err := openPool(ctx, cfg.URL, cfg.ReadConnections, readSettings())
	if err != nil {
		writes.Close()
		return nil, err
	}
	s := &Store{writes: writes, reads: reads, target: target{writes.Config().ConnConfig}, log: cfg.Log}
	s.committer = newCommitter(cfg.Committer, &attempter{pool: writes, cfg: cfg.Committer, heat: newHeat()}, newMetrics(cfg.Registerer), cfg.Log)
	if err := s.checkWriter(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func openPool(ctx context.Context, url string, size int, settings map[string]string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open storage: %w", errURL)
	}
	maps.Copy(cfg.ConnConfig.RuntimeParams, settings)
	cfg.MaxConns = int32(size) //nolint:gosec // bounded by Validate
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	cfg.ConnConfig.DialFunc = (&net.Dialer{Timeout: connectTimeout, KeepAlive: connectTimeout}).DialContext
	cfg.PingTimeout = pingTimeout
	cfg.MaxConnLifetime = 10 * time.Minute
	cfg.MaxConnLifetimeJitter = time.Minute
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	return pool, nil
}

// Close ends all connections. It waits for those in use.
func (s *Store) Close() {
	s.reads.Close()
	s.writes.Close()
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
