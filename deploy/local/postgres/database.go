package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// connectTimeout bounds one attempt: a server that starts may accept a
	// connection and not answer it.
	connectTimeout = 5 * time.Second
	// ddlTimeout bounds making or removing a database.
	ddlTimeout = 30 * time.Second
)

// CreateDatabase makes a database with nothing in it. One that exists already
// is left as it is. Several callers may make the same one at once.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	// template0: nobody is ever connected to it, which would make this fail.
	err := s.exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0")
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pgErr.SQLState() {
		case "42P04", // duplicate_database
			"23505": // unique_violation: another caller's is being made
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("creating database %q: %w", name, err)
	}
	return nil
}

// DropDatabase removes a database and disconnects who uses it. One that does
// not exist is no error.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	if err := s.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("dropping database %q: %w", name, err)
	}
	return nil
}

// exec runs one statement on the database that the server's own URL names.
func (s *Server) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, ddlTimeout)
	defer cancel()
	return withConn(ctx, s.url.String(), func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

func readVersion(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var full string
	err := withConn(ctx, url, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT version()").Scan(&full)
	})
	return shortVersion(full), err
}

func withConn(ctx context.Context, url string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer hangUp(ctx, conn)
	return do(conn)
}

// hangUp says goodbye even if ctx has ended: the server would otherwise have
// to find out by itself.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
