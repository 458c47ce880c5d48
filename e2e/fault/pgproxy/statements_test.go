package pgproxy

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

func TestCommitIsRecognized(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"commit":                             true,
		"COMMIT;":                            true,
		" Commit work ; ":                    true,
		"end":                                true,
		"end transaction and no chain":       true,
		"-- why\ncommit":                     true,
		"/* why; */ commit":                  true,
		"begin; insert into t; commit":       true,
		"insert into t values ('x'); end":    true,
		"":                                   false,
		";":                                  false,
		"-- commit":                          false,
		"/* ; commit":                        false,
		"commit prepared 'x'":                false,
		"rollback":                           false,
		"select '; commit; '":                false,
		`select "; commit; " from t`:         false,
		"select 'it''s; commit;'":            false,
		"select 1 -- ;\n , 2 /* ; commit */": false,
		"insert into commit values (1)":      false,
	} {
		require.Equal(t, want, slices.ContainsFunc(split(sql), isCommit), "%q", sql)
	}
}

func TestFlushIsCutBeforeWhatBelongsToTheCommit(t *testing.T) {
	t.Parallel()
	var (
		parse    = &pgproto3.Parse{Name: "c", Query: "commit"}
		bind     = &pgproto3.Bind{PreparedStatement: "c"}
		describe = &pgproto3.Describe{ObjectType: 'P'}
		execute  = &pgproto3.Execute{}
		other    = []pgproto3.FrontendMessage{
			&pgproto3.Parse{Query: "insert into t values (1)"}, &pgproto3.Bind{}, describe, execute,
		}
	)
	for name, test := range map[string]struct {
		commit []pgproto3.FrontendMessage
		want   []int
	}{
		"parsed in the same flush":     {[]pgproto3.FrontendMessage{parse, bind, describe, execute}, []int{4}},
		"without describe":             {[]pgproto3.FrontendMessage{parse, bind, execute}, []int{4}},
		"statement described too":      {[]pgproto3.FrontendMessage{parse, &pgproto3.Describe{ObjectType: 'S', Name: "c"}, bind, describe, execute}, []int{4}},
		"two of them":                  {[]pgproto3.FrontendMessage{parse, bind, execute, bind, execute}, []int{4, 7}},
		"as a simple query":            {[]pgproto3.FrontendMessage{&pgproto3.Query{String: "commit"}}, []int{4}},
		"parsed but not executed":      {[]pgproto3.FrontendMessage{parse, &pgproto3.Sync{}}, nil},
		"bound, then another executed": {[]pgproto3.FrontendMessage{parse, bind, &pgproto3.Bind{PreparedStatement: "gone"}, execute}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flush := encode(t, slices.Concat(other, test.commit))

			got, err := newStatements().commits(flush)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestPreparedCommitIsKnownInLaterFlushes(t *testing.T) {
	t.Parallel()
	s := newStatements()
	got, err := s.commits(encode(t, []pgproto3.FrontendMessage{
		&pgproto3.Parse{Name: "a", Query: "commit"},
		&pgproto3.Parse{Name: "b", Query: "begin"},
		&pgproto3.Sync{},
	}))
	require.NoError(t, err)
	require.Empty(t, got)

	got, err = s.commits(encode(t, []pgproto3.FrontendMessage{
		&pgproto3.Bind{PreparedStatement: "b"}, &pgproto3.Execute{},
		&pgproto3.Bind{PreparedStatement: "a"}, &pgproto3.Execute{},
		&pgproto3.Sync{},
	}))
	require.NoError(t, err)
	require.Equal(t, []int{2}, got)
}

func encode(t *testing.T, messages []pgproto3.FrontendMessage) []frame {
	t.Helper()
	var frames []frame
	for _, m := range messages {
		f, err := m.Encode(nil)
		require.NoError(t, err)
		frames = append(frames, f)
	}
	return frames
}
