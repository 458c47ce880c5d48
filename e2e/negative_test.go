//go:build unguarded

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"likewise/deploy/local/cluster"
	"likewise/e2e/check"
)

// without returns a deployment's option: nodes that miss guards. What the front
// door guards is off in such a build whatever it is asked for.
func without(t *testing.T, guards string) func(*cluster.Config) {
	t.Helper()
	path, err := shared.unguarded()
	require.NoError(t, err)
	return func(cfg *cluster.Config) {
		cfg.Binary = path
		cfg.Env = append(cfg.Env, "LIKEWISE_UNGUARDED="+guards)
	}
}

// A write that may have been applied is sent to another node although it
// carries no idempotency key. The first node applies it late, over a newer
// write of the same user.
func TestNegativeBlindRepeat(t *testing.T) {
	b := deployBroken(t, without(t, ""))
	// The victim forgets the write where it takes longer to go on than it tries
	// to commit: that is up to the machine.
	for try, video := range []string{"first", "second", "third"} {
		b.awaitHealth(t)
		p := b.writesInQueue(t, video)
		found := check.Report(b.judge(t, p.history(t)))
		t.Logf("try %d: %s", try+1, found)
		if found != "" {
			require.Contains(t, found, string(check.NotLinearizable))
			return
		}
	}
	require.Fail(t, "the guard is off, and nothing was noticed")
}

// The database does not end the transaction of a node that stopped, so nobody
// can write to its slots.
func TestNegativeSessionLimits(t *testing.T) {
	b := deployBroken(t, without(t, "session-limits"))
	_, freed := b.stopsBetween(t, "stopped-between")
	require.False(t, succeeded(freed), "the guard is off, and the slot was free in time: %s", freed)
}
