// Command likewise is the one binary of Likewise: a node, the tools around it,
// and a demo of three regions on one machine.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A write to an output that nobody reads is an error and not the end: what was
	// started must be stopped.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) //nolint:forbidigo // the root
	// The first signal asks; after it signals have their usual effect again, so
	// that the second one ends the process at once.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], streams{out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}
