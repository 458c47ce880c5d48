package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/e2e/fault/pgproxy"
)

func TestNodesThatAllOwnASlotAgree(t *testing.T) { // R20, R21, R41
	t.Parallel()
	require.Empty(t, switching(t))
}

func TestDuplicatesAtOnceHaveOneEffect(t *testing.T) { // R6, R20
	t.Parallel()
	require.Empty(t, duplicates(t))
}

func TestSharedCounterShardsDoNotDeadlock(t *testing.T) { // R24
	t.Parallel()
	require.Empty(t, sharedShards(t))
}

func TestAmbiguousCommitHasOneEffect(t *testing.T) { // R9, R21
	t.Parallel()
	for _, fault := range []pgproxy.Fault{
		pgproxy.DropCommitBefore(),
		pgproxy.DropCommitReplyAfter(),
		pgproxy.HoldCommit().HealAfter(700 * time.Millisecond),
		pgproxy.HoldFlush().HealAfter(700 * time.Millisecond),
		pgproxy.HoldFlush().HealAfter(2500 * time.Millisecond), // the database has given up on it before
	} {
		t.Run(fault.Name+" "+fault.After.String(), func(t *testing.T) {
			t.Parallel()
			require.Empty(t, ambiguous(fault)(t))
		})
	}
}

func TestVanishedNodeFreesItsSlots(t *testing.T) { // R43
	t.Parallel()
	require.Empty(t, vanishing(t))
}

func TestMissingHeadIsAStaleMap(t *testing.T) {
	t.Parallel()
	require.Empty(t, missingHead(t))
}
