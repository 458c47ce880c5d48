package storage_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"likewise/storage"
	"likewise/storage/storagetest"
)

const password = "pa55-w0rd"

// refusal opens a Store and returns the ConnectError that says why not.
func refusal(t *testing.T, text string) *storage.ConnectError {
	t.Helper()
	store, err := storage.Open(t.Context(), storage.Config{URL: text})
	if err == nil {
		store.Close()
	}
	return requireRefused(t, err)
}

func requireRefused(t *testing.T, err error) *storage.ConnectError {
	t.Helper()
	var refused *storage.ConnectError
	require.ErrorAs(t, err, &refused)
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), password)
	require.Contains(t, err.Error(), refused.Address)
	return refused
}

// with returns a URL as another user, on another database or with a setting;
// what is empty stays.
func with(t *testing.T, text, user, database string, settings ...string) string {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	if user != "" {
		u.User = url.UserPassword(user, password)
	}
	if database != "" {
		u.Path = "/" + database
	}
	query := u.Query()
	for i := 0; i < len(settings); i += 2 {
		query.Set(settings[i], settings[i+1])
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// role makes a user of the test's database, which may do what grants say.
func role(t *testing.T, text string, grants ...string) (name string) {
	t.Helper()
	name = "likewise_role_" + strings.ToLower(rand.Text()[:8])
	conn := storagetest.Conn(t, text)
	run := func(ctx context.Context, statement string) {
		_, err := conn.Exec(ctx, strings.ReplaceAll(statement, "$ROLE", pgx.Identifier{name}.Sanitize()))
		require.NoError(t, err, statement)
	}
	run(t.Context(), "CREATE ROLE $ROLE LOGIN PASSWORD '"+password+"'")
	for _, grant := range grants {
		run(t.Context(), grant)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, text)
		require.NoError(t, err)
		defer conn.Close(ctx) //nolint:errcheck // the statements' results are in
		for _, statement := range []string{"DROP OWNED BY $ROLE", "DROP ROLE $ROLE"} {
			_, err := conn.Exec(ctx, strings.ReplaceAll(statement, "$ROLE", pgx.Identifier{name}.Sanitize()))
			require.NoError(t, err)
		}
	})
	return name
}

func TestOpenSaysWhyADatabaseRefuses(t *testing.T) {
	t.Parallel()
	whole := storagetest.URL(t)

	t.Run("no such user, or another password", func(t *testing.T) {
		t.Parallel()
		refused := refusal(t, with(t, whole, "nobody_of_this_name", ""))
		require.Equal(t, storage.ReasonWrongPassword, refused.Reason)
		require.Equal(t, "nobody_of_this_name", refused.User)
		user := role(t, whole, "ALTER ROLE $ROLE PASSWORD 'another'")
		require.Equal(t, storage.ReasonWrongPassword, refusal(t, with(t, whole, user, "")).Reason)
	})
	t.Run("no such database", func(t *testing.T) {
		t.Parallel()
		refused := refusal(t, with(t, whole, "", "nothing_of_this_name"))
		require.Equal(t, storage.ReasonNoDatabase, refused.Reason)
		require.Equal(t, "nothing_of_this_name", refused.Database)
	})
	t.Run("no connection left", func(t *testing.T) {
		t.Parallel()
		user := role(t, whole, "ALTER ROLE $ROLE CONNECTION LIMIT 0")
		require.Equal(t, storage.ReasonTooManyConnections, refusal(t, with(t, whole, user, "")).Reason)
	})
	t.Run("a session that takes no writes, as on a standby", func(t *testing.T) {
		t.Parallel()
		user := role(t, whole, "ALTER ROLE $ROLE SET default_transaction_read_only = on")
		require.Equal(t, storage.ReasonNotAWriter, refusal(t, with(t, whole, user, "")).Reason)
	})
	t.Run("a server without TLS, where TLS is demanded", func(t *testing.T) {
		t.Parallel()
		for _, mode := range []string{"require", "verify-full"} {
			require.Equal(t, storage.ReasonTLS, refusal(t, with(t, whole, "", "", "sslmode", mode)).Reason)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		addr := freeAddr(t)
		refused := refusal(t, "postgres://ann:"+password+"@"+addr+"/likewise")
		require.Equal(t, storage.ReasonUnreachable, refused.Reason)
		require.Equal(t, addr, refused.Address)
		require.Equal(t, storage.ReasonUnreachable, refusal(t, "postgres://ann@no-such-host.invalid/likewise").Reason)
	})
	t.Run("a caller who gives up is no fault of the database", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := storage.Open(ctx, storage.Config{URL: whole})
		require.ErrorIs(t, err, context.Canceled)
		var refused *storage.ConnectError
		require.NotErrorAs(t, err, &refused)
	})
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	return ln.Addr().String()
}

// serving answers every connection until the test has ended.
func serving(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			answer(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, ln.Close())
		<-ended
	})
	return ln.Addr().String()
}

func TestOpenReadsTheServersState(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]storage.ConnectReason{
		"28P01": storage.ReasonWrongPassword,
		"28000": storage.ReasonWrongPassword,
		"3D000": storage.ReasonNoDatabase,
		"42501": storage.ReasonNoRights,
		"53300": storage.ReasonTooManyConnections,
		"57P03": storage.ReasonStarting,
		"25006": storage.ReasonNotAWriter,
		"XX000": storage.ReasonOther,
	} {
		addr := serving(t, func(conn net.Conn) {
			server := pgproto3.NewBackend(conn, conn)
			if _, err := server.ReceiveStartupMessage(); err != nil {
				return
			}
			server.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: state, Message: "the password is wrong,\n and nobody reads this"})
			_ = server.Flush()
		})
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			refused := refusal(t, "postgres://ann:"+password+"@"+addr+"/likewise?sslmode=disable")
			require.Equal(t, want, refused.Reason)
			require.Contains(t, refused.Error(), "(SQLSTATE "+state+")")
		})
	}
}

