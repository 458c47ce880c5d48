package e2e

import (
	"testing"

	"likewise/deploy/local/cluster"
	"likewise/e2e/traffic"
)

// Two nodes that know nothing of each other each believe that every slot is
// theirs. The same users write through both, and the database decides.
func TestTwoNodesThatOwnEverything(t *testing.T) {
	t.Parallel()
	url := freshDatabase(t)
	alone := func(cfg *cluster.Config) {
		cfg.Regions, cfg.NodesPerRegion, cfg.DatabaseURL = []string{"eu"}, 1, url
		cfg.Args = nil
	}
	one, other := deploy(t, alone), deploy(t, alone)

	running, stop := one.runTraffic(t, traffic.Config{
		Seed: 1, ClientsPerRegion: 16, Videos: 5, UsersPerClient: 3, HotShare: 0.5,
		Regions: []traffic.Region{
			{Name: "one", Addrs: []string{one.Nodes()[0].Addr()}},
			{Name: "other", Addrs: []string{other.Nodes()[0].Addr()}},
		},
	})
	acknowledged(t, running, 1000, "by both")
	ops := stop()
	one.requireNothingLost(t, running, ops)
	other.requireRight(t, historyOf(ops))
}
