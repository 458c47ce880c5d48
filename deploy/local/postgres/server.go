package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"likewise/deploy/local/process"
)

// portTries is how many ports are tried before giving up: between choosing a
// free port and listening on it, somebody else may take it.
const portTries = 5

// Server is a PostgreSQL server to work with. Its methods are safe for
// concurrent use.
type Server struct {
	url     *url.URL
	version string
	options Options

	// The rest is zero for a server that was given.
	child   *process.Process
	scratch *scratch // removed by Close
}

// Start finds or starts a server and returns once it answers. The caller
// closes it. A cancelled ctx stops the start, and changes nothing afterwards.
func Start(ctx context.Context, o Options) (*Server, error) {
	return start(ctx, o, defaultSource())
}

func start(ctx context.Context, o Options, from source) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if o.URL != "" {
		return adopt(ctx, o)
	}
	scratch, err := newScratch()
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, scratch: scratch}
	if err := s.start(ctx, from); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// adopt connects to a server that somebody else runs.
func adopt(ctx context.Context, o Options) (*Server, error) {
	u, err := url.Parse(o.URL)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, errors.New("the database URL is not of the form postgres://user:password@host:port/database")
	}
	s := &Server{url: u, options: o}
	ctx, cancel := context.WithTimeout(ctx, o.StartTimeout)
	defer cancel()
	if s.version, err = readVersion(ctx, o.URL); err != nil {
		return nil, fmt.Errorf("using the database at %s: %w", u.Host, err)
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, from source) error {
	dir := s.options.DataDir
	if dir == "" {
		dir = filepath.Join(s.scratch.dir, "data")
	}
	c, err := openCluster(dir)
	if err != nil {
		return err
	}
	p, err := from.obtain(ctx, s.options, c.major)
	if err != nil {
		return err
	}
	if c.major == 0 {
		// Installing may have added the account that fits better.
		if c.owner, err = serverAccount(); err != nil {
			return err
		}
		if err := c.create(ctx, p, s.scratch.dir, s.initArgs()...); err != nil {
			return err
		}
	}
	if err := c.owner.canReach(c.dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.StartTimeout, errStartTimeout)
	defer cancel()
	return s.launch(ctx, p, c)
}

// initArgs leaves a cluster unsynced that need not outlive a crash of the
// machine right after its making: that takes seconds on a busy disk. What is
// committed later waits for the disk or not as usual.
func (s *Server) initArgs() []string {
	if s.options.DataDir != "" && s.options.Durability == Durable {
		return nil
	}
	return []string{"--no-sync"}
}

var errStartTimeout = errors.New("start timed out")

// launch starts the server on a free port, on another one if that was lost.
func (s *Server) launch(ctx context.Context, p programs, c *cluster) error {
	for try := 1; ; try++ {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		err = s.launchOn(ctx, p, c, port)
		if err == nil {
			return nil
		}
		if try == portTries || !errors.Is(err, errExited) || portIsFree(ctx, port) {
			return err
		}
	}
}

// errExited means that the server ended before it answered.
var errExited = errors.New("the server ended at once")

func (s *Server) launchOn(ctx context.Context, p programs, c *cluster, port int) error {
	log, err := c.open(logFile, os.O_APPEND)
	if err != nil {
		return err
	}
	defer log.Close()
	s.child, err = process.Start(process.Spec{
		Path:   p.postgres(),
		Args:   s.arguments(c, port),
		Env:    environment(),
		Output: log,
		User:   c.owner.credential,
		// Immediate shutdown: the server takes its own children with it.
		OrphanSignal: syscall.SIGQUIT,
	})
	if err != nil {
		return err
	}
	s.url = &url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, c.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	if err := s.awaitAnswer(ctx); err != nil {
		_ = s.child.Stop(context.WithoutCancel(ctx), syscall.SIGQUIT, s.options.StopTimeout)
		return fmt.Errorf("starting PostgreSQL in %s: %w\n%s", c.dir, err, process.Tail(log.Name()))
	}
	return nil
}

func (s *Server) arguments(c *cluster, port int) []string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": "",
		"max_connections":         strconv.Itoa(s.options.MaxConnections),
		"logging_collector":       "off",
		"log_destination":         "stderr",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
	}
	if s.options.Durability == Volatile {
		settings["fsync"] = "off"
		settings["synchronous_commit"] = "off"
		settings["full_page_writes"] = "off"
	}
	maps.Copy(settings, s.options.Settings)
	args := []string{"-D", c.dir}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// awaitAnswer asks until the server answers to its password, which no other
// server on that port would.
func (s *Server) awaitAnswer(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		select {
		case <-s.child.Done():
			return fmt.Errorf("%w: %w", errExited, s.child.Err())
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-tick.C:
		}
		if s.version, last = readVersion(ctx, s.url.String()); last == nil {
			return nil
		}
	}
}

// URL returns the address of one of the server's databases.
func (s *Server) URL(database string) string {
	u := *s.url
	u.Path = "/" + database
	return u.String()
}

// Describe names the server in a few words, such as "PostgreSQL 15.18, started
// here". It holds no secret.
func (s *Server) Describe() string {
	if s.child != nil {
		return s.version + ", started here"
	}
	return s.version + " at " + s.url.Host
}

// Pid returns the server's process id, or 0 if it was not started here.
func (s *Server) Pid() int {
	if s.child == nil {
		return 0
	}
	return s.child.Pid()
}

// ErrNotOurs means that the server was given and is not ours to signal.
var ErrNotOurs = errors.New("the server was not started here")

// Signal sends a signal to the server's main process. It is for fault tests.
func (s *Server) Signal(sig os.Signal) error {
	if s.child == nil {
		return ErrNotOurs
	}
	return s.child.Signal(sig)
}

// Close shuts the server down, disconnecting its clients, and removes what was
// temporary. A server that was given goes on. It returns within
// Options.StopTimeout, and earlier if ctx ends: the server is killed then, and
// the error says so. Closing again does nothing.
func (s *Server) Close(ctx context.Context) error {
	var err error
	if s.child != nil {
		err = s.stop(ctx)
	}
	if s.scratch != nil {
		err = errors.Join(err, s.scratch.remove())
	}
	return err
}

func (s *Server) stop(ctx context.Context) error {
	select {
	case <-s.child.Done():
		return nil // a fault test may have killed it
	default:
	}
	// SIGINT is PostgreSQL's fast shutdown: roll back, checkpoint, end. The
	// immediate one, SIGQUIT, saves the checkpoint of data that is removed.
	sig := syscall.SIGINT
	if s.options.DataDir == "" {
		sig = syscall.SIGQUIT
	}
	if err := s.child.Stop(ctx, sig, s.options.StopTimeout); err != nil {
		return fmt.Errorf("stopping PostgreSQL: %w", err)
	}
	return nil
}

func portIsFree(ctx context.Context, port int) bool {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

// shortVersion cuts "PostgreSQL 15.18 (Debian …) on x86_64 …" to its first two
// words; CockroachDB's has its name in three.
func shortVersion(full string) string {
	words := strings.Fields(full)
	n := 2
	if len(words) > 0 && words[0] == "CockroachDB" {
		n = 3
	}
	return strings.Join(words[:min(n, len(words))], " ")
}
