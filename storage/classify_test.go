package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestClassifySQLStates(t *testing.T) {
	t.Parallel()
	cases := []struct {
		state              string
		before, in, commit class // where the error struck
	}{
		{"40001", restart, restart, restart},
		{"40P01", restart, restart, restart},
		{"40003", broken, unknown, unknown},
		{"55P03", outage, outage, unknown},
		{"25P03", outage, outage, unknown},
		{"25P02", outage, outage, unknown},
		{"25006", outage, outage, unknown},
		{"57014", outage, outage, unknown},
		{"57P01", outage, outage, unknown},
		{"57P03", outage, outage, unknown},
		{"53100", outage, outage, unknown},
		{"53300", outage, outage, unknown},
		{"08006", outage, outage, unknown},
		{"23502", broken, broken, broken},
		{"23505", broken, broken, broken},
		{"23514", broken, broken, broken},
		{"22P02", broken, broken, unknown},
		{"42P01", broken, broken, unknown},
		{"XX000", broken, broken, unknown},
	}
	for _, c := range cases {
		t.Run(c.state, func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: c.state})
			require.Equal(t, c.before, classify(err, beforeCommit), "before COMMIT was sent")
			require.Equal(t, c.in, classify(err, commitSent), "in place of a statement before COMMIT")
			require.Equal(t, c.commit, classify(err, atCommit), "in answer to COMMIT")
		})
	}
}

func TestClassifyBrokenConnections(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, net.ErrClosed,
		context.DeadlineExceeded, errors.New("a message nobody reads"),
	} {
		t.Run(err.Error(), func(t *testing.T) {
			t.Parallel()
			require.Equal(t, outage, classify(err, beforeCommit))
			require.Equal(t, unknown, classify(err, commitSent))
			require.Equal(t, unknown, classify(err, atCommit))
		})
	}
}
