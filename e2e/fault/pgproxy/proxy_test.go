package pgproxy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

const patience = 10 * time.Second

// bundle is a proxy, a table of its own, and a connection that goes around the
// proxy and sees what is committed.
type bundle struct {
	proxy  *Proxy
	direct *pgx.Conn
	table  string
}

func setup(t *testing.T) *bundle {
	t.Helper()
	target, err := Target(databaseURL)
	require.NoError(t, err)
	proxy, err := New(t.Context(), target)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })

	b := &bundle{proxy: proxy, table: "t" + strings.ReplaceAll(proxy.Addr()[len("127.0.0.1:"):], ":", "")}
	b.direct = open(t, databaseURL)
	_, err = b.direct.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS "+b.table+" (id INT8 PRIMARY KEY)")
	require.NoError(t, err)
	_, err = b.direct.Exec(t.Context(), "TRUNCATE "+b.table)
	require.NoError(t, err)
	return b
}

func open(t *testing.T, url string, with ...func(*pgx.ConnConfig)) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	for _, f := range with {
		f(cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		_ = conn.Close(ctx) // most are broken by then
		<-conn.PgConn().CleanupDone()
	})
	return conn
}

// dial connects through the proxy. The table's name is the application's name.
func (b *bundle) dial(t *testing.T, with ...func(*pgx.ConnConfig)) *pgx.Conn {
	t.Helper()
	named := func(cfg *pgx.ConnConfig) { cfg.RuntimeParams["application_name"] = b.table }
	conn := open(t, b.url(t), append(with, named)...)
	t.Cleanup(b.proxy.ResetAll) // pgx waits 15 s for the end of a connection that it gave up
	return conn
}

func (b *bundle) url(t *testing.T) string {
	t.Helper()
	url, err := b.proxy.URL(databaseURL)
	require.NoError(t, err)
	return url
}

func mode(m pgx.QueryExecMode) func(*pgx.ConnConfig) {
	return func(cfg *pgx.ConnConfig) { cfg.DefaultQueryExecMode = m }
}

func idleTimeout(d time.Duration) func(*pgx.ConnConfig) {
	return func(cfg *pgx.ConnConfig) {
		cfg.RuntimeParams["idle_in_transaction_session_timeout"] = fmt.Sprint(d.Milliseconds())
	}
}

// write commits a row in one flush.
func (b *bundle) write(t *testing.T, conn *pgx.Conn, id int) error {
	t.Helper()
	batch := &pgx.Batch{}
	batch.Queue("BEGIN")
	batch.Queue("INSERT INTO "+b.table+" VALUES ($1)", id)
	batch.Queue("COMMIT")
	batch.Queue("SELECT clock_timestamp()")
	return send(t, conn, batch, patience)
}

func send(t *testing.T, conn *pgx.Conn, batch *pgx.Batch, timeout time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return conn.SendBatch(ctx, batch).Close()
}

func (b *bundle) rows(t *testing.T) int {
	t.Helper()
	var n int
	require.NoError(t, b.direct.QueryRow(t.Context(), "SELECT count(*) FROM "+b.table).Scan(&n))
	return n
}

// backends counts the server's sessions that came through the proxy.
func (b *bundle) backends(t *testing.T) int {
	t.Helper()
	var n int
	require.NoError(t, b.direct.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", b.table).Scan(&n))
	return n
}

func (b *bundle) awaitNoBackends(t *testing.T) {
	t.Helper()
	b.until(t, func() bool { return b.backends(t) == 0 })
}

// until asks again and again until the condition holds.
func (b *bundle) until(t *testing.T, condition func() bool) {
	t.Helper()
	for start := time.Now(); !condition(); b.idle(t, 5*time.Millisecond) {
		require.Less(t, time.Since(start), patience, "did not come true in time")
	}
}

// idle lets d pass on the server.
func (b *bundle) idle(t *testing.T, d time.Duration) {
	t.Helper()
	_, err := b.direct.Exec(t.Context(), "SELECT pg_sleep($1)", d.Seconds())
	require.NoError(t, err)
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		require.FailNow(t, "did not happen in time", what)
	}
}

func requireOpen(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		require.FailNow(t, "happened too early")
	default:
	}
}

func TestBlackHoleBetweenRoundTrips(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t, idleTimeout(100*time.Millisecond), mode(pgx.QueryExecModeExec))
	bystander := b.dial(t)
	armed := b.proxy.Arm(BlackHoleInTransaction())

	first := &pgx.Batch{}
	first.Queue("BEGIN")
	first.Queue("INSERT INTO "+b.table+" VALUES ($1)", 1)
	require.NoError(t, send(t, conn, first, patience), "the first answer still comes")
	await(t, "took hold", armed.TookHold())
	second := &pgx.Batch{}
	second.Queue("COMMIT")
	require.ErrorIs(t, send(t, conn, second, 50*time.Millisecond), context.DeadlineExceeded)

	// The server frees what the transaction held, and believes in the bystander.
	b.until(t, func() bool { return b.backends(t) == 1 })
	require.Error(t, b.connectWithin(t, 50*time.Millisecond), "nothing answers a new connection")
	requireOpen(t, bystander.PgConn().CleanupDone())

	armed.Heal()
	require.NoError(t, b.connectWithin(t, patience))
	require.NoError(t, b.write(t, bystander, 2), "who waited long enough goes on")
	require.Equal(t, 1, b.rows(t))
}

