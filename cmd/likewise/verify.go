package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"likewise/cmd/likewise/internal/audit"
	"likewise/cmd/likewise/internal/demo"
	"likewise/storage"
)

type verifyCmd struct {
	Videos []string `arg:"" optional:"" help:"Ids of videos."`

	All         bool     `help:"Every video with a reaction or a count."`
	DatabaseURL string   `placeholder:"URL" help:"The writer's database. Default: that of the running demo."`
	Addr        []string `placeholder:"ADDR" help:"host:port of the nodes whose shown counts are compared. Default: all nodes of the running demo."`
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

// Validate is called by kong.
func (c *verifyCmd) Validate() error {
	if c.All == (len(c.Videos) > 0) {
		return errors.New("name videos, or give --all for every one")
	}
	return nil
}

func (c *verifyCmd) Run(ctx context.Context, std streams) error {
	doors, url, err := c.target()
	if err != nil {
		return err
	}
	store, err := storage.Open(ctx, storage.Config{URL: url})
	if err != nil {
		return err
	}
	defer store.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: audit.Parallel}
	defer transport.CloseIdleConnections()

	auditor := audit.New(store, doors, &http.Client{Transport: transport}, c.tokenOrMinted())
	report, err := c.check(ctx, auditor, std)
	if err != nil {
		return err
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
		return doorsAt(c.Addr), c.DatabaseURL, nil
	}
	state, err := demo.ReadState()
	if err != nil {
		return nil, "", fmt.Errorf("%w; without a demo, verify needs both --addr and --database-url", err)
	}
	doors := doorsAt(c.Addr)
	if len(doors) == 0 {
		doors = state.Doors()
	}
	return doors, orElse(c.DatabaseURL, state.DatabaseURL), nil
}

func doorsAt(addrs []string) []audit.Door {
	var doors []audit.Door
	for _, addr := range addrs {
		doors = append(doors, audit.Door{Name: addr, Addr: addr})
	}
	return doors
}

// tokenOrMinted lets a demo's counts be read even where they are private.
func (c *verifyCmd) tokenOrMinted() string {
	if c.Token != "" || !demoRuns() {
		return c.Token
	}
	token, err := mintToken("verify", time.Hour)
	if err != nil {
		return ""
	}
	return token
}

func (c *verifyCmd) check(ctx context.Context, auditor *audit.Auditor, std streams) (audit.Report, error) {
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