func TestOpenSaysWhatAnswersInPlaceOfADatabase(t *testing.T) {
	t.Parallel()
	certificate := selfSigned(t)
	for name, c := range map[string]struct {
		answer func(net.Conn)
		mode   string
		want   storage.ConnectReason
	}{
		"a web server": {func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 8))
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}, "disable", storage.ReasonUnreachable},
		"somebody who hangs up": {func(net.Conn) {}, "disable", storage.ReasonUnreachable},
		"a certificate that nobody signed": {func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 8))
			_ = binary.Write(conn, binary.BigEndian, uint8('S'))
			_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}).Handshake()
		}, "verify-full", storage.ReasonTLS},
	} {
		addr := serving(t, c.answer)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused := refusal(t, "postgres://ann:"+password+"@"+addr+"/likewise?sslmode="+c.mode)
			require.Equal(t, c.want, refused.Reason, refused)
		})
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestMigrateSaysThatARightIsMissing(t *testing.T) {
	t.Parallel()
	empty := storagetest.EmptyURL(t)
	user := role(t, empty)
	store, err := storage.Open(t.Context(), storage.Config{URL: with(t, empty, user, "")})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	require.Equal(t, storage.ReasonNoRights, requireRefused(t, store.Migrate(t.Context(), storagetest.Regions())).Reason)
	require.ErrorIs(t, store.CheckRights(t.Context()), storage.ErrNoSchema)
}

func TestRightsThatAreMissingAreNamed(t *testing.T) {
	t.Parallel()
	whole := storagetest.URL(t)
	open := func(grants ...string) *storage.Store {
		store, err := storage.Open(t.Context(), storage.Config{URL: with(t, whole, role(t, whole, grants...), "")})
		require.NoError(t, err)
		t.Cleanup(store.Close)
		return store
	}
	nothing := open()
	_, err := nothing.Topology(t.Context())
	require.Equal(t, storage.ReasonNoRights, requireRefused(t, err).Reason)
	_, err = nothing.NextIncarnation(t.Context(), "node-1")
	require.Equal(t, storage.ReasonNoRights, requireRefused(t, err).Reason)

	reader := open("GRANT SELECT ON ALL TABLES IN SCHEMA public TO $ROLE", "GRANT INSERT ON changes TO $ROLE")
	_, err = reader.Topology(t.Context())
	require.NoError(t, err)
	refused := requireRefused(t, reader.CheckRights(t.Context()))
	require.Equal(t, storage.ReasonNoRights, refused.Reason)
	require.Contains(t, refused.Missing, "UPDATE on slots")
	require.NotContains(t, refused.Missing, "INSERT on changes")

	all := open("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO $ROLE")
	require.NoError(t, all.CheckRights(t.Context()))
}

// With the rights that CheckRights asks for, and no others, everything that
// serving does works.
func TestTheRightsAskedForAreEnough(t *testing.T) {
	t.Parallel()
	text := storagetest.URL(t)
	user := role(t, text,
		"GRANT SELECT ON topology, nodes, videos, slots, reactions, counter_shards, changes, idempotency TO $ROLE",
		"GRANT INSERT ON nodes, videos, reactions, counter_shards, changes, idempotency TO $ROLE",
		"GRANT UPDATE ON nodes, videos, slots, reactions, counter_shards, idempotency TO $ROLE")
	store := storagetest.Open(t, with(t, text, user, ""))
	require.NoError(t, store.CheckRights(t.Context()))
	_, err := store.NextIncarnation(t.Context(), "node-1")
	require.NoError(t, err)
	for _, desired := range []storage.Reaction{storage.Like, storage.Dislike, storage.None} {
		ask := set("cat", "ann", desired)
		ask.IdempotencyKey = "key-" + desired.String()
		_, err = store.Set(t.Context(), ask)
		require.NoError(t, err)
	}
	_, err = store.SetVideoState(t.Context(), "cat", storage.VideoDisabled)
	require.NoError(t, err)
	_, err = store.Get(t.Context(), slotOf("cat", "ann"), "cat", "ann")
	require.NoError(t, err)
	_, err = store.CountShards(t.Context(), "cat")
	require.NoError(t, err)
}

func TestAURLThatHidesItsPasswordBadlyIsRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"postgres://ann:12/" + password + "@db/likewise", // the host would be ann, its port 12, the rest the database
		"postgres://ann:pa/" + password + "@db/likewise",
		"postgres://ann:" + password + "@db:port/likewise",
		"http://ann:" + password + "@db/likewise",
		"",
	} {
		_, err := storage.Open(t.Context(), storage.Config{URL: bad})
		require.ErrorContains(t, err, "URL: want postgres://", bad)
		require.NotContains(t, err.Error(), password)
	}
	require.NoError(t, storage.Config{URL: "postgres://ann:12%2Fx%40y@db/likewise?sslmode=disable"}.Validate())
	require.NoError(t, storage.Config{URL: "host=/run/postgresql user=ann dbname=likewise"}.Validate())
}
