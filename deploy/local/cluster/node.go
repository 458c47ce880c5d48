package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"likewise/deploy/local/process"
)

// Node is one node, whether it runs or not. Its methods are safe for
// concurrent use; its addresses stay the same over restarts.
type Node struct {
	name, region        string
	front, peer, gossip string
	logFile             string
	binary              string
	args, env           []string
	startIn, stopIn     time.Duration
	health              *http.Client

	mu    sync.Mutex                      // held while the node is started or terminated
	child atomic.Pointer[process.Process] // the last run; not nil once Start has returned
}

// Name returns the node's name, such as "eu-1".
func (n *Node) Name() string { return n.name }

// Region returns the region that the node is in.
func (n *Node) Region() string { return n.region }

// Addr returns the host:port of the node's front door.
func (n *Node) Addr() string { return n.front }

// PeerAddr returns the host:port at which other nodes call it.
func (n *Node) PeerAddr() string { return n.peer }

// LogTail returns the end of the node's log, which holds all of its runs.
func (n *Node) LogTail() string { return process.Tail(n.logFile) }

// Pid returns the process id of the node's last run.
func (n *Node) Pid() int { return n.child.Load().Pid() }

// Done is closed when the run of the node that goes on now has ended.
func (n *Node) Done() <-chan struct{} { return n.child.Load().Done() }

// Signal sends a signal, such as SIGSTOP and SIGCONT to pause and go on. A
// node that does not run gives os.ErrProcessDone.
func (n *Node) Signal(sig os.Signal) error { return n.child.Load().Signal(sig) }

// Kill ends the node at once, as a crash would, and waits for its end.
func (n *Node) Kill() { n.child.Load().Kill() }

// Terminate has the node drain and end. One that takes longer than
// Config.StopTimeout, or than ctx, is killed, and the error says so. A node
// that has ended already is no error, however it did.
func (n *Node) Terminate(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.terminate(ctx)
}

// Restart terminates the node if it runs, starts it again under its name and
// addresses, and returns once it serves.
func (n *Node) Restart(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.terminate(ctx); err != nil {
		return err
	}
	return n.start(ctx)
}

func (n *Node) terminate(ctx context.Context) error {
	child := n.child.Load()
	if child == nil || ended(child) {
		return nil
	}
	if err := child.Stop(ctx, syscall.SIGTERM, n.stopIn); err != nil {
		return fmt.Errorf("stopping node %s: %w\n%s", n.name, err, n.LogTail())
	}
	return nil
}

// start runs the node and waits until it serves. A node that does not is
// killed. The caller holds mu.
func (n *Node) start(ctx context.Context) error {
	log, err := os.OpenFile(n.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of node %s: %w", n.name, err)
	}
	defer log.Close()
	child, err := process.Start(process.Spec{Path: n.binary, Args: n.args, Env: n.env, Output: log})
	if err != nil {
		return fmt.Errorf("node %s: %w", n.name, err)
	}
	n.child.Store(child)
	ctx, cancel := context.WithTimeoutCause(ctx, n.startIn, errNotServing)
	defer cancel()
	if err := n.awaitServing(ctx, child); err != nil {
		child.Kill()
		return fmt.Errorf("starting node %s: %w\n%s", n.name, err, n.LogTail())
	}
	return nil
}

var (
	errNotServing = errors.New("did not serve in time")
	errEnded      = errors.New("ended before it served")
)

func (n *Node) awaitServing(ctx context.Context, child *process.Process) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-child.Done():
			return fmt.Errorf("%w: %w", errEnded, child.Err())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		// A stranger may have taken the port: then the node has ended.
		if n.serves(ctx) && !ended(child) {
			return nil
		}
	}
}

func ended(child *process.Process) bool {
	select {
	case <-child.Done():
		return true
	default:
		return false
	}
}

// serves asks the node's front door.
func (n *Node) serves(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.front+"/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := n.health.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// lostPort reports whether somebody else listens where the node should.
func (n *Node) lostPort(ctx context.Context) bool {
	for _, addr := range []string{n.front, n.peer, n.gossip} {
		if !isFree(ctx, addr) {
			return true
		}
	}
	return false
}

// newHealthClient returns a client that keeps nothing open between two asks.
func newHealthClient() *http.Client {
	return &http.Client{
		Timeout:   time.Second,
		Transport: &http.Transport{DisableKeepAlives: true},
	}
}
