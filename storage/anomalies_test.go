package storage_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"likewise/storage/storagetest"
)

// anomalies are queries that find nothing in a database that is right. They
// read the truth, its log and its counts against each other.
func anomalyQueries() map[string]string {
	return map[string]string{
		"a log has gaps, or its head is elsewhere": `
			SELECT s.slot::text FROM slots AS s LEFT JOIN changes AS c ON c.slot = s.slot
			 GROUP BY s.slot, s.next_offset HAVING s.next_offset <> coalesce(max(c.log_offset), 0) + 1 OR count(c.log_offset) <> s.next_offset - 1`,
		"a change does not start where the last one of its key ended": `
			SELECT format('%s/%s@%s', video_id, user_id, log_offset) FROM (
			  SELECT *, lag(next, 1, 0::int2) OVER w AS was, lag(version) OVER w AS version_was FROM changes
			  WINDOW w AS (PARTITION BY slot, video_id, user_id ORDER BY log_offset)) AS c
			 WHERE previous <> was OR version <> coalesce(version_was + 1, log_offset)`,
		"a row is not what its last change says": `
			SELECT format('%s/%s', video_id, user_id) FROM reactions AS r
			  FULL JOIN (SELECT DISTINCT ON (slot, video_id, user_id) * FROM changes ORDER BY slot, video_id, user_id, log_offset DESC) AS c USING (slot, video_id, user_id)
			 WHERE r.reaction IS DISTINCT FROM c.next OR r.version IS DISTINCT FROM c.version`,
		"a counter shard is not the sum of its rows": `
			SELECT format('%s#%s', video_id, counter_slot) FROM counter_shards AS s
			  FULL JOIN (SELECT video_id, counter_slot, count(*) FILTER (WHERE reaction = 1) AS likes, count(*) FILTER (WHERE reaction = 2) AS dislikes
			               FROM reactions WHERE reaction <> 0 GROUP BY video_id, counter_slot) AS r USING (video_id, counter_slot)
			 WHERE coalesce(s.likes, 0) <> coalesce(r.likes, 0) OR coalesce(s.dislikes, 0) <> coalesce(r.dislikes, 0)`,
	}
}

// anomalies lists what is wrong with a database in the quiet.
func anomalies(t *testing.T, url string) []string {
	t.Helper()
	conn := storagetest.Conn(t, url)
	var found []string
	for what, query := range anomalyQueries() {
		rows, err := conn.Query(t.Context(), query)
		require.NoError(t, err)
		where, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for _, w := range where {
			found = append(found, what+": "+w)
		}
	}
	return found
}
