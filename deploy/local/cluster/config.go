package cluster

import (
	"errors"
	"fmt"
	"time"

	"likewise/deploy/local/wan"
)

// Config says what to run.
type Config struct {
	// Binary is the path of likewise. Required.
	Binary string
	// Regions are the names of the regions, each once. Required.
	Regions []string
	// NodesPerRegion is 2 by default.
	NodesPerRegion int
	// DatabaseURL is the database of all nodes. Start migrates it. Required.
	DatabaseURL string
	// DatabaseURLOf, if not nil, gives the address at which one node, by name,
	// reaches that database: through a proxy, for example.
	DatabaseURLOf func(node string) string

	// FrontPort is where the first node's front door listens on 127.0.0.1; those
	// of the others follow. Where a port is taken another one is drawn. 0: all are
	// drawn.
	FrontPort int

	// RTT is the round trip between regions. Default: none anywhere.
	RTT wan.RTT

	// JWTSecret signs the users' tokens. Empty: the nodes run with
	// --dev-secret, so that "likewise token" mints them.
	JWTSecret string
	// Args are further arguments of every "likewise serve".
	Args []string
	// Env are further environment variables of every node, as NAME=value. A
	// LIKEWISE_ variable of the caller's own environment reaches no node.
	Env []string

	// Dir keeps logs and certificates. Empty: a temporary folder, removed by
	// Close.
	Dir string

	// StartTimeout bounds the start of the nodes, all together or one alone.
	// Default 30 s.
	StartTimeout time.Duration
	// StopTimeout bounds how long a node may drain before it is killed.
	// Default 15 s, above the node's own limit.
	StopTimeout time.Duration

	// Progress, if not nil, is told in one line what happens.
	Progress func(string)
}

func (c Config) withDefaults() Config {
	if c.NodesPerRegion == 0 {
		c.NodesPerRegion = 2
	}
	if c.DatabaseURLOf == nil {
		url := c.DatabaseURL
		c.DatabaseURLOf = func(string) string { return url }
	}
	if c.RTT == nil {
		c.RTT = wan.Uniform(0)
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 30 * time.Second
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = 15 * time.Second
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c
}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if c.Binary == "" {
		errs = append(errs, errors.New("Binary is missing"))
	}
	if c.DatabaseURL == "" {
		errs = append(errs, errors.New("DatabaseURL is missing"))
	}
	if len(c.Regions) == 0 {
		errs = append(errs, errors.New("Regions is empty"))
	}
	seen := make(map[string]bool)
	for _, region := range c.Regions {
		if region == "" || seen[region] {
			errs = append(errs, fmt.Errorf("Regions: %q is empty or named twice", region))
		}
		seen[region] = true
	}
	if c.FrontPort < 0 || c.FrontPort > maxPort {
		errs = append(errs, fmt.Errorf("FrontPort: %d is no port", c.FrontPort))
	}
	if c.NodesPerRegion < 0 || c.StartTimeout < 0 || c.StopTimeout < 0 {
		errs = append(errs, errors.New("NodesPerRegion, StartTimeout and StopTimeout cannot be negative"))
	}
	return errors.Join(errs...)
}
