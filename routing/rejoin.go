package routing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

const (
	// firstRejoin is the pause after the first round. It doubles from round to
	// round up to RejoinEvery: nodes that start together find each other at once.
	firstRejoin = 250 * time.Millisecond
	// joinsAtOnce bounds how many missing seeds are tried side by side, so that
	// one behind a black hole does not hold up the others.
	joinsAtOnce = 8
	// resolveTimeout bounds looking up one seed's name.
	resolveTimeout = 2 * time.Second
)

var errResolveTimeout = errors.New("looking up the name timed out")

// rejoin joins every seed that is not a live member, at once and then again and
// again until ctx ends. memberlist forgets the dead after half a minute, and
// then two halves of a healed cut would never look for each other. It ends early
// with a SeedsRefusedError.
func (g *Gossip) rejoin(ctx context.Context, c cluster) error {
	failing := make(map[string]bool)
	turned := newTurnedAway(g.settleAfter)
	for pause := min(g.firstRejoin, g.cfg.RejoinEvery); ; pause = min(2*pause, g.cfg.RejoinEvery) {
		g.joinMissing(ctx, c, failing, turned)
		if err := turned.verdict(len(g.Map().Nodes()) - 1); err != nil && ctx.Err() == nil {
			return err
		}
		g.update(func(known *members) bool { return known.forget(time.Now()) > 0 })
		if !wait(ctx, pause) {
			return nil
		}
	}
}

// joinMissing does one round. failing remembers, from round to round, which
// seeds could not be joined, so that the log says it once.
func (g *Gossip) joinMissing(ctx context.Context, c cluster, failing map[string]bool, turned *turnedAway) {
	seeds := g.missing(ctx, c, failing)
	g.metrics.seedsMissing.Set(float64(len(seeds)))
	results := make([]error, len(seeds))
	var group errgroup.Group
	group.SetLimit(joinsAtOnce)
	for i, addr := range seeds {
		group.Go(func() error {
			began := time.Now()
			results[i] = c.join(addr)
			turned.note(ctx, addr.String(), results[i], time.Since(began) < c.patience)
			return nil
		})
	}
	_ = group.Wait() // results holds the errors
	for i, addr := range seeds {
		g.report(ctx, addr.String(), results[i], failing)
	}
}

// missing returns the addresses of seeds that are neither live members nor this
// node: joining oneself succeeds, and says nothing.
func (g *Gossip) missing(ctx context.Context, c cluster, failing map[string]bool) []netip.AddrPort {
	live, own := c.live(), ownAddrs(c.self(), g.cfg.BindAddr)
	var missing []netip.AddrPort
	for _, seed := range g.cfg.Seeds {
		addrs, err := resolve(ctx, seed)
		g.reportLookUp(ctx, seed, err, failing)
		for _, addr := range addrs {
			if !live[addr] && !slices.Contains(own, addr) && !slices.Contains(missing, addr) {
				missing = append(missing, addr)
			}
		}
	}
	return missing
}

// reportLookUp logs that the name of a seed begins or ceases to be unknown. It
// says nothing of joining: an IP:port is always found.
func (g *Gossip) reportLookUp(ctx context.Context, seed string, err error, failing map[string]bool) {
	name := "the name in " + seed
	if ctx.Err() != nil || (err != nil) == failing[name] {
		return
	}
	failing[name] = err != nil
	if err != nil {
		g.log.Warn("seed not found; looking again until it is", zap.String("peer", seed), zap.Error(err))
	}
}

// report logs that a seed begins or ceases to fail to be joined.
func (g *Gossip) report(ctx context.Context, seed string, err error, failing map[string]bool) {
	if ctx.Err() != nil || (err != nil) == failing[seed] {
		return
	}
	failing[seed] = err != nil
	if err != nil {
		g.log.Warn("seed not joined; trying again until it is", zap.String("peer", seed), zap.Error(err))
	} else {
		g.log.Info("seed joined", zap.String("peer", seed))
	}
}

// resolve returns the addresses of a seed: one for IP:port, all of them for a
// name such as that of a headless service.
func resolve(ctx context.Context, seed string) ([]netip.AddrPort, error) {
	host, port, err := splitSeed(seed)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, resolveTimeout, errResolveTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("seed %q: %w", seed, err)
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip.Unmap(), port)
	}
	return addrs, nil
}

// splitSeed takes host:port apart.
func splitSeed(seed string) (string, uint16, error) {
	host, number, err := net.SplitHostPort(seed)
	if err != nil {
		return "", 0, fmt.Errorf("seed %q: must be host:port: %w", seed, err)
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil || port == 0 || host == "" {
		return "", 0, fmt.Errorf("seed %q: must be host:port with a port from 1 to 65535", seed)
	}
	return host, uint16(port), nil
}

// ownAddrs returns the addresses at which this node could find itself: the one
// that it advertises and, if it listens on all interfaces, those of each.
func ownAddrs(advertised netip.AddrPort, bindAddress string) []netip.AddrPort {
	own := []netip.AddrPort{advertised}
	bind, err := bindAddr(bindAddress)
	port := cmp.Or(bind.Port(), advertised.Port())
	if err != nil || !bind.Addr().IsUnspecified() {
		return append(own, netip.AddrPortFrom(bind.Addr(), port))
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return own
	}
	for _, a := range interfaces {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, netip.AddrPortFrom(prefix.Addr().Unmap(), port))
		}
	}
	return own
}
