package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"likewise/deploy/local/process"
	"likewise/deploy/local/wan"
)

// planTries is how many sets of ports are tried: between drawing a port and
// listening on it, another program may take it.
const planTries = 3

// Cluster is running nodes. Its methods are safe for concurrent use.
type Cluster struct {
	config  Config
	dir     string
	ownDir  bool // dir is removed by Close
	network *wan.Network
	proxies map[string]string // region → URL
	nodes   []*Node
	stopWAN func() error
}

// Start starts the nodes and returns once all of them serve. On an error
// nothing is left, save logs in Config.Dir. Cancelling ctx stops the start, and
// changes nothing afterwards.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c := &Cluster{config: config.withDefaults(), proxies: make(map[string]string)}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.makeDir(); err != nil {
		return err
	}
	if err := c.startNetwork(ctx); err != nil {
		return err
	}
	c.config.Progress("migrating the database")
	if err := c.migrate(ctx); err != nil {
		return err
	}
	for try := 1; ; try++ {
		var err error
		if c.nodes, err = c.plan(ctx); err != nil {
			return err
		}
		c.config.Progress(fmt.Sprintf("starting %d nodes in %s", len(c.nodes), strings.Join(c.config.Regions, ", ")))
		err = c.startNodes(ctx)
		if err == nil || try == planTries || !c.lostPort(ctx) {
			return err
		}
	}
}

func (c *Cluster) makeDir() error {
	c.dir = c.config.Dir
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "likewise-cluster-")
		if err != nil {
			return fmt.Errorf("making a temporary folder: %w", err)
		}
		c.dir, c.ownDir = dir, true
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("making the cluster's folder: %w", err)
	}
	dir, err := filepath.Abs(c.dir) // nodes run elsewhere
	if err != nil {
		return fmt.Errorf("finding the cluster's folder: %w", err)
	}
	c.dir = dir
	if c.config.Binary, err = filepath.Abs(c.config.Binary); err != nil {
		return fmt.Errorf("finding the binary: %w", err)
	}
	return nil
}

func (c *Cluster) startNetwork(ctx context.Context) error {
	c.network = wan.New(c.config.RTT)
	for _, region := range c.config.Regions {
		url, err := c.network.Listen(ctx, region)
		if err != nil {
			return err
		}
		c.proxies[region] = url
	}
	// The network goes on after Start's ctx has ended, until Close.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- c.network.Run(running) }()
	c.stopWAN = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	return nil
}

// migrate prepares the database with the binary's own command, as an operator
// would.
func (c *Cluster) migrate(ctx context.Context) error {
	path := filepath.Join(c.dir, "migrate.log")
	log, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("making the log of migrate: %w", err)
	}
	defer log.Close()
	child, err := process.Start(process.Spec{
		Path:   c.config.Binary,
		Args:   []string{"migrate", "--regions", strings.Join(c.config.Regions, ",")},
		Env:    c.environment(c.config.DatabaseURL),
		Output: log,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.config.StartTimeout, errNotMigrated)
	defer cancel()
	select {
	case <-child.Done():
		err = child.Err()
	case <-ctx.Done():
		child.Kill()
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("migrating the database: %w\n%s", err, process.Tail(path))
	}
	return nil
}

var errNotMigrated = errors.New("took too long")

// startNodes starts all nodes at once. If one fails, all are ended.
func (c *Cluster) startNodes(ctx context.Context) error {
	g, starting := errgroup.WithContext(ctx)
	for _, n := range c.nodes {
		g.Go(func() error {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.start(starting)
		})
	}
	err := g.Wait()
	if err != nil {
		c.killAll()
	}
	return err
}

func (c *Cluster) killAll() {
	for _, n := range c.nodes {
		if child := n.child.Load(); child != nil {
			child.Kill()
		}
	}
}

func (c *Cluster) lostPort(ctx context.Context) bool {
	for _, n := range c.nodes {
		if n.lostPort(ctx) {
			return true
		}
	}
	return false
}

// Nodes returns the nodes, region by region in the order of Config.Regions.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Network returns what lies between the regions, to cut it and to see what
// passed.
func (c *Cluster) Network() *wan.Network { return c.network }

// Dir returns the folder of the nodes' logs and certificates.
func (c *Cluster) Dir() string { return c.dir }

// Close drains all nodes at once, kills those that take longer than
// Config.StopTimeout or than ctx, and removes what was temporary. The error
// names each node that did not end in order; one that had ended before is not
// among them. Closing again does nothing.
func (c *Cluster) Close(ctx context.Context) error {
	errs := make([]error, len(c.nodes))
	var g errgroup.Group
	for i, n := range c.nodes {
		g.Go(func() error {
			errs[i] = n.Terminate(ctx)
			return nil
		})
	}
	_ = g.Wait()
	if c.stopWAN != nil {
		errs = append(errs, c.stopWAN())
	}
	if c.ownDir {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}
