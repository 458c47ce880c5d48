package storage_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"likewise/storage"
	"likewise/storage/storagetest"
)

// offPath are the statements that no request waits for.
func offPath() []string {
	return []string{"recount", "list_videos", "insert_topology", "missing_rights", "read_topology"}
}

// onReadConnections are the statements of the request path that read outside a
// transaction. All others run on connections that write.
func onReadConnections() []string {
	return []string{"read_reaction", "read_own_reactions", "read_counter_shards", "read_many_counter_shards"}
}

// lookedUpBy are the columns that every scan of an index must be given.
func lookedUpBy() map[string][]string {
	return map[string][]string{
		"reactions_pkey":      {"slot", "video_id", "user_id"},
		"counter_shards_pkey": {"video_id"},
		"videos_pkey":         {"video_id"},
		"slots_pkey":          {"slot"},
		"changes_pkey":        {"slot", "log_offset"},
		"idempotency_pkey":    {"slot", "user_id", "video_id", "key"},
		"nodes_pkey":          {"name"},
	}
}

// planNode is a node of EXPLAIN's tree.
type planNode struct {
	Type      string     `json:"Node Type"`
	Relation  string     `json:"Relation Name"`
	Index     string     `json:"Index Name"`
	Condition string     `json:"Index Cond"`
	Cost      float64    `json:"Total Cost"`
	Plans     []planNode `json:"Plans"`
}

// scans returns what in a plan reads more than the keys that were asked for.
func (p planNode) scans() (found []string) {
	switch {
	case p.Type == "Seq Scan", p.Type == "Hash Join", p.Type == "Merge Join", p.Type == "Bitmap Heap Scan":
		found = append(found, fmt.Sprintf("%s on %q", p.Type, p.Relation))
	case p.Index != "":
		for _, column := range append([]string{"="}, lookedUpBy()[p.Index]...) {
			if !strings.Contains(p.Condition, column) {
				found = append(found, fmt.Sprintf("%s of %s with %q, without %s", p.Type, p.Index, p.Condition, column))
			}
		}
	}
	for _, sub := range p.Plans {
		found = append(found, sub.scans()...)
	}
	return found
}

// session connects with the settings of one of the pools.
func session(t *testing.T, url string, settings map[string]string) *pgx.Conn {
	t.Helper()
	conn := storagetest.Conn(t, url)
	for name, value := range settings {
		if name == "default_transaction_read_only" {
			continue // PREPARE and EXPLAIN read
		}
		_, err := conn.Exec(t.Context(), "SELECT set_config($1, $2, false)", name, value)
		require.NoError(t, err)
	}
	return conn
}

// plan returns the plan that a prepared statement gets in a session. Its
// parameters are NULL: a generic plan does not look at them.
func plan(t *testing.T, conn *pgx.Conn, name, text string) planNode {
	t.Helper()
	described, err := conn.Prepare(t.Context(), "describe_"+name, text)
	require.NoError(t, err, name)
	_, err = conn.Exec(t.Context(), "PREPARE plan_"+name+" AS "+text)
	require.NoError(t, err, name)
	execute := "EXECUTE plan_" + name
	if n := len(described.ParamOIDs); n > 0 {
		execute += "(NULL" + strings.Repeat(", NULL", n-1) + ")"
	}
	var explained []byte
	require.NoError(t, conn.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+execute).Scan(&explained), name)
	var plans []struct{ Plan planNode }
	require.NoError(t, json.Unmarshal(explained, &plans), name)
	return plans[0].Plan
}

// scansOnRequestPath explains every statement of the request path.
func scansOnRequestPath(t *testing.T, url string, reads, writes map[string]string) (found []string) {
	t.Helper()
	statements, err := storage.Statements()
	require.NoError(t, err)
	readConn, writeConn := session(t, url, reads), session(t, url, writes)
	for _, name := range slices.Sorted(maps.Keys(statements)) {
		if slices.Contains(offPath(), name) {
			continue
		}
		conn := writeConn
		if slices.Contains(onReadConnections(), name) {
			conn = readConn
		}
		p := plan(t, conn, name, statements[name])
		if p.Cost > 1e9 {
			found = append(found, name+": a plan of a kind that is switched off")
		}
		for _, scan := range p.scans() {
			found = append(found, name+": "+scan)
		}
	}
	return found
}

