package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/term"

	"likewise/cmd/likewise/internal/demo"
	"likewise/deploy/local/postgres"
	"likewise/storage"
)

type demoCmd struct {
	Regions []string      `default:"eu,us,ap" placeholder:"R" group:"stage" help:"Names of the regions. Default ${default}."`
	Nodes   int           `default:"2" placeholder:"N" group:"stage" help:"Nodes in each region. Default ${default}."`
	Port    int           `default:"8080" placeholder:"N" group:"stage" help:"Port of the first node's front door on 127.0.0.1; those of the others follow. Where one is taken, another is drawn. 0: all are drawn. Default ${default}."`
	RTT     time.Duration `name:"rtt" default:"40ms" group:"stage" help:"Round trip of a call between two regions; 0: none. The ways to the database and of gossip are not delayed. Default ${default}."`

	Data            string `placeholder:"DIR" type:"path" group:"database" help:"Keep PostgreSQL's data here, for the next demo. Default: a temporary folder."`
	PostgresURL     string `placeholder:"URL" group:"database" help:"Use this running PostgreSQL, with a database of the demo's own that is dropped at the end. Default: start one."`
	PostgresBin     string `placeholder:"DIR" type:"path" group:"database" help:"Folder of PostgreSQL's server programs, initdb and postgres. Default: look for it."`
	InstallPackages bool   `group:"database" help:"If there is no PostgreSQL, install it with the package manager through sudo. Root needs no flag."`

	Headless bool          `group:"traffic" help:"No welcome and no line of figures: run traffic, check, end. Needs --duration."`
	Duration time.Duration `group:"traffic" help:"How long traffic runs, such as 20s. 0: until Ctrl-C."`
	Rate     *float64      `placeholder:"N" group:"traffic" help:"Steps of traffic per second, all clients together. 0: no traffic, or with --headless no bound. Default: 200, or with --headless no bound."`
	Clients  int           `default:"48" placeholder:"N" group:"traffic" help:"Steps that run at once from each region. 0 takes the default, ${default}."`
	Seed     *uint64       `placeholder:"N" group:"traffic" help:"Makes the clients' plans repeatable. Default: another one each time."`
	JSON     string        `name:"json" placeholder:"FILE" group:"traffic" help:"Write what happened as one JSON object; - is standard output."`
}

func (*demoCmd) Help() string {
	return `Finds or starts PostgreSQL, starts the regions as processes with a delay between them, and prints how to call them. Ctrl-C stops the traffic, checks, says what happened, and leaves no process and no file.

The traffic likes, switches, undoes and repeats, sends the same request several times at once, gives up and asks again, and lets one user act from two regions at the same time. Two counters that people usually write are told of every attempt, in the same database.

Exit status 1 if a shown count differs from a recount, or an acknowledged reaction is lost.

Examples:
  likewise demo
  likewise demo --headless --duration 20s --json -`
}

// defaultRate leaves a laptop cool while a person looks around.
const defaultRate = 200

// check implements checker.
func (c *demoCmd) check() error {
	_, err := checkRegions(c.Regions)
	errs := []error{
		err,
		demoRange("nodes", c.Nodes, 1, 100),
		demoRange("port", c.Port, 0, 65535),
		demoRange("clients", c.Clients, 0, 10_000),
		notLess("duration", c.Duration),
		notLess("rtt", c.RTT),
	}
	if c.Headless && c.Duration <= 0 {
		errs = append(errs, disagreef([]string{"duration", "headless"}, "--headless needs an end: say for how long, such as --duration 20s"))
	}
	if c.Rate != nil && !(*c.Rate >= 0) {
		errs = append(errs, wrongf("rate", "want 0 or more, have %g", *c.Rate))
	}
	if c.PostgresURL != "" && (c.Data != "" || c.PostgresBin != "") {
		errs = append(errs, disagreef([]string{"postgres-url", "data", "postgres-bin"}, "a server is given or started: leave this out, or --data and --postgres-bin"))
	}
	return gather(append(errs, checkDatabase("postgres-url", c.PostgresURL))...)
}

func demoRange(flag string, n, least, most int) error {
	if n >= least && n <= most {
		return nil
	}
	return wrongf(flag, "want %d to %d, have %d", least, most, n)
}

func notLess(flag string, d time.Duration) error {
	if d >= 0 {
		return nil
	}
	return wrongf(flag, "want 0 or more, have %s", d)
}

