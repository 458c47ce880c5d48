package storagetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"likewise/e2e/check"
	"likewise/storage"
	"likewise/storage/storagetest"
)

func TestFinalReadsWhatIsThere(t *testing.T) {
	t.Parallel()
	at := storagetest.URL(t)
	store := storagetest.Open(t, at)
	for _, reaction := range []storage.Reaction{storage.Like, storage.Dislike, storage.None, storage.Like} {
		_, err := store.Set(t.Context(), storage.Set{Slot: 200, Video: "cat", User: "alice", Desired: reaction})
		require.NoError(t, err)
	}
	storagetest.Audit(t, at)

	final := storagetest.Final(t, at)
	require.Len(t, final.Changes, 4)
	require.Len(t, final.Heads, storage.Slots)
	require.EqualValues(t, 5, final.Heads[200])
	require.Equal(t, check.Key{Video: "cat", User: "alice"}, final.Rows[0].Key)
}

func TestAuditSeesDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]struct {
		sql  string
		want check.Rule
	}{
		"a lost change":   {"DELETE FROM changes WHERE log_offset = 1", check.Gap},
		"a lost row":      {"DELETE FROM reactions", check.RowsDiffer},
		"a moved count":   {"UPDATE counter_shards SET likes = likes + 1", check.ShardsDiffer},
		"a head set back": {"UPDATE slots SET next_offset = 1", check.Gap},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := storagetest.URL(t)
			store := storagetest.Open(t, at)
			_, err := store.Set(t.Context(), storage.Set{Slot: 200, Video: "cat", User: "alice", Desired: storage.Like})
			require.NoError(t, err)
			_, err = storagetest.Conn(t, at).Exec(t.Context(), damage.sql)
			require.NoError(t, err)

			violations := check.Log(storagetest.Final(t, at))
			require.NotEmpty(t, violations)
			require.Equal(t, damage.want, violations[0].Rule, check.Report(violations))
		})
	}
}
