package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"likewise/cmd/likewise/internal/audit"
	"likewise/cmd/likewise/internal/demo"
	"likewise/regions"
	"likewise/storage"
)

type verifyCmd struct {
	Videos []string `arg:"" optional:"" help:"Ids of videos."`

	All         bool     `help:"Every video with a reaction or a count."`
	DatabaseURL string   `placeholder:"URL" help:"The writer's database. Default: that of the running demo."`
	Addr        []string `placeholder:"ADDR" help:"Nodes whose shown counts are compared: host:port, or https://host:port. Default: all nodes of the running demo."`
	CA          string   `name:"ca" placeholder:"FILE" type:"path" help:"PEM certificates of the CA that signed https:// nodes'. Default: those that this machine trusts."`
	Token       string   `placeholder:"JWT" help:"A bearer token, where counts are private."`
	JSON        bool     `name:"json" help:"Print one JSON object: how many were checked, differ and were changing, and the videos themselves; with --all, those that differ."`
}

func (*verifyCmd) Help() string {
	return `Compares what each node shows, what the counter shards add up to, and what a recount of the reactions gives. Shown counts are asked for past the nodes' caches. Stored and recounted ones are of one moment. Under traffic a video is looked at again until nothing changed in between; one that changes all the time is reported as changing, and only its stored count is compared.

With --all only differences are listed. Exit status 1 if there is any.

Examples, while a demo runs:
  likewise verify cat
  likewise verify --all`
}

// check implements checker.
func (c *verifyCmd) check() error {
	var errs []error
	if c.All == (len(c.Videos) > 0) {
		errs = append(errs, wrongf("all", "name videos, or give --all for every one, and not both"))
	}
	for _, addr := range c.Addr {
		_, err := baseURL(addr)
		errs = append(errs, err)
	}
	return gather(append(errs, checkCA(c.CA, c.Addr...), checkDatabase("database-url", c.DatabaseURL))...)
}

func (c *verifyCmd) Run(ctx context.Context, std streams) error {
	doors, url, err := c.target()
	if err != nil {
		return err
	}
	transport, err := newTransport(c.CA)
	if err != nil {
		return err
	}
	transport.MaxIdleConnsPerHost = audit.Parallel
	defer transport.CloseIdleConnections()
	store, err := storage.Open(ctx, storage.Config{URL: url})
	if err != nil {
		return explainDatabase("database-url", err)
	}
	defer store.Close()
	auditor := audit.New(store, doors, &http.Client{Transport: transport}, c.tokenOrMinted())
	report, err := c.audit(ctx, auditor, std)
	if err != nil {
		return explainDatabase("database-url", err)
	}
	if err := c.print(std.out, report); err != nil {
		return err
	}
	if n := report.Differences(); n > 0 {
		return &statusError{statusNo, fmt.Errorf("%d of %d videos differ", n, report.Checked)}
	}
	return nil
}

// target says which nodes and which database to compare.
func (c *verifyCmd) target() ([]audit.Door, string, error) {
	if c.DatabaseURL != "" && len(c.Addr) > 0 {
		doors, err := doorsAt(c.Addr)
		return doors, c.DatabaseURL, err
	}
	if c.DatabaseURL != "" || len(c.Addr) > 0 { // the other one would be the demo's, and that of another service
		return nil, "", usage(disagreef([]string{"addr", "database-url"}, "need each other: give the nodes and their database, or neither for the running demo"))
	}
	state, err := demo.ReadState()
	if err != nil {
		return nil, "", fmt.Errorf("%w; without a demo, verify needs both --addr and --database-url", err)
	}
	return state.Doors(), state.DatabaseURL, nil
}

func doorsAt(addrs []string) ([]audit.Door, error) {
	var doors []audit.Door
	for _, addr := range addrs {
		base, err := baseURL(addr)
		if err != nil {
			return nil, usage(err)
		}
		doors = append(doors, audit.Door{Name: addr, URL: base})
	}
	return doors, nil
}

// tokenOrMinted lets a demo's counts be read even where they are private.
func (c *verifyCmd) tokenOrMinted() string {
	if c.Token != "" || !demoRuns() {
		return c.Token
	}
	token, err := mint("token", regions.Claims{Scopes: []string{regions.ScopeService}}, time.Hour)
	if err != nil {
		return ""
	}
	return token
}

func (c *verifyCmd) audit(ctx context.Context, auditor *audit.Auditor, std streams) (audit.Report, error) {
	if c.All {
		return auditor.All(ctx, func(checked int) { fmt.Fprintf(std.err, "%d videos checked\n", checked) })
	}
	var videos []storage.VideoID
	for _, video := range c.Videos {
		videos = append(videos, storage.VideoID(video))
	}
	return auditor.Videos(ctx, videos)
}

func (c *verifyCmd) print(w io.Writer, report audit.Report) error {
	rows := report.Rows
	if c.All {
		rows = report.Wrong()
	}
	if c.JSON {
		return printJSON(w, map[string]any{
			"checked": report.Checked, "differ": report.Differences(), "changing": report.Changing(), "videos": rows,
		})
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(rows) > 0 {
		fmt.Fprintln(table, "\tlikes:\tshown\tstored\trecount\tdislikes:\tshown\tstored\trecount\t\t")
	}
	for _, row := range rows {
		if row.Deleted && len(row.Shown) == 0 {
			fmt.Fprintf(table, "%s, deleted\t\t-\t%d\t%d\t\t-\t%d\t%d\t%s\t\n", row.Video,
				row.Stored.Likes, row.Recount.Likes, row.Stored.Dislikes, row.Recount.Dislikes, storedVerdict(row))
		}
		for _, shown := range row.Shown {
			fmt.Fprintf(table, "%s in %s\t\t%d\t%d\t%d\t\t%d\t%d\t%d\t%s\t\n", row.Video, shown.Door,
				shown.Likes, row.Stored.Likes, row.Recount.Likes,
				shown.Dislikes, row.Stored.Dislikes, row.Recount.Dislikes, verdict(row, shown))
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	fmt.Fprintf(w, "%d videos checked, %d differ", report.Checked, report.Differences())
	if n := report.Changing(); n > 0 {
		fmt.Fprintf(w, "; %d changed too fast to compare what is shown", n)
	}
	fmt.Fprintln(w)
	return nil
}

func storedVerdict(row audit.Row) string {
	if row.Stored == row.Recount {
		return "equal"
	}
	return "DIFFERS"
}

func verdict(row audit.Row, shown audit.Shown) string {
	switch {
	case row.Right(shown):
		return "equal"
	case row.Changing && row.Stored == row.Recount:
		return "changing"
	default:
		return "DIFFERS"
	}
}
