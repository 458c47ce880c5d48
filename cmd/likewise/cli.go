package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

const description = `Likes and dislikes as states, in several regions, with counts that can be proven.

Try it: "likewise demo" starts three regions on this machine. While it runs:

  likewise set cat LIKE --as alice --region eu
  likewise counts cat --region ap
  likewise verify --all

Every flag can also be given in the environment, and in a YAML file by --config: at its top level, or below a command's name for that command alone. A flag wins over the environment, and the environment over the file.

Exit status: 0 it worked; 1 a check found a difference, or a request was refused; 2 wrong usage; 3 something could not be reached, started or kept up.`

// cli is the command line. Each command's fields are its flags, and its Run
// wires them to what does the work.
type cli struct {
	Config string `placeholder:"FILE" type:"path" help:"YAML file with values of flags."`

	Serve   serveCmd   `cmd:"" group:"node" help:"Run a node."`
	Migrate migrateCmd `cmd:"" group:"node" help:"Prepare a database, or bring it up to date."`
	Version versionCmd `cmd:"" group:"node" help:"Say which version this is."`

	Demo demoCmd `cmd:"" group:"try" help:"Run three regions on this machine, with a real database."`

	Set    setCmd    `cmd:"" group:"use" help:"Set a user's reaction to a video."`
	Get    getCmd    `cmd:"" group:"use" help:"Read a user's reaction to a video."`
	Counts countsCmd `cmd:"" group:"use" help:"Read the counts of videos."`
	Video  videoCmd  `cmd:"" group:"use" help:"Decide whether a video takes reactions."`
	Verify verifyCmd `cmd:"" group:"use" help:"Compare shown, stored and recounted counts."`
	Token  tokenCmd  `cmd:"" group:"use" help:"Mint a token, where the development secret is in use."`
}

// streams are where a command writes: its result, and what it says beside it.
type streams struct{ out, err io.Writer }

// The exit status. A status other than 0 has a message on standard error.
const (
	statusOK     = 0
	statusNo     = 1 // a check found a difference, or a request was refused
	statusUsage  = 2
	statusCannot = 3 // something could not be reached, started or kept up
)

// statusError gives an error an exit status other than statusCannot.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func usageErrorf(format string, args ...any) error {
	return &statusError{statusUsage, fmt.Errorf(format, args...)}
}

// usage gives an error the exit status of wrong usage.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{statusUsage, err}
}

func statusOf(err error) int {
	if err == nil {
		return statusOK
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.status
	}
	return statusCannot
}

// run runs one command line and returns its exit status.
func run(ctx context.Context, args []string, std streams) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	line, err := newCommandLine(ctx, std)
	if err == nil {
		err = line.parse(args)
	}
	switch {
	case err != nil:
		return report(std, line, err)
	case line.wantsHelp():
		return report(std, line, line.parsed.PrintUsage(false))
	default:
		return report(std, line, line.parsed.Run())
	}
}

func newParser(ctx context.Context, grammar *cli, std streams) (*kong.Kong, error) {
	return kong.New(grammar,
		kong.Name("likewise"),
		kong.Description(description),
		kong.ExplicitGroups([]kong.Group{
			// Of commands.
			{Key: "try", Title: "Try it:"},
			{Key: "use", Title: "Use it:"},
			{Key: "node", Title: "Run it:"},
			// Of flags.
			{Key: "self", Title: "This node:"},
			{Key: "http", Title: "How users reach it:"},
			{Key: "auth", Title: "Who may call:"},
			{Key: "cluster", Title: "Other nodes:"},
			{Key: "limits", Title: "Limits:"},
			{Key: "counts", Title: "Cache of counts:"},
			{Key: "stage", Title: "Regions:"},
			{Key: "database", Title: "Database:"},
			{Key: "traffic", Title: "Traffic:"},
		}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.DefaultEnvars("LIKEWISE"),
		kong.Writers(std.out, std.err),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
	)
}

// report says an error in one line on standard error, and returns the status.
func report(std streams, line *commandLine, err error) int {
	status := statusOf(err)
	if err == nil {
		return status
	}
	text := line.text(err)
	if status == statusUsage {
		text += fmt.Sprintf("; see %q", line.helpCommand())
	}
	fmt.Fprintf(std.err, "likewise: %s\n", text)
	return status
}
