package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"likewise/deploy/local/cluster"
	"likewise/deploy/local/wan"
)

// binary is the stand-in for likewise; see testdata/node.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		runAsParent()
		return
	}
	dir, err := os.MkdirTemp("", "likewise-node-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "node")
	if out, err := exec.Command("go", "build", "-o", binary, "./testdata/node").CombinedOutput(); err != nil {
		panic(string(out))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// parentVariable names the binary in a test process that only plays the parent.
const parentVariable = "CLUSTER_TEST_PARENT"

const rtt = 80 * time.Millisecond

// runAsParent starts a cluster, prints its process ids, and waits to be killed.
func runAsParent() {
	binary = os.Getenv(parentVariable)
	cfg := config()
	cfg.Dir = os.Getenv("CLUSTER_TEST_DIR")
	c, err := cluster.Start(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	for _, n := range c.Nodes() {
		fmt.Fprintln(os.Stdout, n.Pid())
	}
	select {}
}

func config() cluster.Config {
	return cluster.Config{
		Binary:      binary,
		Regions:     []string{"eu", "us"},
		DatabaseURL: "postgres://likewise:secret@127.0.0.1:1/test",
		RTT:         wan.Uniform(rtt),
		StopTimeout: 5 * time.Second,
	}
}

func start(t *testing.T, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
	return c
}

func TestNodes(t *testing.T) {
	t.Parallel()
	c := start(t, config())
	nodes := c.Nodes()

	t.Run("have names, regions and addresses of their own", func(t *testing.T) {
		var names, regions []string
		seen := map[string]bool{}
		for _, n := range nodes {
			names, regions = append(names, n.Name()), append(regions, n.Region())
			seen[n.Addr()], seen[n.PeerAddr()] = true, true
		}
		require.Equal(t, []string{"eu-1", "eu-2", "us-1", "us-2"}, names)
		require.Equal(t, []string{"eu", "eu", "us", "us"}, regions)
		require.Len(t, seen, 8)
	})
	t.Run("get secrets by the environment alone", func(t *testing.T) {
		env, args := get(t, nodes[0], "/environment"), get(t, nodes[0], "/arguments")
		require.Contains(t, env, "LIKEWISE_DATABASE_URL=postgres://likewise:secret@")
		require.Contains(t, env, "LIKEWISE_GOSSIP_KEY=")
		require.NotContains(t, args, "secret@")
		require.Contains(t, args, "--dev-secret")
	})
	t.Run("call each other over the distance between their regions", func(t *testing.T) {
		require.Equal(t, "eu-2", get(t, nodes[0], "/call?peer="+nodes[1].PeerAddr()))
		require.Equal(t, "us-1", get(t, nodes[0], "/call?peer="+nodes[2].PeerAddr()))
		began := time.Now()
		get(t, nodes[0], "/call?peer="+nodes[2].PeerAddr())
		require.GreaterOrEqual(t, time.Since(began), rtt)

		traffic := c.Network().Traffic()
		require.EqualValues(t, 1, traffic[wan.Direction{From: "eu", To: "us"}].Connections)
		require.EqualValues(t, 1, traffic[wan.Direction{From: "eu", To: "eu"}].Connections)
	})
	t.Run("come back after a crash, at the same addresses", func(t *testing.T) {
		n := nodes[3]
		pid, addr, done := n.Pid(), n.Addr(), n.Done()
		n.Kill()
		<-done
		require.True(t, gone(pid))
		require.ErrorIs(t, n.Signal(syscall.SIGCONT), os.ErrProcessDone)
		require.NoError(t, n.Terminate(t.Context()), "it has ended already")

		require.NoError(t, n.Restart(t.Context()))
		require.NotEqual(t, pid, n.Pid())
		require.Equal(t, addr, n.Addr())
		require.Equal(t, "us-2", get(t, nodes[0], "/call?peer="+n.PeerAddr()))
	})
	t.Run("drain when they are restarted, and keep one log", func(t *testing.T) {
		n := nodes[2]
		require.NoError(t, n.Restart(t.Context()))
		require.Equal(t, "node us-1 starts\nnode us-1 drained after terminated\nnode us-1 starts\n", n.LogTail())
	})
	t.Run("can be paused and go on", func(t *testing.T) {
		n := nodes[1]
		require.NoError(t, n.Signal(syscall.SIGSTOP))
		require.Eventually(t, func() bool { // a signal may take a moment to reach all threads
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := ask(ctx, n, "/healthz")
			return errors.Is(err, context.DeadlineExceeded)
		}, 5*time.Second, time.Millisecond)
		require.NoError(t, n.Signal(syscall.SIGCONT))
		get(t, n, "/healthz")
	})
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	c := start(t, config())
	require.NoError(t, c.Nodes()[0].Signal(syscall.SIGSTOP), "a paused node is stopped, too")
	c.Nodes()[1].Kill()
	require.NoError(t, c.Close(t.Context()))
	for _, n := range c.Nodes() {
		require.True(t, gone(n.Pid()), n.Name())
	}
	require.NoDirExists(t, c.Dir())
	require.NoError(t, c.Close(t.Context()), "closing again does nothing")
}

func TestCloseKillsWhatDoesNotDrain(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Regions, cfg.NodesPerRegion = []string{"eu"}, 1
	cfg.Env = []string{"FAKE_STOP=hang"}
	cfg.StopTimeout = 100 * time.Millisecond
	c, err := cluster.Start(t.Context(), cfg)
	require.NoError(t, err)
	require.ErrorContains(t, c.Close(t.Context()), "stopping node eu-1")
	require.True(t, gone(c.Nodes()[0].Pid()))
	require.NoDirExists(t, c.Dir())
}

func TestALoneNodeHasNoPeers(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Regions, cfg.NodesPerRegion = []string{"eu"}, 1
	cfg.JWTSecret = strings.Repeat("s", 32)
	n := start(t, cfg).Nodes()[0]
	args, env := get(t, n, "/arguments"), get(t, n, "/environment")
	require.NotContains(t, args, "--join")
	require.NotContains(t, args, "--peer")
	require.NotContains(t, args, "--dev-secret")
	require.NotContains(t, env, "LIKEWISE_GOSSIP_KEY")
	require.Contains(t, env, "LIKEWISE_JWT_SECRET=ssss")
}

func TestANodeMayReachTheDatabaseAtItsOwnAddress(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.DatabaseURLOf = func(node string) string { return "postgres://" + node + "@127.0.0.1:1/test" }
	for _, n := range start(t, cfg).Nodes() {
		require.Contains(t, get(t, n, "/environment"), "LIKEWISE_DATABASE_URL=postgres://"+n.Name()+"@")
	}
}

func TestFailedStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ env, says string }{
		"of a node shows its log":        {"FAKE_FAIL=us-1", "this node was told to fail"},
		"of the migration shows its log": {"FAKE_MIGRATE=fail", "this database cannot be migrated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config()
			cfg.Env = []string{tc.env}
			cfg.Dir = filepath.Join(t.TempDir(), "kept")
			_, err := cluster.Start(t.Context(), cfg)
			require.ErrorContains(t, err, tc.says)
			require.FileExists(t, filepath.Join(cfg.Dir, "migrate.log"), "logs are kept where they were asked for")
		})
	}
	t.Run("for a wrong configuration names every field", func(t *testing.T) {
		t.Parallel()
		_, err := cluster.Start(t.Context(), cluster.Config{Regions: []string{"eu", "eu"}, StopTimeout: -1})
		for _, field := range []string{"Binary", "DatabaseURL", "Regions", "StopTimeout"} {
			require.ErrorContains(t, err, field)
		}
	})
}

func ask(ctx context.Context, n *cluster.Node, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Addr()+path, nil)
	if err != nil {
		return "", err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func get(t *testing.T, n *cluster.Node, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	body, err := ask(ctx, n, path)
	require.NoError(t, err)
	return body
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
