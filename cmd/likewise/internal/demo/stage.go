package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"likewise/deploy/local/cluster"
	"likewise/deploy/local/postgres"
	"likewise/deploy/local/wan"
	"likewise/e2e/traffic"
	"likewise/storage"
)

// keptDatabase is the database of a demo with a data folder of its own.
const keptDatabase = "likewise"

// stage is everything that runs while a demo does.
type stage struct {
	cfg         Config
	postgres    *postgres.Server
	database    string // in words
	databaseURL string
	dropped     string // a database to drop at the end, if any
	cluster     *cluster.Cluster
	store       *storage.Store
	client      *http.Client
	transport   *http.Transport
	removeState func() error
}

// raise starts everything. On an error nothing is left.
func raise(ctx context.Context, cfg Config) (*stage, error) {
	transport := &http.Transport{}
	s := &stage{cfg: cfg, transport: transport, client: &http.Client{Transport: transport}}
	for _, step := range []func(context.Context) error{s.startDatabase, s.startNodes, s.connect, s.publish} {
		if err := step(ctx); err != nil {
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			return nil, errors.Join(err, s.strike(stopping))
		}
	}
	return s, nil
}

// DatabaseError means that there is no database to run on.
type DatabaseError struct{ cause error }

func (e *DatabaseError) Error() string { return e.cause.Error() }
func (e *DatabaseError) Unwrap() error { return e.cause }

func (s *stage) startDatabase(ctx context.Context) (err error) {
	o := s.cfg.Postgres
	o.Progress = func(line string) { s.cfg.say("%s", line) }
	if s.postgres, err = postgres.Start(ctx, o); err != nil {
		return &DatabaseError{err}
	}
	s.database = s.postgres.Describe()
	s.cfg.say("%s", s.database)
	name := keptDatabase
	if o.URL != "" { // somebody else's server: take nothing but a database of our own
		name = "likewise_demo_" + strconv.FormatInt(time.Now().UnixMilli(), 36)
		s.dropped = name
	}
	s.databaseURL = s.postgres.URL(name)
	return s.postgres.CreateDatabase(ctx, name)
}

// startNodes starts nodes that share one machine with each other, the database
// and the clients: one worker and few connections each, as few transactions with
// much in them cost less than many with little, and more memory for less garbage
// collection.
func (s *stage) startNodes(ctx context.Context) (err error) {
	s.cluster, err = cluster.Start(ctx, cluster.Config{
		Binary:         s.cfg.Executable,
		Regions:        s.cfg.Regions,
		NodesPerRegion: s.cfg.NodesPerRegion,
		DatabaseURL:    s.databaseURL,
		FrontPort:      s.cfg.FrontPort,
		Args:           []string{"--commit-workers", "1", "--read-connections", "3"},
		Env:            []string{"GOGC=400"},
		RTT:            wan.Uniform(s.cfg.RTT),
		Progress:       func(line string) { s.cfg.say("%s", line) },
	})
	if err != nil {
		return err
	}
	for _, n := range s.cluster.Nodes() {
		s.cfg.say("%s serves at http://%s", n.Name(), n.Addr())
	}
	s.cfg.say("round trip between regions: %s; the ways to the database and of gossip are not delayed", s.cfg.RTT)
	return nil
}

func (s *stage) connect(ctx context.Context) (err error) {
	s.store, err = storage.Open(ctx, storage.Config{URL: s.databaseURL})
	return err
}

// publish lets the other commands of this user find the demo. If they have
// found another one already, that one keeps them.
func (s *stage) publish(context.Context) error {
	path, err := statePath()
	if err != nil {
		return err
	}
	s.removeState, err = writeStateFile(path, s.state())
	if errors.Is(err, errOtherDemo) {
		s.cfg.say("%v: \"likewise set\" and the like go on talking to that one", err)
		return nil
	}
	return err
}

// strike stops everything in the reverse order, whatever fails.
func (s *stage) strike(ctx context.Context) error {
	if s.postgres != nil {
		s.cfg.say("stopping")
	}
	var errs []error
	if s.removeState != nil {
		errs = append(errs, s.removeState())
	}
	s.transport.CloseIdleConnections()
	if s.store != nil {
		s.store.Close()
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Close(ctx))
	}
	if s.dropped != "" {
		errs = append(errs, s.postgres.DropDatabase(ctx, s.dropped))
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Close(ctx))
	}
	return errors.Join(errs...)
}

// regions are the front doors, region by region.
func (s *stage) regions() []traffic.Region {
	regions := make([]traffic.Region, len(s.cfg.Regions))
	for i, name := range s.cfg.Regions {
		regions[i].Name = name
		for _, n := range s.cluster.Nodes() {
			if n.Region() == name {
				regions[i].Addrs = append(regions[i].Addrs, n.Addr())
			}
		}
	}
	return regions
}

// watchNodes returns an error as soon as a node ends by itself: a demo with
// fewer nodes than it says would be a lie.
func (s *stage) watchNodes(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range s.cluster.Nodes() {
		done := n.Done()
		g.Go(func() error {
			select {
			case <-ctx.Done():
				return nil
			case <-done:
				return fmt.Errorf("node %s ended by itself:\n%s", n.Name(), n.LogTail())
			}
		})
	}
	return g.Wait()
}

// welcome says how to use what runs.
func (s *stage) welcome() error {
	token, err := s.cfg.Mint("alice", tokenLife)
	if err != nil {
		return err
	}
	regions := s.regions()
	near, far := regions[0].Addrs[0], regions[len(regions)-1].Addrs[0]
	var where strings.Builder
	for _, region := range regions {
		fmt.Fprintf(&where, "  %-8s http://%s\n", region.Name, strings.Join(region.Addrs, "  http://"))
	}
	fmt.Fprintf(s.cfg.Out, welcomeText, where.String(), token, near, far, far, s.cfg.Program, s.cfg.Program, s.cfg.Program)
	return nil
}

const welcomeText = `
Likewise runs:

%s
A token for the user alice, and a like, a read and a count:

T=%s
curl -X POST -H 'Content-Type: application/json' -H "Authorization: Bearer $T" -d '{"videoId":"cat","reaction":"LIKE"}' http://%s/likewise.v1.ReactionService/SetReaction; echo
curl -X POST -H 'Content-Type: application/json' -H "Authorization: Bearer $T" -d '{"videoId":"cat"}' http://%s/likewise.v1.ReactionService/GetReaction; echo
curl -X POST -H 'Content-Type: application/json' -d '{"videoId":"cat"}' http://%s/likewise.v1.ReactionService/GetCounts; echo

Or: %s set cat LIKE --as alice; %s counts cat; %s verify --all
Ctrl-C stops everything, and checks first what came of it; again, and it stops at once.

`
