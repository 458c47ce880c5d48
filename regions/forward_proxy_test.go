package regions

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThroughAProxy(t *testing.T) {
	t.Parallel()
	proxy := startProxy(t)
	c := startCluster(t, func(cfg *Config, _ *Deps) { cfg.Peers.Proxy = proxy.url })
	_, err := c.set(t, like("cat"))
	require.NoError(t, err)
	require.EqualValues(t, 1, proxy.connects.Load())
	c.requireSets(t, 1, 0, 0)

	c.move(t, closedPort(t)) // the proxy answers 502: surely not sent
	_, err = c.set(t, like("cat"))
	require.NoError(t, err)
	c.requireSets(t, 1, 1, 0)
}

// testProxy is an HTTP proxy that knows CONNECT, and can stop to carry, or
// break, what it carries.
type testProxy struct {
	url      *url.URL
	connects atomic.Int64
	done     sync.WaitGroup

	mu    sync.Mutex
	flows chan struct{} // closed while bytes flow
	conns map[net.Conn]bool
}

func startProxy(t *testing.T) *testProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &testProxy{
		url:   &url.URL{Scheme: "http", Host: l.Addr().String()},
		flows: make(chan struct{}),
		conns: make(map[net.Conn]bool),
	}
	close(p.flows)
	p.done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.done.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.breakAll()
		p.done.Wait()
	})
	return p
}

func (p *testProxy) serve(client net.Conn) {
	defer client.Close()
	p.wait()
	req, err := http.ReadRequest(bufio.NewReader(client))
	if err != nil {
		return
	}
	target, err := net.Dial("tcp", req.Host)
	if err != nil {
		_, _ = io.WriteString(client, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	defer target.Close()
	p.connects.Add(1)
	p.track(client)
	p.track(target)
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	p.done.Go(func() { p.carry(client, target) })
	p.carry(target, client)
}

func (p *testProxy) carry(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.wait()
		if _, writeErr := to.Write(buf[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

func (p *testProxy) track(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = true
}

func (p *testProxy) wait() {
	p.mu.Lock()
	flows := p.flows
	p.mu.Unlock()
	<-flows
}

// cut makes a black hole of the proxy until heal is called.
func (p *testProxy) cut() (heal func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flows = make(chan struct{})
	return sync.OnceFunc(func() { close(p.flows) })
}

func (p *testProxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
}
