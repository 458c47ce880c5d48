package e2e

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"likewise/deploy/local/cluster"
	"likewise/e2e/traffic"
)

// Nodes come and go in order and in disorder; nothing that was acknowledged is
// lost.
func TestRestartsUnderTraffic(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	running, stop := d.runTraffic(t, traffic.Config{Seed: 1, ClientsPerRegion: 8, Rate: 200, Videos: 30})
	const some = 50
	acknowledged(t, running, some, "before anything happens")

	for _, wave := range d.waves() {
		pids := wave.pids()
		wave.each(t, (*cluster.Node).Restart)
		for i, pid := range wave.pids() {
			require.NotEqual(t, pids[i], pid)
		}
		acknowledged(t, running, some, "after nodes were restarted in order")
	}
	for _, wave := range d.waves() {
		for _, n := range wave {
			n.Kill()
		}
		acknowledged(t, running, some, "while nodes are dead")
		wave.each(t, (*cluster.Node).Restart)
	}
	acknowledged(t, running, some, "when all nodes are back")
	d.requireNothingLost(t, running, stop())
}

// wave is one node of each region.
type wave []*cluster.Node

// waves returns every node once.
func (d *deployment) waves() []wave {
	waves := make([]wave, len(d.Nodes())/len(regionNames))
	for i, n := range d.Nodes() {
		at := i % len(waves)
		waves[at] = append(waves[at], n)
	}
	return waves
}

func (w wave) each(t *testing.T, do func(*cluster.Node, context.Context) error) {
	t.Helper()
	g, ctx := errgroup.WithContext(t.Context())
	for _, n := range w {
		g.Go(func() error { return do(n, ctx) })
	}
	require.NoError(t, g.Wait())
}

func (w wave) pids() []int {
	var pids []int
	for _, n := range w {
		pids = append(pids, n.Pid())
	}
	return pids
}
