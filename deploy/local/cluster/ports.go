package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are drawn from below the ranges from which Linux and macOS take the
// near ends of outgoing connections: a node that comes back finds its ports
// still free, although hundreds of connections were opened meanwhile.
const (
	lowestPort  = 20000
	highestPort = 32000
	portTries   = 1000
	maxPort     = 65535
)

var errNoPort = errors.New("no free port on 127.0.0.1 between 20000 and 32000")

// ports draws addresses on loopback, none of them twice.
type ports map[int]bool

// claim returns the address of one port if it is free, and otherwise draws one.
func (p ports) claim(ctx context.Context, port int) (string, error) {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if port > maxPort || p[port] || !isFree(ctx, addr) {
		return p.draw(ctx)
	}
	p[port] = true
	return addr, nil
}

// draw returns an address at which nobody listens, by TCP or by UDP.
func (p ports) draw(ctx context.Context) (string, error) {
	for range portTries {
		port := lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // no secret
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if p[port] || !isFree(ctx, addr) {
			continue
		}
		p[port] = true
		return addr, nil
	}
	return "", errNoPort
}

func isFree(ctx context.Context, addr string) bool {
	var lc net.ListenConfig
	tcp, err := lc.Listen(ctx, "tcp4", addr)
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := lc.ListenPacket(ctx, "udp4", addr)
	if err != nil {
		return false
	}
	return udp.Close() == nil
}
