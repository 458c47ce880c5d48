package wan

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// requestTimeout is how long a client may take to say where it wants to go.
	requestTimeout = 10 * time.Second
	// dialTimeout bounds the last hop, which stays on this machine.
	dialTimeout = 5 * time.Second
)

// proxy is the way out of one region.
type proxy struct {
	network *Network
	region  string
	ln      net.Listener
}

// run accepts until ctx ends.
func (p *proxy) run(ctx context.Context) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	stop := context.AfterFunc(ctx, func() { _ = p.ln.Close() })
	defer stop()
	for {
		conn, err := p.ln.Accept()
		if ctx.Err() != nil {
			if conn != nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("proxy of region %q: %w", p.region, err)
		}
		conns.Go(func() { p.serve(ctx, conn.(*net.TCPConn)) }) //nolint:forcetypeassert // from a TCP listener
	}
}

// serve handles one client from its CONNECT to its end.
func (p *proxy) serve(ctx context.Context, client *net.TCPConn) {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	defer client.Close()
	// Whatever ends the context also ends a read or write that is under way.
	stop := context.AfterFunc(ctx, func() { hangUp(client) })
	defer stop()

	in := bufio.NewReader(client)
	target, status := p.readTarget(client, in)
	if status != http.StatusOK {
		answer(client, status)
		return
	}
	to, ok := p.network.regionOf(target)
	if !ok {
		answer(client, http.StatusForbidden)
		return
	}
	t := &tunnel{
		out:    p.network.link(p.region, to),
		back:   p.network.link(to, p.region),
		client: client,
		abort:  abort,
	}
	t.out.add(t)
	defer t.out.remove(t)
	t.run(ctx, in, target)
}

func (p *proxy) readTarget(client net.Conn, in *bufio.Reader) (target string, status int) {
	if err := client.SetReadDeadline(time.Now().Add(requestTimeout)); err != nil {
		return "", http.StatusBadRequest
	}
	req, err := http.ReadRequest(in)
	if err != nil {
		return "", http.StatusBadRequest
	}
	if req.Method != http.MethodConnect {
		return "", http.StatusMethodNotAllowed
	}
	if err := client.SetReadDeadline(time.Time{}); err != nil {
		return "", http.StatusBadRequest
	}
	return req.Host, http.StatusOK
}

// answer writes the whole response to a CONNECT. An error shows at the next
// read or write of the connection.
func answer(client net.Conn, status int) {
	header := ""
	if status != http.StatusOK {
		header = "Content-Length: 0\r\nConnection: close\r\n"
	}
	_, _ = fmt.Fprintf(client, "HTTP/1.1 %d %s\r\n%s\r\n", status, http.StatusText(status), header)
}

// connect opens the far end. A round trip goes by before the client hears of
// it, as with a TCP connection over that distance.
func (t *tunnel) connect(ctx context.Context, target string) (*net.TCPConn, error) {
	if err := t.out.pass(ctx, time.Now()); err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, dialErr := dialer.DialContext(ctx, "tcp", target)
	if err := t.back.pass(ctx, time.Now()); err != nil {
		if conn != nil {
			err = errors.Join(err, conn.Close())
		}
		return nil, err
	}
	if dialErr != nil {
		answer(t.client, http.StatusBadGateway)
		// Closed in order, not broken, or the answer could be lost.
		return nil, errors.Join(dialErr, t.client.Close())
	}
	t.connected.Store(true)
	t.out.connections.Add(1)
	answer(t.client, http.StatusOK)
	return conn.(*net.TCPConn), nil //nolint:forcetypeassert // "tcp" dials nothing else
}
