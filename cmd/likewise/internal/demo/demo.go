// Package demo runs three regions on one machine, lets many clients argue
// about a few videos, and proves at the end that the counts are right, and how
// wrong two counters are that people usually write.
//
// Everything is real: PostgreSQL, a process for each node, TLS between nodes,
// a delay between regions. It stops everything that it started and removes
// every file that it made.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"likewise/deploy/local/postgres"
)

// Config says what to run. Mint, Executable, Regions and Out are required.
type Config struct {
	// Executable is the likewise binary that nodes run.
	Executable string
	// Program is how the user calls it, for the welcome.
	Program string
	// Mint makes a bearer token of the development secret.
	Mint func(user string, ttl time.Duration) (string, error)

	// Regions are the names of the regions, in order of their slots.
	Regions []string
	// NodesPerRegion is how many nodes each region has. Zero: 2.
	NodesPerRegion int
	// FrontPort is the first node's port; those of the others follow, where they
	// are free. Zero: any.
	FrontPort int
	// RTT is the round trip between two regions. Zero: none.
	RTT time.Duration
	// Postgres says where the database comes from.
	Postgres postgres.Options

	// Duration is how long traffic runs. Zero: until the context ends.
	Duration time.Duration
	// Rate bounds traffic, in steps per second. Zero: as fast as answers come.
	Rate float64
	// Quiet means that there is no traffic but that of other people.
	Quiet bool
	// Clients is how many steps run at once from each region. Zero: 48.
	Clients int
	// Seed makes the clients' plans repeatable.
	Seed uint64

	// Welcome prints how to use the demo, once it runs.
	Welcome bool
	// Live keeps a line of figures up to date, on a terminal.
	Live bool
	// Out takes the welcome and the live line, Progress what is being done.
	Out, Progress io.Writer
}

// tokenLife is longer than any demo.
const tokenLife = 24 * time.Hour

func (c Config) withDefaults() Config {
	if c.NodesPerRegion == 0 {
		c.NodesPerRegion = 2
	}
	return c
}

// stopTimeout bounds taking everything down.
const stopTimeout = 30 * time.Second

// Run starts everything, lets traffic run for the duration or until ctx ends,
// checks, and stops everything again. A context that ends while it starts is
// an error, as there is nothing to report.
func Run(ctx context.Context, cfg Config) (result Result, err error) {
	cfg = cfg.withDefaults()
	began := time.Now()
	s, err := raise(ctx, cfg)
	if err != nil {
		return Result{}, err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, s.strike(stopping))
	}()
	if cfg.Welcome {
		if err := s.welcome(); err != nil {
			return Result{}, err
		}
	}
	ready := time.Since(began)
	result, err = s.perform(ctx)
	if err != nil {
		return Result{}, err
	}
	result.FirstCallSeconds = seconds(ready)
	return result, nil
}

// say reports progress in one line.
func (c Config) say(format string, args ...any) {
	fmt.Fprintf(c.Progress, format+"\n", args...)
}
