package wan_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"likewise/deploy/local/wan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rtt = 100 * time.Millisecond

// fixture is two regions; a node in each echoes what it gets.
type fixture struct {
	network *wan.Network
	proxy   string // of region "a"
	near    string // a node in "a"
	far     string // a node in "b"
}

func setup(t *testing.T) fixture {
	t.Helper()
	f := fixture{network: wan.New(wan.Uniform(rtt)), near: listen(t, echo), far: listen(t, echo)}
	f.network.Place(f.near, "a")
	f.network.Place(f.far, "b")
	url, err := f.network.Listen(t.Context(), "a")
	require.NoError(t, err)
	f.proxy = strings.TrimPrefix(url, "http://")

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.network.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return f
}

func TestDistance(t *testing.T) {
	t.Parallel()

	t.Run("delays a round trip between regions", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		start := time.Now()
		conn := f.connect(t, f.far)
		require.GreaterOrEqual(t, time.Since(start), rtt, "connecting takes a round trip")

		took := best(func() time.Duration { return ping(t, conn) })
		require.GreaterOrEqual(t, took, rtt)
		require.Less(t, took, 2*rtt, "and little more")
	})
	t.Run("delays nothing within a region", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		conn := f.connect(t, f.near)
		require.Less(t, best(func() time.Duration { return ping(t, conn) }), rtt/2)
	})
	t.Run("costs no throughput, and keeps the order", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		conn := f.connect(t, f.far)
		const size = 16 << 20 // 512 pieces, which would take 25 s one after the other
		start := time.Now()
		go func() {
			_, _ = io.CopyN(conn, &sequence{}, size)
			_ = conn.CloseWrite()
		}()
		n, err := io.Copy(&verifier{}, conn)
		require.NoError(t, err)
		require.EqualValues(t, size, n)
		require.Less(t, time.Since(start), 10*time.Second)
	})
}

func TestHalfClose(t *testing.T) {
	t.Parallel()
	f := setup(t)
	// This node speaks only after it has heard everything.
	node := listen(t, func(conn *net.TCPConn) {
		heard, _ := io.ReadAll(conn)
		_, _ = fmt.Fprintf(conn, "heard %s", heard)
	})
	f.network.Place(node, "b")
	conn := f.connect(t, node)
	_, err := conn.Write([]byte("all"))
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "heard all", string(answer))
}

func TestCut(t *testing.T) {
	t.Parallel()

	t.Run("holds what is sent until it is healed", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		conn := f.connect(t, f.far)
		ping(t, conn)
		f.network.Cut("a", "b")
		f.network.Cut("a", "b") // again changes nothing
		_, err := conn.Write([]byte("held"))
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(2*rtt)))
		_, err = conn.Read(make([]byte, 4))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "nothing passes")

		f.network.Heal("a", "b")
		require.NoError(t, conn.SetReadDeadline(time.Time{}))
		got := make([]byte, 4)
		_, err = io.ReadFull(conn, got)
		require.NoError(t, err)
		require.Equal(t, "held", string(got))
	})
	t.Run("lets a client give up on a new connection", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.network.Cut("b", "a")
		conn := dial(t, f.proxy)
		_, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", f.far, f.far)
		require.NoError(t, err)
		f.eventuallyOpen(t, 1)
		require.NoError(t, conn.Close())
		f.eventuallyOpen(t, 0)
	})
	t.Run("leaves the region itself alone", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.network.Cut("a", "b")
		ping(t, f.connect(t, f.near))
	})
}

func TestReset(t *testing.T) {
	t.Parallel()
	f := setup(t)
	far, near := f.connect(t, f.far), f.connect(t, f.near)
	f.network.Reset("b", "a")
	_, err := far.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF, "a broken connection is not a finished one")
	ping(t, near)
	ping(t, f.connect(t, f.far))
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for name, tc := range map[string]struct {
		method, target string
		status         int
	}{
		"a node that does not listen": {http.MethodConnect, closedPort(t, f.network), http.StatusBadGateway},
		"an address of no node":       {http.MethodConnect, "127.0.0.1:1", http.StatusForbidden},
		"anything but CONNECT":        {http.MethodGet, "http://" + f.far + "/", http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, f.proxy)
			resp := request(t, conn, tc.method, tc.target)
			require.Equal(t, tc.status, resp.StatusCode)
		})
	}
}

func TestTrafficIsCounted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	conn := f.connect(t, f.far)
	ping(t, conn)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, map[wan.Direction]wan.Traffic{
			{From: "a", To: "b"}: {Connections: 1, Open: 1, Bytes: 4},
			{From: "b", To: "a"}: {Bytes: 4},
		}, f.network.Traffic())
	}, 5*time.Second, 5*time.Millisecond)
	require.NoError(t, conn.Close())
	f.eventuallyOpen(t, 0)
}

func (f fixture) connect(t *testing.T, target string) *net.TCPConn {
	t.Helper()
	conn := dial(t, f.proxy)
	require.Equal(t, http.StatusOK, request(t, conn, http.MethodConnect, target).StatusCode)
	return conn
}

func (f fixture) eventuallyOpen(t *testing.T, want int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		return f.network.Traffic()[wan.Direction{From: "a", To: "b"}].Open == want
	}, 5*time.Second, 5*time.Millisecond)
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn) //nolint:forcetypeassert // "tcp"
}

func request(t *testing.T, conn net.Conn, method, target string) *http.Response {
	t.Helper()
	_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: node\r\n\r\n", method, target)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp
}

func ping(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	start := time.Now()
	_, err := conn.Write([]byte("ping"))
	require.NoError(t, err)
	got := make([]byte, 4)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, "ping", string(got))
	return time.Since(start)
}

// best is the shortest of a few measurements: a busy machine only adds.
func best(measure func() time.Duration) time.Duration {
	shortest := measure()
	for range 4 {
		shortest = min(shortest, measure())
	}
	return shortest
}

// listen runs a server on loopback until the test ends.
func listen(t *testing.T, serve func(*net.TCPConn)) (addr string) {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn)) //nolint:forcetypeassert // a TCP listener's
			}()
		}
	}()
	return ln.Addr().String()
}

func echo(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) }

// closedPort is the address of a node in "b" that does not listen.
func closedPort(t *testing.T, n *wan.Network) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	n.Place(ln.Addr().String(), "b")
	return ln.Addr().String()
}

// sequence is a stream in which each place has its own byte, nearly.
type sequence struct{ at int }

func (s *sequence) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byteAt(s.at)
		s.at++
	}
	return len(p), nil
}

func byteAt(i int) byte { return byte(i) ^ byte(i>>8) ^ byte(i>>16) }

// verifier fails at the first byte out of sequence.
type verifier struct{ at int }

func (v *verifier) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != byteAt(v.at) {
			return 0, fmt.Errorf("byte %d is out of order", v.at)
		}
		v.at++
	}
	return len(p), nil
}
