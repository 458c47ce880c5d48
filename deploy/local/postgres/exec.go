package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Exec runs one statement in one of the server's databases, as the user of its
// URL. It is for tests that need roles, rights or limits.
func (s *Server) Exec(ctx context.Context, database, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, ddlTimeout)
	defer cancel()
	err := withConn(ctx, s.URL(database), func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
	if err != nil {
		return fmt.Errorf("running a statement in %q: %w", database, err)
	}
	return nil
}
