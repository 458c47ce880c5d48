package storage

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

//go:embed migrations/*.sql
var migrationFiles embed.FS

// The statements. Each counts its parameters from $1, without gaps.
var (
	lockHeadsSQL             = statement("lock_heads")
	readIdempotencySQL       = statement("read_idempotency")
	readVideosSQL            = statement("read_videos")
	readReactionsSQL         = statement("read_reactions")
	insertReactionsSQL       = statement("insert_reactions")
	updateReactionsSQL       = statement("update_reactions")
	insertChangesSQL         = statement("insert_changes")
	advanceHeadsSQL          = statement("advance_heads")
	lockCounterShardsSQL     = statement("lock_counter_shards")
	subtractCounterShardsSQL = statement("subtract_counter_shards")
	addCounterShardsSQL      = statement("add_counter_shards")
	insertIdempotencySQL     = statement("insert_idempotency")
	touchHeadsSQL            = statement("touch_heads")
	readAttemptsSQL          = statement("read_attempts")
	readReactionSQL          = statement("read_reaction")
	readOwnReactionsSQL      = statement("read_own_reactions")
	readManyCounterShardsSQL = statement("read_many_counter_shards")
	insertVideoSQL           = statement("insert_video")
	lockVideoSQL             = statement("lock_video")
	updateVideoSQL           = statement("update_video")
	readCounterShardsSQL     = statement("read_counter_shards")
	recountSQL               = statement("recount")
	listVideosSQL            = statement("list_videos")
	readTopologySQL          = statement("read_topology")
	insertTopologySQL        = statement("insert_topology")
	nextIncarnationSQL       = statement("next_incarnation")
	missingRightsSQL         = statement("missing_rights")
)

// statement returns the text of sql/<name>.sql without its comment and its
// semicolon. It panics where the file is missing, at the start of the process.
func statement(name string) string {
	text, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return bare(string(text))
}

// migrations returns the schema's statements in order, each to be run alone,
// outside a transaction.
func migrations() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	steps := make([]string, 0, len(names))
	for _, name := range names { // fs.Glob sorts
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		steps = append(steps, bare(string(text)))
	}
	return steps, nil
}

func bare(text string) string {
	lines := strings.Split(text, "\n")
	kept := lines[:0]
	for _, line := range lines {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			kept = append(kept, line)
		}
	}
	return strings.TrimSuffix(strings.TrimSpace(strings.Join(kept, "\n")), ";")
}
