// Package process runs a child process that cannot outlive its parent.
//
// A child gets a process group of its own, so a Ctrl-C in the terminal reaches
// the parent alone, which then orders the shutdown. On Linux the kernel also
// signals the child when its parent dies, however that happens. Elsewhere a
// child of a parent that was killed must be ended by hand.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	// Path is the executable; it is not looked up in PATH.
	Path string
	// Args come after the executable's name.
	Args []string
	// Env is the whole environment of the child.
	Env []string
	// Dir is the working directory; empty means "/".
	Dir string
	// Output gets standard output and standard error. The parent may close it
	// as soon as Start has returned. Nil discards.
	Output *os.File
	// User, if not nil, is the account to run as. Only root can choose one.
	User *syscall.Credential
	// OrphanSignal is what the child gets when its parent dies; 0 means
	// SIGKILL. Linux only.
	OrphanSignal syscall.Signal
}

// Process is a started child. Its methods are safe for concurrent use.
type Process struct {
	pid  int
	os   *os.Process
	done chan struct{}
	err  error // written before done is closed
}

// Start starts the child and reaps it when it ends.
func Start(spec Spec) (*Process, error) {
	cmd := &exec.Cmd{
		Path:        spec.Path,
		Args:        append([]string{spec.Path}, spec.Args...),
		Env:         spec.Env,
		Dir:         spec.Dir,
		SysProcAttr: attributes(spec),
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if spec.Output != nil {
		cmd.Stdout, cmd.Stderr = spec.Output, spec.Output
	}
	p := &Process{done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(cmd, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Path, err)
	}
	return p, nil
}

// run starts cmd and waits for it on one locked thread: the kernel ties the
// orphan signal to the thread that forked, not to the process, and Go could
// otherwise end that thread early.
func (p *Process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid, p.os = cmd.Process.Pid, cmd.Process
	started <- nil
	p.err = cmd.Wait()
	close(p.done)
}

// Pid returns the child's process id.
func (p *Process) Pid() int { return p.pid }

// Done is closed once the child has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the child ended: nil for exit status 0. It is nil while the
// child runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Signal sends sig to the child. A child that has already ended gives
// os.ErrProcessDone.
func (p *Process) Signal(sig os.Signal) error {
	return p.os.Signal(sig)
}

// Kill ends the child and everything left in its process group at once, and
// waits until it was reaped. It is safe to call on a child that has ended.
func (p *Process) Kill() {
	select {
	case <-p.done:
		return
	default:
	}
	// The group's id is the child's pid, which cannot be taken by another
	// process before the child is reaped.
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	<-p.done
}

// errGraceOver is the cause of a stop that had to kill.
var errGraceOver = errors.New("did not stop in time and was killed")

// Stop asks the child to end with sig, and kills it when it has not ended
// after grace or when ctx ends. It returns after the child was reaped: nil if
// it ended by itself with status 0 or by that very signal.
func (p *Process) Stop(ctx context.Context, sig syscall.Signal, grace time.Duration) error {
	if err := p.Signal(sig); errors.Is(err, os.ErrProcessDone) {
		<-p.done
		return p.err
	}
	// A stopped (SIGSTOP) child would not see sig before it is continued.
	_ = p.Signal(syscall.SIGCONT)

	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.exitBy(sig)
	case <-timer.C:
	case <-ctx.Done():
	}
	p.Kill()
	return fmt.Errorf("process %d: %w", p.pid, errGraceOver)
}

func (p *Process) exitBy(sig syscall.Signal) error {
	exit, ok := errors.AsType[*exec.ExitError](p.err)
	if !ok {
		return p.err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == sig {
		return nil
	}
	return p.err
}
