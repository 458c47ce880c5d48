package regions

import (
	"net"
	"net/http"
	"sync"
)

// freshConns knows the connections on which nothing was ever sent. A server
// that shuts down waits for them for seconds, as if they had a call in flight;
// clients that keep spare connections would hold up every drain. It is safe for
// concurrent use.
type freshConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu
}

// track is an http.Server's ConnState.
func (f *freshConns) track(conn net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state != http.StateNew {
		delete(f.conns, conn)
		return
	}
	if f.conns == nil {
		f.conns = make(map[net.Conn]struct{})
	}
	f.conns[conn] = struct{}{}
}

// close closes those that there are.
func (f *freshConns) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.conns {
		_ = conn.Close() // nothing was begun on it
	}
}
