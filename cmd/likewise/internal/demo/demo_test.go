package demo

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"likewise/cmd/likewise/internal/audit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestResultHasTheFieldsThatScriptsRead(t *testing.T) {
	t.Parallel()

	raw, err := json.Marshal(Result{})
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(raw, &fields))
	for _, name := range []string{
		"database", "regions", "nodes", "acknowledged", "changed", "unchanged", "failed", "unknown", "forwarded",
		"set_p50_ms", "set_p99_ms", "counts_p99_ms", "videos_checked", "drift", "lost",
		"blind_counter_off_by", "read_then_write_off_by",
	} {
		require.Contains(t, fields, name)
	}
}

func TestResultIsRightOnlyWithoutDriftAndLoss(t *testing.T) {
	t.Parallel()

	require.True(t, Result{BlindOffBy: 5, Unknown: 1}.Right())
	require.False(t, Result{Drift: 1}.Right())
	require.False(t, Result{Lost: 1}.Right())
}

func TestResultPrintsForPeople(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	r := Result{Database: "PostgreSQL 15.18", Acknowledged: 1234567, BlindOffBy: 4711, Lost: 1, Details: []string{"video cat is wrong"}}
	require.NoError(t, r.Print(&out))
	for _, text := range []string{"1,234,567", "4,711", "PostgreSQL 15.18", "WRONG: video cat is wrong"} {
		require.Contains(t, out.String(), text)
	}
}

func TestGrouped(t *testing.T) {
	t.Parallel()

	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", -1234567: "-1,234,567",
		math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		require.Equal(t, want, grouped(n))
	}
}

func TestSumServedAddsUpAnsweredHopsOnly(t *testing.T) {
	t.Parallel()

	sum, err := sumServed(strings.NewReader(`# HELP likewise_regions_forwarded_total Calls sent to another node.
# TYPE likewise_regions_forwarded_total counter
likewise_regions_forwarded_total{call="get",outcome="served"} 40
likewise_regions_forwarded_total{call="set",outcome="served"} 1.002e+03
likewise_regions_forwarded_total{call="set",outcome="unknown"} 9
likewise_regions_forwarded_total_other{outcome="served"} 5
`))
	require.NoError(t, err)
	require.EqualValues(t, 1042, sum)

	_, err = sumServed(strings.NewReader(`likewise_regions_forwarded_total{outcome="served"} many`))
	require.ErrorContains(t, err, "many")
}

func TestState(t *testing.T) {
	t.Parallel()

	state := State{PID: os.Getpid(), Regions: []RegionState{{"eu", []string{"127.0.0.1:1", "127.0.0.1:2"}}}, DatabaseURL: "postgres://x"}

	t.Run("is there for its owner while the demo runs, and gone afterwards", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		path := filepath.Join(dir, "likewise", "demo.json")
		_, err := readStateFile(path)
		require.ErrorIs(t, err, ErrNotRunning)

		remove, err := writeStateFile(path, state)
		require.NoError(t, err)
		got, err := readStateFile(path)
		require.NoError(t, err)
		require.Equal(t, state, got)
		require.Equal(t, []audit.Door{{Name: "eu-1", URL: "http://127.0.0.1:1"}, {Name: "eu-2", URL: "http://127.0.0.1:2"}}, got.Doors())
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm())

		require.NoError(t, remove())
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	})

	t.Run("of a demo that was killed counts for nothing, and is replaced", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "demo.json")
		dead := state
		dead.PID = endedProcess(t)
		_, err := writeStateFile(path, dead)
		require.NoError(t, err)
		_, err = readStateFile(path)
		require.ErrorIs(t, err, ErrNotRunning)

		remove, err := writeStateFile(path, state)
		require.NoError(t, err)
		require.NoError(t, remove())
	})

	t.Run("of another demo that runs is left alone", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "demo.json")
		other := state
		other.PID = os.Getppid()
		_, err := writeStateFile(path, other)
		require.NoError(t, err)
		_, err = writeStateFile(path, state)
		require.ErrorIs(t, err, errOtherDemo)
		got, err := readStateFile(path)
		require.NoError(t, err)
		require.Equal(t, other.PID, got.PID)
	})

	t.Run("that cannot be read names the file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "demo.json")
		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
		_, err := readStateFile(path)
		require.ErrorContains(t, err, path)
	})
}

// endedProcess returns the id of a process that has just ended.
func endedProcess(t *testing.T) int {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), self, "-test.run=^$")
	require.NoError(t, child.Run())
	return child.Process.Pid
}