// analyzed is a database with so many reactions, of which the planner knows.
func analyzed(t *testing.T, reactions int) string {
	t.Helper()
	url := storagetest.URL(t)
	conn := storagetest.Conn(t, url)
	for _, statement := range []string{
		`INSERT INTO reactions SELECT i %% 256, 'video-' || i %% 1000, 'user-' || i, 1, 1, i %% 256, now() FROM generate_series(1, %d) AS i`,
		`INSERT INTO counter_shards SELECT 'video-' || i, i %% 256, 1, 0, 1, now() FROM generate_series(1, %d) AS i`,
		`INSERT INTO changes SELECT i %% 256, i, 'video-' || i %% 1000, 'user-' || i, 0, 1, 1, i %% 256, gen_random_uuid(), now() FROM generate_series(1, %d) AS i`,
		`INSERT INTO idempotency SELECT i %% 256, 'user-' || i, 'video-' || i %% 1000, 'key', '', 0, 1, 1, true, now() + '1 hour' FROM generate_series(1, %d) AS i`,
		`INSERT INTO videos SELECT 'video-' || i, 2, 1, now() FROM generate_series(1, %d) AS i`,
		`INSERT INTO nodes SELECT 'node-' || i, 1, now() FROM generate_series(1, least(100, %d)) AS i`,
	} {
		_, err := conn.Exec(t.Context(), fmt.Sprintf(statement, reactions))
		require.NoError(t, err, statement)
	}
	_, err := conn.Exec(t.Context(), "ANALYZE")
	require.NoError(t, err)
	return url
}

// R24, R33: no request scans a table, whatever the planner believes of it. (A
// table that was analyzed while it held nothing at all is believed to cost
// nothing, until it is analyzed again. PostgreSQL does that by itself when fifty
// rows have come.)
func TestRequestsLookUpByKey(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(*testing.T) string{
		"a new database":            func(t *testing.T) string { t.Helper(); return storagetest.URL(t) },
		"one analyzed when small":   func(t *testing.T) string { t.Helper(); return analyzed(t, 10) },
		"one analyzed when it grew": func(t *testing.T) string { t.Helper(); return analyzed(t, 50_000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, scansOnRequestPath(t, url(t), storage.ReadSettings(), storage.WriteSettings()))
		})
	}
}

// The negative control: without the settings, the planner scans.
func TestWithoutItsSettingsASessionScans(t *testing.T) {
	t.Parallel()
	url := analyzed(t, 10)
	generic := map[string]string{"plan_cache_mode": "force_generic_plan"}
	require.NotEmpty(t, scansOnRequestPath(t, url, generic, storage.WriteSettings()), "those that read")
	require.NotEmpty(t, scansOnRequestPath(t, url, storage.ReadSettings(), generic), "those that write")
}

// What counts all rows may scan them: plans that are switched off would cost it
// dearly.
func TestChecksMayScan(t *testing.T) {
	t.Parallel()
	statements, err := storage.Statements()
	require.NoError(t, err)
	conn := session(t, analyzed(t, 10_000), storage.ReadSettings())
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), storage.UnboundedSQL)
	require.NoError(t, err)
	require.Equal(t, []string{`Seq Scan on "reactions"`}, plan(t, conn, "count_all", "SELECT count(updated_at) FROM reactions").scans())
	for _, name := range []string{"list_videos", "recount"} {
		require.Less(t, plan(t, conn, name, statements[name]).Cost, 1e9, name)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	for setting, want := range map[string]string{"statement_timeout": "4s", "enable_seqscan": "off", "enable_material": "off"} {
		var is string
		require.NoError(t, conn.QueryRow(t.Context(), "SHOW "+setting).Scan(&is))
		require.Equal(t, want, is, "%s, for one transaction only", setting)
	}
}
