package pgproxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgproto3"
)

// session is one client's connection and the server's side of it. One
// goroutine carries each direction.
type session struct {
	proxy          *Proxy
	client, server net.Conn
	sql            *statements // the upstream goroutine's

	backend atomic.Uint32 // the process that serves this session
	// silent means that nothing passes between client and server any more.
	silent atomic.Bool
	// awaiting means that the server's next answer settles a COMMIT.
	awaiting atomic.Bool
	answer   chan Outcome // what the server answered; holds one
}

func newSession(p *Proxy, client, server net.Conn) *session {
	return &session{
		proxy:  p,
		client: client,
		server: server,
		sql:    newStatements(),
		answer: make(chan Outcome, 1),
	}
}

// run returns when both connections are closed and both directions have ended.
func (s *session) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	serverGone := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		s.upstream(ctx, serverGone)
		s.hangUp(ctx)
	})
	both.Go(func() {
		s.downstream(ctx)
		close(serverGone)
		s.hangUp(ctx)
	})
	both.Wait()
}

// hangUp closes both connections. A dark link delays even that.
func (s *session) hangUp(ctx context.Context) {
	_ = s.proxy.pass(ctx)
	_ = s.client.Close()
	_ = s.server.Close()
}

// upstream carries flushes from the client to the server until one of them is
// gone.
func (s *session) upstream(ctx context.Context, serverGone <-chan struct{}) {
	r := bufio.NewReader(s.client)
	for {
		flush, gone := readFlush(r)
		if err := s.proxy.pass(ctx); err != nil {
			return
		}
		if !s.silent.Load() {
			if err := s.forward(ctx, flush, serverGone); err != nil {
				return
			}
		}
		if gone != nil {
			return
		}
	}
}

// forward gives the server a flush, unless a fault waits for a COMMIT in it.
func (s *session) forward(ctx context.Context, flush []frame, serverGone <-chan struct{}) error {
	commits, err := s.sql.commits(flush)
	if err != nil {
		return err
	}
	for _, at := range commits {
		if a := s.proxy.strike(CommitSent); a != nil {
			return s.breakCommit(ctx, a, flush, at, serverGone)
		}
	}
	return s.send(flush)
}

func (s *session) send(frames []frame) error {
	if _, err := s.server.Write(join(frames)); err != nil {
		return fmt.Errorf("writing to the server: %w", err)
	}
	return nil
}

// breakCommit applies a fault to the COMMIT that starts at flush[at].
func (s *session) breakCommit(ctx context.Context, a *Armed, flush []frame, at int, serverGone <-chan struct{}) error {
	if a.fault.Commit == FlushLate {
		at = 0
	}
	s.awaiting.Store(true)
	if err := s.send(flush[:at]); err != nil {
		a.settle(NotCommitted)
		a.hold()
		return err
	}
	if a.fault.Commit == CommitLost {
		_ = s.server.Close()
		s.cut(a)
		a.settle(NotCommitted)
		a.hold()
		return nil
	}
	s.cut(a)
	a.hold()
	a.settle(s.commitLate(ctx, a, flush[at:], serverGone))
	return nil
}

// commitLate gives the server the rest of a flush when the fault ends, and
// returns what it made of the COMMIT in it.
func (s *session) commitLate(ctx context.Context, a *Armed, rest []frame, serverGone <-chan struct{}) Outcome {
	if a.awaitHeal(ctx) != nil {
		return NotCommitted
	}
	// A server that has given up meanwhile has said so: its answer counts.
	_ = s.send(rest)
	select {
	case <-serverGone:
	case o := <-s.answer:
		return o
	}
	select {
	case o := <-s.answer:
		return o
	default:
		return Unknown
	}
}

// cut does to the client what the fault says.
func (s *session) cut(a *Armed) {
	s.proxy.cutOffBackend(s.backend.Load())
	s.silent.Store(true)
	if a.fault.Client == Broken {
		_ = s.client.Close()
	}
}

// downstream carries messages from the server to the client until one of them
// is gone. It writes when the server pauses.
func (s *session) downstream(ctx context.Context) {
	r := bufio.NewReader(s.server)
	var out []byte
	for {
		f, err := readFrame(r)
		if err != nil {
			_ = s.deliver(ctx, out)
			return
		}
		struck := s.observe(f)
		if struck != nil && struck.fault.When == CommitAnswered {
			_ = s.deliver(ctx, out) // the answers before the COMMIT's
			s.dropReply(struck)
			continue
		}
		out = append(out, f...)
		switch {
		case struck != nil: // the link is dark behind this answer
			_, err = s.client.Write(out)
			struck.hold()
		case r.Buffered() == 0:
			err = s.deliver(ctx, out)
		default:
			continue
		}
		if err != nil {
			return
		}
		out = out[:0]
	}
}

// deliver gives the client what the server said, when the link lets it pass.
// A client that a fault has cut hears nothing, and that is no error.
func (s *session) deliver(ctx context.Context, out []byte) error {
	if err := s.proxy.pass(ctx); err != nil {
		return err
	}
	if len(out) == 0 || s.silent.Load() {
		return nil
	}
	if _, err := s.client.Write(out); err != nil && !s.silent.Load() {
		return fmt.Errorf("writing to the client: %w", err)
	}
	return nil
}

// dropReply keeps the server's answer to the COMMIT from the client.
func (s *session) dropReply(a *Armed) {
	s.cut(a)
	a.settle(Committed)
	a.hold()
}

// observe looks at one answer of the server, and returns the fault that waits
// for it.
func (s *session) observe(f frame) *Armed {
	switch f.kind() {
	case msgBackendKeyData:
		var m pgproto3.BackendKeyData
		if m.Decode(f.body()) == nil {
			s.backend.Store(m.ProcessID)
		}
	case msgCommandComplete:
		return s.observeCommand(f)
	case msgErrorResponse:
		s.settleAwaited(NotCommitted)
	case msgReadyForQuery:
		var m pgproto3.ReadyForQuery
		if m.Decode(f.body()) == nil && m.TxStatus == 'T' {
			return s.proxy.strike(BetweenRoundTrips)
		}
	}
	return nil
}

func (s *session) observeCommand(f frame) *Armed {
	var m pgproto3.CommandComplete
	if m.Decode(f.body()) != nil {
		return nil
	}
	switch string(m.CommandTag) {
	case "COMMIT":
		s.settleAwaited(Committed)
		return s.proxy.strike(CommitAnswered)
	case "ROLLBACK": // what a failed transaction's COMMIT says
		s.settleAwaited(NotCommitted)
	}
	return nil
}

// settleAwaited passes on the first answer that settles a held COMMIT.
func (s *session) settleAwaited(o Outcome) {
	if s.awaiting.CompareAndSwap(true, false) {
		s.answer <- o
	}
}
