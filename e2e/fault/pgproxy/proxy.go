package pgproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// dialTimeout bounds the connection to the server, which is on this machine.
const dialTimeout = 5 * time.Second

var (
	errClosed = errors.New("proxy is closed")
	errNoHost = errors.New("database URL has no host: give one, the proxy needs TCP")
)

// Proxy passes connections to one PostgreSQL server until it is closed. It is
// safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	stop     context.CancelCauseFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	closed  bool                  // guarded by mu
	conns   map[net.Conn]struct{} // guarded by mu; both sides of every session
	waiting []*Armed              // guarded by mu; faults whose moment is to come
	links   []*Armed              // guarded by mu; faults of the link in force
	cutOff  map[uint32]struct{}   // guarded by mu; backends whose client a fault has cut
}

// New listens on a free port of the loopback interface and passes what comes
// to target ("host:port"). The proxy lives until Close; ctx bounds the start
// only.
func New(ctx context.Context, target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("target %q must be host:port: %w", target, err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for PostgreSQL clients: %w", err)
	}
	life, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	p := &Proxy{
		target: target, listener: listener, stop: stop,
		conns: map[net.Conn]struct{}{}, cutOff: map[uint32]struct{}{},
	}
	p.running.Go(func() { p.accept(life) })
	return p, nil
}

// Target returns the "host:port" of a database URL, for New.
func Target(databaseURL string) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", fmt.Errorf("parsing the database's URL: %w", err)
	}
	if u.Hostname() == "" {
		return "", errNoHost
	}
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// Addr returns the "host:port" that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns a database URL with the proxy in the place of its host. It must
// be one that [Target] takes.
func (p *Proxy) URL(databaseURL string) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", fmt.Errorf("parsing the database's URL: %w", err)
	}
	u.Host = p.Addr()
	return u.String(), nil
}

// Arm puts a fault in wait for its moment. Of several faults that wait for the
// same moment, the first armed takes it.
func (p *Proxy) Arm(f Fault) *Armed {
	a := newArmed(f)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case f.When != Now:
		p.waiting = append(p.waiting, a)
	case f.Link == Dark:
		p.links = append(p.links, a)
		a.hold()
	default:
		p.links = append(p.links, a)
	}
	return a
}

// ResetAll resets every connection that is open, on both sides, before it
// returns.
func (p *Proxy) ResetAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		reset(conn)
	}
}

// Close ends all connections and returns when nothing of the proxy is left.
// What a fault holds back is never delivered.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.stop(errClosed)
	err := p.listener.Close()
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed: a loopback listener has no other end
		}
		if p.refuses() {
			reset(conn)
			continue
		}
		p.running.Go(func() { p.serve(ctx, conn) })
	}
}

// serve carries one connection from its start to its end.
func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	if !p.track(client) {
		return
	}
	defer p.untrack(client)
	if p.pass(ctx) != nil {
		return
	}
	start, err := greet(client)
	if err != nil {
		return
	}
	request, cancel := start.(*pgproto3.CancelRequest)
	if cancel && p.isCutOff(request.ProcessID) {
		return // the link that carried the client's session is the one that broke
	}
	server, err := p.dial(ctx, start)
	if err != nil {
		return
	}
	if !p.track(server) {
		return
	}
	defer p.untrack(server)
	if cancel {
		// The server hangs up when it has sent the signal; the client waits for
		// that.
		_ = server.SetReadDeadline(time.Now().Add(dialTimeout))
		_, _ = io.Copy(io.Discard, server)
		return
	}
	newSession(p, client, server).run(ctx)
}

// greet declines encryption and returns the message that opens the session.
func greet(client net.Conn) (pgproto3.FrontendMessage, error) {
	// The client sends nothing beyond this message before it is answered, so
	// the decoder's buffer holds nothing back.
	decoder := pgproto3.NewBackend(client, client)
	for {
		msg, err := decoder.ReceiveStartupMessage()
		if err != nil {
			return nil, fmt.Errorf("reading the startup message: %w", err)
		}
		switch msg.(type) {
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := client.Write([]byte{'N'}); err != nil {
				return nil, fmt.Errorf("declining encryption: %w", err)
			}
		default:
			return msg, nil
		}
	}
}

// dial connects to the server and sends it the startup message.
func (p *Proxy) dial(ctx context.Context, start pgproto3.FrontendMessage) (net.Conn, error) {
	opening, err := start.Encode(nil)
	if err != nil {
		return nil, fmt.Errorf("encoding the startup message: %w", err)
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(ctx, "tcp", p.target)
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	if _, err := server.Write(opening); err != nil {
		_ = server.Close()
		return nil, fmt.Errorf("sending the startup message: %w", err)
	}
	return server, nil
}

// strike returns the fault whose moment this is, or nil. It is in force from
// here on.
func (p *Proxy) strike(moment Moment) *Armed {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = slices.DeleteFunc(p.waiting, (*Armed).isHealed)
	var struck *Armed
	for _, a := range p.waiting {
		if a.fault.When != moment {
			continue
		}
		a.left--
		if a.left <= 0 && struck == nil {
			struck = a
		}
	}
	if struck == nil {
		return nil
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(a *Armed) bool { return a == struck })
	if struck.fault.Link != Clear {
		p.links = append(p.links, struck)
	}
	return struck
}

// pass returns when the link lets something through.
func (p *Proxy) pass(ctx context.Context) error {
	for _, a := range p.inForce() {
		switch a.fault.Link {
		case Dark:
			select {
			case <-a.healed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case Slow:
			a.hold()
			if err := pause(ctx, a.fault.After, a.healed); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// pause returns after d, or when cut is closed, or with an error when ctx ends.
func pause(ctx context.Context, d time.Duration, cut <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-cut:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *Proxy) refuses() bool {
	var refused bool
	for _, a := range p.inForce() {
		if a.fault.Link == Refusing {
			a.hold()
			refused = true
		}
	}
	return refused
}

// inForce returns the faults of the link that are not over.
func (p *Proxy) inForce() []*Armed {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links = slices.DeleteFunc(p.links, (*Armed).isHealed)
	return slices.Clone(p.links)
}

// track makes Close and ResetAll reach conn. If the proxy is closed it closes
// conn and reports false.
func (p *Proxy) track(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *Proxy) untrack(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// cutOffBackend keeps cancel requests from a backend: a client that has lost its link
// must not undo what the fault holds back.
func (p *Proxy) cutOffBackend(pid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutOff[pid] = struct{}{}
}

func (p *Proxy) isCutOff(pid uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, cut := p.cutOff[pid]
	return cut
}

// reset ends a connection in a way that its peer sees as an error.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
