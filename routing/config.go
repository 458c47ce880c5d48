package routing

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// GossipConfig says who a node is and how it finds the others.
type GossipConfig struct {
	// Self is what the node says of itself at first. Name, Region and
	// Incarnation are required; Seq and TopologyEpoch are set by the Gossip.
	Self Node

	// BindAddr is the IP:port for gossip, over TCP and UDP. Port 0 takes a free
	// one, see Gossip.Addr. An empty IP listens on all interfaces. Required.
	BindAddr string

	// AdvertiseAddr is the IP, or IP:port, at which others reach BindAddr.
	// Default: the bound address, or the private address of the machine if all
	// interfaces are bound.
	AdvertiseAddr string

	// Seeds are host:port addresses of other nodes' gossip. The node joins each
	// one that is not a live member, again and again. Its own address among them
	// is ignored. None: the node waits to be joined.
	Seeds []string

	// Key encrypts and authenticates gossip: 16, 24 or 32 secret bytes, the same
	// on every node. Required.
	Key []byte

	// Topology reads the topology from the database. It is called when a peer
	// names a higher epoch, until it answers one as high. Required.
	Topology func(context.Context) (Topology, error)

	// Initial is the topology that the node starts with. Required.
	Initial Topology

	// RejoinEvery is the time between two rounds of joining missing seeds. It
	// bounds how long a healed cut goes unnoticed. Default 5 s.
	RejoinEvery time.Duration

	// Log gets memberlist's lines, too. Default: none.
	Log *zap.Logger

	// Registerer gets the metrics likewise_routing_…. Default: none.
	Registerer prometheus.Registerer
}

const defaultRejoinEvery = 5 * time.Second

func (c GossipConfig) withDefaults() GossipConfig {
	if c.RejoinEvery == 0 {
		c.RejoinEvery = defaultRejoinEvery
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Validate says everything that is wrong with the configuration, by field.
func (c GossipConfig) Validate() error {
	var errs []error
	if err := c.Self.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Self: %w", err))
	}
	if _, err := bindAddr(c.BindAddr); err != nil {
		errs = append(errs, fmt.Errorf("BindAddr %q: must be IP:port, such as 10.0.0.5:7946: %w", c.BindAddr, err))
	}
	if _, err := advertiseAddr(c.AdvertiseAddr); err != nil {
		errs = append(errs, fmt.Errorf("AdvertiseAddr %q: must be an IP or IP:port: %w", c.AdvertiseAddr, err))
	}
	for _, seed := range c.Seeds {
		if _, _, err := splitSeed(seed); err != nil {
			errs = append(errs, fmt.Errorf("Seeds: %w", err))
		}
	}
	if n := len(c.Key); n != 16 && n != 24 && n != 32 {
		errs = append(errs, fmt.Errorf("Key: must be 16, 24 or 32 bytes, the same on every node; it has %d", n))
	}
	if c.Topology == nil {
		errs = append(errs, errors.New("Topology: is required"))
	}
	if c.Initial.Epoch < 1 {
		errs = append(errs, errors.New("Initial: is required; migrate the database first, then read its topology"))
	}
	if c.RejoinEvery < 0 {
		errs = append(errs, fmt.Errorf("RejoinEvery: is %s, must not be negative", c.RejoinEvery))
	}
	return errors.Join(errs...)
}

// bindAddr parses IP:port, where no IP means all interfaces.
func bindAddr(s string) (netip.AddrPort, error) {
	if strings.HasPrefix(s, ":") {
		s = "0.0.0.0" + s
	}
	return netip.ParseAddrPort(s)
}

// advertiseAddr parses an IP or IP:port. Port 0 means the bound one, and an
// empty s the bound address.
func advertiseAddr(s string) (netip.AddrPort, error) {
	if s == "" {
		return netip.AddrPort{}, nil
	}
	if ip, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(ip, 0), nil
	}
	return netip.ParseAddrPort(s)
}
