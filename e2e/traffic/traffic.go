package traffic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	likewisev1 "likewise/proto/likewise/v1"
)

// HotVideo is the video that gets Config.HotShare of all steps.
const HotVideo = "hot"

// Region is where clients come from.
type Region struct {
	Name string
	// Addrs are the front doors of the region's nodes, as host:port.
	Addrs []string
}

// Attempt is a Set as an application would tell it to a counter of its own:
// what the user's device believes the reaction was, and what it is now.
type Attempt struct {
	Video, User string
	From, To    likewisev1.Reaction
}

// Observer sees every attempt right before it is sent: each copy of a
// duplicate and each retry is an attempt of its own. It may block, which holds
// up the client that sends; its error ends the traffic.
type Observer interface {
	Attempt(context.Context, Attempt) error
}

// Config says how much traffic there is, and of what kind.
type Config struct {
	// Seed decides everything that chance decides in a client's plan. The
	// interleaving of clients is not under its control.
	Seed uint64
	// Run becomes part of every user's name. Give each run on the same database
	// another one: a client believes at first that its users have no reactions.
	Run string
	// Regions are where clients run, at least one.
	Regions []Region
	// Token mints the users' tokens; it is called once for each user.
	Token TokenFunc
	// Observer sees attempts. Nil: nobody does.
	Observer Observer

	// ClientsPerRegion is how many steps run at once from one region.
	// Zero: 48.
	ClientsPerRegion int
	// Rate bounds the steps per second of all clients together.
	// Zero: as fast as answers come.
	Rate float64
	// Videos is how many videos there are beside the hot one. Zero: 200.
	Videos int
	// UsersPerClient is how many users act through one client. Zero: 20.
	UsersPerClient int
	// HotShare is the share of steps on the hot video, from 0 to 1. Zero: 0.3.
	HotShare float64
	// AttemptTimeout bounds one attempt. Zero: 5 s.
	AttemptTimeout time.Duration
	// MaxAttempts bounds the attempts of one operation. Zero: 5.
	MaxAttempts int
}

func (c Config) withDefaults() Config {
	c.ClientsPerRegion = orDefault(c.ClientsPerRegion, 48)
	c.Videos = orDefault(c.Videos, 200)
	c.UsersPerClient = orDefault(c.UsersPerClient, 20)
	c.HotShare = orDefault(c.HotShare, 0.3)
	c.AttemptTimeout = orDefault(c.AttemptTimeout, 5*time.Second)
	c.MaxAttempts = orDefault(c.MaxAttempts, 5)
	return c
}

func orDefault[T comparable](v, byDefault T) T {
	var zero T
	if v == zero {
		return byDefault
	}
	return v
}

// Validate reports every field that cannot be used.
func (c Config) Validate() error {
	var errs []error
	if len(c.Regions) == 0 {
		errs = append(errs, errors.New("Regions: at least one is needed"))
	}
	for _, r := range c.Regions {
		if len(r.Addrs) == 0 {
			errs = append(errs, fmt.Errorf("Regions: %q has no address", r.Name))
		}
	}
	if c.Token == nil {
		errs = append(errs, errors.New("Token: a function is needed"))
	}
	if c.ClientsPerRegion < 0 || c.Videos < 0 || c.UsersPerClient < 0 || c.MaxAttempts < 0 {
		errs = append(errs, errors.New("ClientsPerRegion, Videos, UsersPerClient, MaxAttempts: must not be negative"))
	}
	if c.HotShare < 0 || c.HotShare > 1 {
		errs = append(errs, fmt.Errorf("HotShare: %v is not between 0 and 1", c.HotShare))
	}
	if c.Rate < 0 || c.AttemptTimeout < 0 {
		errs = append(errs, errors.New("Rate, AttemptTimeout: must not be negative"))
	}
	return errors.Join(errs...)
}

// Traffic is a set of clients, their history and their figures.
type Traffic struct {
	cfg       Config
	transport *http.Transport
	regions   []*doors
	limit     *rate.Limiter
	history   *History
	meter     *meter
}

// New checks cfg and prepares the clients. It starts nothing.
func New(cfg Config) (*Traffic, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("traffic: %w", err)
	}
	cfg = cfg.withDefaults()
	t := &Traffic{
		cfg:       cfg,
		transport: newTransport(cfg.ClientsPerRegion),
		limit:     newLimit(cfg.Rate),
		history:   NewHistory(),
		meter:     newMeter(),
	}
	tokens := newTokens(cfg.Token)
	for _, region := range cfg.Regions {
		t.regions = append(t.regions, newDoors(region, &http.Client{Transport: t.transport}, tokens))
	}
	return t, nil
}

func newLimit(perSecond float64) *rate.Limiter {
	if perSecond == 0 {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond/10)))
}

// Run makes traffic until ctx ends. It returns after the last operation of
// every client is over: those are finished, not cut off, so that their outcomes
// are known. A cancelled ctx is a clean end: nil.
func (t *Traffic) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range t.cfg.ClientsPerRegion * len(t.regions) {
		c := t.newClient(i)
		g.Go(func() error { return c.run(ctx) })
	}
	return g.Wait()
}

// Close lets go of idle connections.
func (t *Traffic) Close() { t.transport.CloseIdleConnections() }

// History is what happened so far. It grows while Run runs.
func (t *Traffic) History() *History { return t.history }

// Figures are what was measured so far.
func (t *Traffic) Figures() Figures { return t.meter.figures() }

// Recent are the figures since Recent was last called, for one caller who
// watches.
func (t *Traffic) Recent() Figures { return t.meter.sinceLast() }
