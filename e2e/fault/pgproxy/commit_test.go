package pgproxy

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func modes() []pgx.QueryExecMode {
	return []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
}

func TestCommitFaultsInEveryQueryMode(t *testing.T) {
	t.Parallel()
	for _, m := range modes() {
		for _, f := range Faults() {
			if f.When != CommitSent && f.When != CommitAnswered {
				continue
			}
			t.Run(m.String()+"/"+f.Name, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				conn := b.dial(t, mode(m))
				require.NoError(t, b.write(t, conn, 1), "nothing is armed")
				armed := b.proxy.Arm(f.On(2))
				require.NoError(t, b.write(t, conn, 2), "not yet the moment")
				requireOpen(t, armed.TookHold())

				requireCommitHit(t, b, conn, armed)
			})
		}
	}
}

// requireCommitHit writes row 3 and checks what the armed fault promises.
func requireCommitHit(t *testing.T, b *bundle, conn *pgx.Conn, armed *Armed) {
	t.Helper()
	timeout := patience
	if armed.Fault().Client == Silent {
		timeout = 500 * time.Millisecond
	}
	batch := &pgx.Batch{}
	batch.Queue("BEGIN")
	batch.Queue("INSERT INTO "+b.table+" VALUES ($1)", 3)
	batch.Queue("COMMIT")
	require.Error(t, send(t, conn, batch, timeout))
	await(t, "took hold", armed.TookHold())

	late := armed.Fault().When == CommitSent && armed.Fault().Commit != CommitLost
	if late {
		requireOpen(t, armed.Done())
		require.Equal(t, 2, b.rows(t))
		armed.Heal()
	}
	await(t, "settled", armed.Done())
	want, rows := Committed, 3
	if armed.Fault().When == CommitSent && armed.Fault().Commit == CommitLost {
		want, rows = NotCommitted, 2
	}
	require.Equal(t, want, armed.Outcome(), armed.Outcome())
	if armed.Fault().Client == Silent {
		b.proxy.ResetAll()
	}
	b.awaitNoBackends(t)
	require.Equal(t, rows, b.rows(t))
	require.NoError(t, b.write(t, b.dial(t), 4), "the next connection works")
}

func TestHeldCommitOutlivesTheIdleTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t, idleTimeout(50*time.Millisecond))
	armed := b.proxy.Arm(HoldCommit())
	require.Error(t, b.write(t, conn, 1))
	b.idle(t, 300*time.Millisecond)
	require.Equal(t, 1, b.backends(t))

	armed.Heal()
	await(t, "settled", armed.Done())
	require.Equal(t, Committed, armed.Outcome())
	require.Equal(t, 1, b.rows(t))
}

// A client that sees its connection break asks the server, on a new one, to
// cancel what still runs there.
func TestHeldCommitIsNotCancelled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t, mode(pgx.QueryExecModeExec))
	armed := b.proxy.Arm(HoldCommit())
	batch := &pgx.Batch{}
	batch.Queue("BEGIN")
	batch.Queue("INSERT INTO " + b.table + " SELECT 1 FROM pg_sleep(0.3)")
	batch.Queue("COMMIT")
	require.Error(t, send(t, conn, batch, patience))
	<-conn.PgConn().CleanupDone() // the request to cancel is out

	armed.Heal()
	await(t, "settled", armed.Done())
	require.Equal(t, Committed, armed.Outcome())
	require.Equal(t, 1, b.rows(t))
}

func TestHeldFlushIsRefusedAfterTheIdleTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t, idleTimeout(time.Second))
	first := &pgx.Batch{}
	first.Queue("BEGIN")
	first.Queue("INSERT INTO "+b.table+" VALUES ($1)", 1)
	require.NoError(t, send(t, conn, first, patience))

	armed := b.proxy.Arm(HoldFlush())
	second := &pgx.Batch{}
	second.Queue("COMMIT")
	require.Error(t, send(t, conn, second, patience))
	b.awaitNoBackends(t)
	armed.Heal()
	await(t, "settled", armed.Done())
	require.Equal(t, NotCommitted, armed.Outcome())
	require.Zero(t, b.rows(t))
}

func TestHeldCommitHealsByItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	armed := b.proxy.Arm(HoldCommit().HealAfter(20 * time.Millisecond))
	require.Error(t, b.write(t, b.dial(t), 1))
	await(t, "settled", armed.Done())
	require.Equal(t, Committed, armed.Outcome())
	require.Equal(t, 1, b.rows(t))
}

func TestHeldCommitOfAFailedTransactionIsNotCommitted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t)
	require.NoError(t, b.write(t, conn, 1))
	armed := b.proxy.Arm(HoldCommit())
	require.Error(t, b.write(t, conn, 1), "a duplicate")
	armed.Heal()
	await(t, "settled", armed.Done())
	require.Equal(t, NotCommitted, armed.Outcome())
	require.Equal(t, 1, b.rows(t))
}
