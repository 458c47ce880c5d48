package storagetest_test

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"likewise/storage"
	"likewise/storage/storagetest"
)

func TestMain(m *testing.M) { storagetest.Main(m) }

func TestStoreServesOnAFreshDatabase(t *testing.T) {
	t.Parallel()
	for range 2 {
		store := storagetest.Store(t, func(cfg *storage.Config) { cfg.Committer.Workers = 1 })
		set := storage.Set{Slot: 200, Video: "cat", User: "alice", Desired: storage.Like}

		result, err := store.Set(t.Context(), set)
		require.NoError(t, err)
		require.True(t, result.Changed, "nobody else writes here")
		state, err := store.Get(t.Context(), set.Slot, set.Video, set.User)
		require.NoError(t, err)
		require.Equal(t, storage.State{Reaction: storage.Like, Version: result.Version}, state)
	}
}

func TestStoresShareADatabase(t *testing.T) {
	t.Parallel()
	at := storagetest.URL(t)
	first, second := storagetest.Open(t, at), storagetest.Open(t, at)
	_, err := first.Set(t.Context(), storage.Set{Slot: 3, Video: "cat", User: "alice", Desired: storage.Like})
	require.NoError(t, err)
	result, err := second.Set(t.Context(), storage.Set{Slot: 3, Video: "cat", User: "alice", Desired: storage.Like})
	require.NoError(t, err)
	require.False(t, result.Changed)
}

func TestTopologyHasThreeContiguousRegions(t *testing.T) {
	t.Parallel()
	topology, err := storagetest.Store(t).Topology(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, topology.Epoch)
	require.Equal(t, storagetest.Regions(), topology.Regions)
	require.Equal(t, "eu", topology.Regions[0])
	require.Equal(t, "us", topology.Regions[storage.Slots/2])
	require.Equal(t, "ap", topology.Regions[storage.Slots-1])
}

func TestEmptyDatabaseHasNoSchema(t *testing.T) {
	t.Parallel()
	store := storagetest.Open(t, storagetest.EmptyURL(t))
	_, err := store.Topology(t.Context())
	require.ErrorIs(t, err, storage.ErrNoSchema)
	require.NoError(t, store.Migrate(t.Context(), storagetest.Regions()))
	_, err = store.Topology(t.Context())
	require.NoError(t, err)
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	conn := storagetest.Conn(t, storagetest.EmptyURL(t))
	var name string
	t.Run("uses it", func(t *testing.T) {
		at := storagetest.URL(t)
		u, err := url.Parse(at)
		require.NoError(t, err)
		name = u.Path[1:]
		storagetest.Conn(t, at)
		require.Equal(t, 1, databases(t, conn, name))
	})
	require.Zero(t, databases(t, conn, name))
}

func databases(t *testing.T, conn *pgx.Conn, name string) int {
	t.Helper()
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname = $1", name).Scan(&n))
	return n
}
