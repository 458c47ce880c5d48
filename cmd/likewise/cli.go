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
	Config kong.ConfigFlag `placeholder:"FILE" help:"YAML file with values of flags."`

	Serve   serveCmd   `cmd:"" group:"node" help:"Run a node."`
	Migrate migrateCmd `cmd:"" group:"node" help:"Prepare a database, or bring it up to date."`
	Version versionCmd `cmd:"" group:"node" help:"Say which version this is."`

	Demo demoCmd `cmd:"" group:"try" help:"Run three regions on this machine, with a real database."`

	Set    setCmd    `cmd:"" group:"use" help:"Set a user's reaction to a video."`
	Get    getCmd    `cmd:"" group:"use" help:"Read a user's reaction to a video."`
	Counts countsCmd `cmd:"" group:"use" help:"Read a video's counts."`
	Verify verifyCmd `cmd:"" group:"use" help:"Compare shown, stored and recounted counts."`
	Token  tokenCmd  `cmd:"" group:"use" help:"Mint a user's token, where the development secret is in use."`
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

func statusOf(err error) int {
	if err == nil {
		return statusOK
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.status
	}
	if _, ok := errors.AsType[*kong.ParseError](err); ok {
		return statusUsage
	}
	return statusCannot
}

// run runs one command line and returns its exit status.
func run(ctx context.Context, args []string, std streams) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	helped := false
	parser, err := newParser(ctx, std, func(int) { helped = true })
	if err != nil {
		return report(std, err)
	}
	command, err := parser.Parse(args)
	if helped { // kong goes on parsing after it has printed the help
		return statusOK
	}
	if err == nil {
		err = command.Run()
	}
	return report(std, err)
}

func newParser(ctx context.Context, std streams, exit func(int)) (*kong.Kong, error) {
	return kong.New(&cli{},
		kong.Name("likewise"),
		kong.Description(description),
		kong.ExplicitGroups([]kong.Group{
			// Of commands.
			{Key: "try", Title: "Try it:"},
			{Key: "use", Title: "Use it:"},
			{Key: "node", Title: "Run it:"},
			// Of flags.
			{Key: "self", Title: "This node:"},
			{Key: "auth", Title: "Who may call:"},
			{Key: "cluster", Title: "Other nodes:"},
			{Key: "limits", Title: "Limits:"},
			{Key: "counts", Title: "Cache of counts:"},
			{Key: "stage", Title: "Regions:"},
			{Key: "database", Title: "Database:"},
			{Key: "traffic", Title: "Traffic:"},
		}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.Configuration(loadConfig),
		kong.DefaultEnvars("LIKEWISE"),
		kong.Writers(std.out, std.err),
		kong.Exit(exit),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
	)
}

func report(std streams, err error) int {
	if err != nil {
		fmt.Fprintf(std.err, "likewise: %v\n", err)
		if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil {
			fmt.Fprintf(std.err, "Run %q for the flags.\n", helpFor(parse.Context))
		}
	}
	return statusOf(err)
}

func helpFor(command *kong.Context) string {
	if selected := command.Selected(); selected != nil {
		return selected.FullPath() + " --help"
	}
	return command.Model.Name + " --help"
}
