package pgproxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// statements remembers what one connection's prepared statements and portals
// stand for. It is not safe for concurrent use.
type statements struct {
	prepared map[string]string // statement name → SQL
	portals  map[string]string // portal name → SQL
}

func newStatements() *statements {
	return &statements{prepared: map[string]string{}, portals: map[string]string{}}
}

// commits learns from a flush and returns, for each COMMIT in it, the index of
// the first frame that exists only for that COMMIT: what stands before can
// reach the server without it.
func (s *statements) commits(flush []frame) ([]int, error) {
	var found []int
	for i, f := range flush {
		commit, err := s.learn(f)
		if err != nil {
			return nil, err
		}
		if commit {
			found = append(found, firstOf(flush, i))
		}
	}
	return found, nil
}

// learn takes note of one frame and reports whether it makes the server commit.
func (s *statements) learn(f frame) (commit bool, err error) {
	switch f.kind() {
	case msgParse:
		var m pgproto3.Parse
		if err := m.Decode(f.body()); err != nil {
			return false, fmt.Errorf("decoding Parse: %w", err)
		}
		s.prepared[m.Name] = m.Query
	case msgBind:
		var m pgproto3.Bind
		if err := m.Decode(f.body()); err != nil {
			return false, fmt.Errorf("decoding Bind: %w", err)
		}
		s.portals[m.DestinationPortal] = s.prepared[m.PreparedStatement]
	case msgExecute:
		var m pgproto3.Execute
		if err := m.Decode(f.body()); err != nil {
			return false, fmt.Errorf("decoding Execute: %w", err)
		}
		return slices.ContainsFunc(split(s.portals[m.Portal]), isCommit), nil
	case msgQuery:
		var m pgproto3.Query
		if err := m.Decode(f.body()); err != nil {
			return false, fmt.Errorf("decoding Query: %w", err)
		}
		return slices.ContainsFunc(split(m.String), isCommit), nil
	}
	return false, nil
}

// firstOf walks back from the Execute at i over the messages that prepare it:
// at most one Describe, Bind, Describe and Parse each, in this order.
func firstOf(flush []frame, i int) int {
	if flush[i].kind() != msgExecute {
		return i
	}
	for _, kind := range []byte{msgDescribe, msgBind, msgDescribe, msgParse} {
		if i > 0 && flush[i-1].kind() == kind {
			i--
		}
	}
	return i
}

// isCommit reports whether a statement without comments commits a transaction.
func isCommit(statement string) bool {
	words := strings.Fields(strings.ToLower(statement))
	if len(words) == 0 || words[0] != "commit" && words[0] != "end" {
		return false
	}
	return len(words) == 1 || words[1] != "prepared"
}

// split returns the statements of a query string, without comments. It knows
// '…', "…", -- and /* */, but not dollar quotes.
func split(sql string) []string {
	var out []string
	var current strings.Builder
	for sql != "" {
		switch n := tokenLen(sql); {
		case strings.HasPrefix(sql, "--"), strings.HasPrefix(sql, "/*"):
			current.WriteByte(' ')
			sql = sql[n:]
		case sql[0] == ';':
			out = append(out, current.String())
			current.Reset()
			sql = sql[n:]
		default:
			current.WriteString(sql[:n])
			sql = sql[n:]
		}
	}
	return append(out, current.String())
}

// tokenLen returns how many bytes of sql, which is not empty, belong together:
// a comment, a quoted text, or one byte.
func tokenLen(sql string) int {
	switch {
	case strings.HasPrefix(sql, "--"):
		return through(sql, 2, "\n")
	case strings.HasPrefix(sql, "/*"):
		return through(sql, 2, "*/")
	case sql[0] == '\'':
		return through(sql, 1, "'")
	case sql[0] == '"':
		return through(sql, 1, `"`)
	default:
		return 1
	}
}

// through returns the length of sql up to and with the first end at or after
// from; all of it if there is none.
func through(sql string, from int, end string) int {
	at := strings.Index(sql[from:], end)
	if at < 0 {
		return len(sql)
	}
	return from + at + len(end)
}
