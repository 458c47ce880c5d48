package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"likewise/deploy/local/cluster"
	"likewise/deploy/local/wan"
	"likewise/e2e/check"
	"likewise/e2e/traffic"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/routing"
	"likewise/storage"
	"likewise/storage/storagetest"
)

const (
	secret = "a secret of the end-to-end tests and of nothing else"
	// patience bounds everything that should happen soon. It is long, because
	// the machine may be busy.
	patience = 30 * time.Second
)

var regionNames = []string{"eu", "us", "ap"}

// deployment is a running cluster with a database of its own.
type deployment struct {
	*cluster.Cluster
	url     string // of the database
	store   *storage.Store
	pool    *pgxpool.Pool // to look into the database
	http    *http.Client
	clients map[string]likewisev1connect.ReactionServiceClient // by node
}

// deploy runs three regions of two nodes until the test has ended, and returns
// when every node knows all others.
func deploy(t testing.TB, options ...func(*cluster.Config)) *deployment {
	t.Helper()
	cfg := cluster.Config{
		Regions:     regionNames,
		RTT:         wan.Uniform(40 * time.Millisecond),
		DatabaseURL: freshDatabase(t),
		JWTSecret:   secret,
		Args:        []string{"--gossip-rejoin", "500ms"},
	}
	for _, o := range options {
		o(&cfg)
	}
	if cfg.Binary == "" {
		cfg.Binary = binary(t)
	}
	c, err := cluster.Start(t.Context(), cfg)
	require.NoError(t, err)
	d := &deployment{Cluster: c, url: cfg.DatabaseURL, clients: map[string]likewisev1connect.ReactionServiceClient{}}
	t.Cleanup(func() { d.close(t) })
	d.store, err = storage.Open(t.Context(), storage.Config{URL: d.url})
	require.NoError(t, err)
	d.pool, err = pgxpool.New(t.Context(), d.url)
	require.NoError(t, err)
	d.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true}}
	for _, n := range c.Nodes() {
		d.clients[n.Name()] = traffic.Dial(d.http, n.Addr())
	}
	d.awaitHealth(t)
	return d
}

func (d *deployment) close(t testing.TB) {
	t.Helper()
	if t.Failed() {
		for _, n := range d.Nodes() {
			t.Logf("the log of %s ends with\n%s", n.Name(), n.LogTail())
		}
	}
	if d.http != nil {
		d.http.CloseIdleConnections()
	}
	if d.store != nil {
		d.store.Close()
	}
	if d.pool != nil {
		d.pool.Close()
	}
	require.NoError(t, d.Close(context.WithoutCancel(t.Context())))
}

// unhurried makes nodes wait for each other for as long as callers do, so that a
// busy machine is not taken for a broken one.
func unhurried(cfg *cluster.Config) { cfg.Args = append(cfg.Args, "--peer-timeout", patience.String()) }

// node returns the node of that name.
func (d *deployment) node(name string) *cluster.Node {
	for _, n := range d.Nodes() {
		if n.Name() == name {
			return n
		}
	}
	panic("there is no node " + name)
}

// others returns all nodes but one.
func (d *deployment) others(name string) []*cluster.Node {
	var others []*cluster.Node
	for _, n := range d.Nodes() {
		if n.Name() != name {
			others = append(others, n)
		}
	}
	return others
}

// frontDoors returns the front doors by region, for traffic.
func (d *deployment) frontDoors() []traffic.Region {
	var regions []traffic.Region
	for _, n := range d.Nodes() {
		if last := len(regions) - 1; last >= 0 && regions[last].Name == n.Region() {
			regions[last].Addrs = append(regions[last].Addrs, n.Addr())
		} else {
			regions = append(regions, traffic.Region{Name: n.Region(), Addrs: []string{n.Addr()}})
		}
	}
	return regions
}

// homeOf returns the name of the node to which a healthy cluster sends the
// writes of a key.
func (d *deployment) homeOf(key check.Key) string {
	var regions []routing.Region
	for _, name := range regionNames {
		regions = append(regions, routing.Region(name))
	}
	topology, err := routing.NewTopology(1, routing.Contiguous(regions))
	if err != nil {
		panic(err)
	}
	var nodes []routing.Node
	for _, n := range d.Nodes() {
		nodes = append(nodes, routing.Node{Name: n.Name(), Region: routing.Region(n.Region()), State: routing.Ready})
	}
	home, _ := routing.NewMap(topology, nodes).HomeNode(routing.SlotOf(string(key.Video), string(key.User)))
	return home.Name
}

// keysAt returns n keys of a video whose home is one node.
func (d *deployment) keysAt(home, video string, n int) []check.Key {
	var keys []check.Key
	for i := 0; len(keys) < n; i++ {
		key := keyOf(video, fmt.Sprintf("user-%d", i))
		if d.homeOf(key) == home {
			keys = append(keys, key)
		}
	}
	return keys
}

func keyOf(video, user string) check.Key {
	return check.Key{Video: storage.VideoID(video), User: storage.UserID(user)}
}

// awaitHealth waits until every node knows all nodes as ready, and avoids none.
func (d *deployment) awaitHealth(t testing.TB) {
	t.Helper()
	if len(d.Nodes()) == 1 {
		return // it runs without a map
	}
	ready := fmt.Sprintf("likewise_routing_nodes{state=%q} %d\n", "ready", len(d.Nodes()))
	for _, n := range d.Nodes() {
		eventually(t, n.Name()+" knows all nodes as ready and avoids none", func() bool {
			metrics := d.metrics(t.Context(), n)
			return strings.Contains(metrics, ready) && strings.Contains(metrics, "likewise_regions_peers_avoided 0\n")
		})
	}
}

// metrics returns what a node says of itself, or nothing.
func (d *deployment) metrics(ctx context.Context, n *cluster.Node) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Addr()+"/metrics", http.NoBody)
	if err != nil {
		return ""
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(text)
}

// metric returns one sample of a node's metrics, or -1.
func (d *deployment) metric(ctx context.Context, n *cluster.Node, name string) float64 {
	value := -1.0
	for line := range strings.Lines(d.metrics(ctx, n)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			_, _ = fmt.Sscan(rest, &value)
		}
	}
	return value
}

// awaitQuiet waits until no transaction of a node is open, and none changes
// anything, for longer than a node pauses between two attempts.
func (d *deployment) awaitQuiet(t *testing.T) {
	t.Helper()
	const window = 1500 * time.Millisecond
	conn := storagetest.Conn(t, d.url)
	var last int64
	var since time.Time
	eventually(t, "no transaction is open and nothing changes", func() bool {
		var open, changes int64
		err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'likewise-write' AND state <> 'idle'),
			(SELECT sum(next_offset) FROM slots)`).Scan(&open, &changes)
		if err != nil || open > 0 || changes != last || since.IsZero() {
			last, since = changes, time.Now()
		}
		return err == nil && time.Since(since) > window
	})
}

// eventually waits for a condition, and fails the test if it does not come.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, patience, 10*time.Millisecond, what)
}

// token mints a user's token.
func token(user string) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Subject:   user,
		ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour)),
	}).SignedString([]byte(secret))
}