// connectWithin makes a connection and closes it.
func (b *bundle) connectWithin(t *testing.T, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	conn, err := pgx.Connect(ctx, b.url(t))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func TestBlackHoleDeliversAfterwards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t)
	armed := b.proxy.Arm(BlackHole())
	await(t, "took hold", armed.TookHold())
	written := make(chan error, 1)
	go func() { written <- b.write(t, conn, 1) }()
	b.idle(t, 50*time.Millisecond)
	require.Empty(t, written)
	require.Zero(t, b.rows(t))

	armed.Heal()
	require.NoError(t, <-written)
	require.Equal(t, 1, b.rows(t))
}

func TestBlackHoleHealsByItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t)
	b.proxy.Arm(BlackHole().HealAfter(50 * time.Millisecond))
	require.NoError(t, b.write(t, conn, 1))
}

func TestDelayIsAddedInBothDirections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t, mode(pgx.QueryExecModeExec))
	armed := b.proxy.Arm(Delay(50 * time.Millisecond))
	start := time.Now()
	require.NoError(t, b.write(t, conn, 1))
	require.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)
	await(t, "took hold", armed.TookHold())
	armed.Heal()
	require.NoError(t, b.write(t, conn, 2))
}

func TestRefuseHitsNewConnectionsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t)
	armed := b.proxy.Arm(Refuse())
	requireOpen(t, armed.TookHold())
	require.Error(t, b.connectWithin(t, patience))
	await(t, "took hold", armed.TookHold())
	require.NoError(t, b.write(t, conn, 1))
	armed.Heal()
	require.NoError(t, b.connectWithin(t, patience))
}

func TestResetAllBreaksBothSides(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t)
	b.proxy.ResetAll()
	require.Error(t, b.write(t, conn, 1))
	b.awaitNoBackends(t)
	require.NoError(t, b.write(t, b.dial(t), 2))
}

func TestHealDisarms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	armed := b.proxy.Arm(DropCommitBefore())
	armed.Heal()
	armed.Heal()
	require.NoError(t, b.write(t, b.dial(t), 1))
	requireOpen(t, armed.TookHold())
	require.Equal(t, Unknown, armed.Outcome())
}

func TestFirstArmedStrikesFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.proxy.Arm(DropCommitBefore()), b.proxy.Arm(DropCommitBefore())
	require.Error(t, b.write(t, b.dial(t), 1))
	await(t, "first took hold", first.TookHold())
	requireOpen(t, second.TookHold())
	require.Error(t, b.write(t, b.dial(t), 1))
	await(t, "second took hold", second.TookHold())
}

func TestCloseDropsWhatIsHeld(t *testing.T) {
	t.Parallel()
	b := setup(t)
	armed := b.proxy.Arm(HoldCommit())
	require.Error(t, b.write(t, b.dial(t), 1))
	b.proxy.Arm(BlackHole())
	require.NoError(t, b.proxy.Close())
	await(t, "settled", armed.Done())
	require.Equal(t, NotCommitted, armed.Outcome())
	b.awaitNoBackends(t)
	require.Zero(t, b.rows(t))
}

func TestCancelRequestsPass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t)
	slept := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT pg_sleep(60)")
		slept <- err
	}()
	b.until(t, func() bool {
		return conn.PgConn().CancelRequest(t.Context()) == nil && len(slept) > 0
	})
	var pgErr *pgconn.PgError
	require.ErrorAs(t, <-slept, &pgErr)
	require.Equal(t, "57014", pgErr.SQLState())
}

func TestEncryptionIsDeclined(t *testing.T) {
	t.Parallel()
	b := setup(t)
	url := strings.Replace(b.url(t), "sslmode=disable", "sslmode=prefer", 1)
	require.Contains(t, url, "sslmode=prefer")
	require.NoError(t, b.write(t, open(t, url), 1))
}

func TestBigMessagesPassUnchanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sent := strings.Repeat("0123456789abcdef", 1<<18)
	var got string
	require.NoError(t, b.dial(t).QueryRow(t.Context(), "SELECT $1::text", sent).Scan(&got))
	require.Equal(t, sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(got)))
}

func TestCopyPasses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n, err := b.dial(t).CopyFrom(t.Context(), pgx.Identifier{b.table}, []string{"id"},
		pgx.CopyFromSlice(1000, func(i int) ([]any, error) { return []any{i}, nil }))
	require.NoError(t, err)
	require.EqualValues(t, 1000, n)
	require.Equal(t, 1000, b.rows(t))
}

func TestTargetNamesWhatToChange(t *testing.T) {
	t.Parallel()
	target, err := Target("postgres://u@db.example/x")
	require.NoError(t, err)
	require.Equal(t, "db.example:5432", target)
	_, err = Target("postgres:///x?host=/tmp")
	require.ErrorIs(t, err, errNoHost)
	_, err = New(t.Context(), "nowhere")
	require.ErrorContains(t, err, "host:port")
}

func TestServerThatIsAwayEndsTheConnection(t *testing.T) {
	t.Parallel()
	gone, err := New(t.Context(), "127.0.0.1:1")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gone.Close()) })
	b := &bundle{proxy: gone}
	require.Error(t, b.connectWithin(t, patience))
}

func FuzzFlushesAreParsedOrRefused(f *testing.F) {
	for _, m := range []pgproto3.FrontendMessage{&pgproto3.Parse{Name: "c", Query: "commit"}, &pgproto3.Bind{PreparedStatement: "c"}, &pgproto3.Execute{}} {
		seed, err := m.Encode(nil)
		require.NoError(f, err)
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, body []byte) {
		if len(body) < headerSize {
			return
		}
		_, _ = newStatements().commits([]frame{body})
	})
}