func (c *demoCmd) Run(ctx context.Context, std streams) error {
	cfg, err := c.config(std)
	if err != nil {
		return err
	}
	report, err := c.openReport(std)
	if err != nil {
		return err
	}
	if err := c.tryServer(ctx); err != nil {
		return errors.Join(err, report.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg.Out, cfg.Progress = untilBroken{cfg.Out, cancel}, untilBroken{cfg.Progress, cancel}
	result, err := demo.Run(ctx, cfg)
	if err != nil {
		return errors.Join(c.explain(err), report.Close())
	}
	if err := c.write(std, report, result); err != nil {
		return err
	}
	if !result.Right() {
		return &statusError{statusNo, fmt.Errorf("drift is %d, %d reactions are lost: neither may be", result.Drift, result.Lost)}
	}
	return nil
}

// tryServer looks whether a server that was given can be used, before anything
// is started.
func (c *demoCmd) tryServer(ctx context.Context) error {
	if c.PostgresURL == "" {
		return nil
	}
	store, err := storage.Open(ctx, storage.Config{URL: c.PostgresURL})
	if err != nil {
		return explainDatabase("postgres-url", err)
	}
	store.Close()
	return nil
}

// explain names the flags that a database which did not come up is about.
func (c *demoCmd) explain(err error) error {
	database, ok := errors.AsType[*demo.DatabaseError](err)
	if !ok {
		return explainDatabase("postgres-url", err)
	}
	var about []string
	for _, g := range []given{{"postgres-url", c.PostgresURL}, {"data", c.Data}, {"postgres-bin", c.PostgresBin}} {
		if g.value != "" {
			about = append(about, g.flag)
		}
	}
	if len(about) == 0 {
		return database
	}
	return disagreef(about, "%w", database)
}

func (c *demoCmd) config(std streams) (demo.Config, error) {
	executable, err := os.Executable()
	if err != nil {
		return demo.Config{}, fmt.Errorf("finding this program, to start nodes with: %w", err)
	}
	out := std.out
	if c.JSON == "-" { // standard output holds the JSON object and nothing else
		out = std.err
	}
	rate := c.rate()
	return demo.Config{
		Executable:     executable,
		Program:        os.Args[0],
		Mint:           mintUser,
		Regions:        c.Regions,
		NodesPerRegion: c.Nodes,
		FrontPort:      c.Port,
		RTT:            c.RTT,
		Postgres:       postgres.Options{URL: c.PostgresURL, BinDir: c.PostgresBin, DataDir: c.Data, InstallPackages: c.InstallPackages},
		Duration:       c.Duration,
		Rate:           rate,
		Quiet:          rate == 0 && !c.Headless,
		Clients:        c.Clients,
		Seed:           c.seed(),
		Welcome:        !c.Headless,
		Live:           !c.Headless && isTerminal(out),
		Out:            out,
		Progress:       std.err,
	}, nil
}

func (c *demoCmd) rate() float64 {
	switch {
	case c.Rate != nil:
		return *c.Rate
	case c.Headless:
		return 0
	default:
		return defaultRate
	}
}

func (c *demoCmd) seed() uint64 {
	if c.Seed != nil {
		return *c.Seed
	}
	return uint64(rand.Uint32()) //nolint:gosec // no secret; short enough to be typed again
}

// untilBroken asks for the end when nobody reads what is written.
type untilBroken struct {
	io.Writer
	cancel context.CancelFunc
}

func (u untilBroken) Write(p []byte) (int, error) {
	n, err := u.Writer.Write(p)
	if err != nil {
		u.cancel()
	}
	return n, err
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// openReport opens where the result is written as JSON, before anything is
// started: a file, standard output, or nothing.
func (c *demoCmd) openReport(std streams) (io.WriteCloser, error) {
	switch c.JSON {
	case "":
		return unclosed{io.Discard}, nil
	case "-":
		return unclosed{std.out}, nil
	}
	file, err := os.Create(c.JSON)
	if err != nil {
		return nil, usage(wrongf("json", "%w: name a file that this user can write", pathError(c.JSON, err)))
	}
	return file, nil
}

// unclosed is a writer that belongs to somebody else.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// write writes the result as JSON where that was asked for, and for people
// unless the JSON is all that standard output may hold.
func (c *demoCmd) write(std streams, report io.WriteCloser, result demo.Result) error {
	if err := errors.Join(printJSON(report, result), report.Close()); err != nil {
		return wrongf("json", "%w", err)
	}
	if c.JSON == "-" {
		return nil
	}
	return result.Print(std.out)
}
