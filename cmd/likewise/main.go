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
	whole, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // the root
	onBrokenPipe(cancel)
	ctx, stop := signal.NotifyContext(whole, os.Interrupt, syscall.SIGTERM)
	// The first signal asks; after it signals have their usual effect again, so
	// that the second one ends the process at once.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], streams{out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

// onBrokenPipe asks for the end when nobody reads the output any more, where the
// process would otherwise die at once and leave behind what it had started.
func onBrokenPipe(cancel context.CancelFunc) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	go func() {
		<-broken
		cancel()
	}()
}
