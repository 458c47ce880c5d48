package regions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTokensComeBack(t *testing.T) {
	t.Parallel()
	for _, want := range []time.Time{
		time.UnixMicro(1).UTC(),
		time.Date(2026, 11, 30, 12, 0, 0, 123_456_000, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		got, err := parseToken(formatToken(want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// The form of a token must not change: clients keep them.
func TestTokenGolden(t *testing.T) {
	t.Parallel()
	require.Equal(t, "AQAGQnRQYEAA", formatToken(time.UnixMicro(0x642_74_50_60_40_00)))
}

func TestOtherTokensAreRefused(t *testing.T) {
	t.Parallel()
	good := formatToken(time.UnixMicro(1_796_040_000_123_456))
	for name, token := range map[string]string{
		"empty":            "",
		"short":            good[:11],
		"long":             good + "A",
		"padded":           good + "=",
		"another version":  "Ag" + good[2:],
		"zero":             "AQAAAAAAAAAA",
		"before 1970":      "Af__________",
		"not the alphabet": "+" + good[1:],
		"a line break":     good[:6] + "\n" + good[7:],
		"a space":          good[:6] + " " + good[7:],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseToken(token)
			require.Equal(t, errBadToken, err)
		})
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(formatToken(time.UnixMicro(1_796_040_000_123_456)))
	f.Add("Af__________")
	f.Add("AQAA\nAAAAAA=")
	f.Fuzz(func(t *testing.T, token string) {
		at, err := parseToken(token)
		if err == nil {
			require.Equal(t, token, formatToken(at), "one time, one token")
		}
	})
}

func FuzzValidID(f *testing.F) {
	f.Add("A-z.0_9~:@+=,|")
	f.Add("a/b")
	f.Add("a\x00")
	f.Fuzz(func(t *testing.T, id string) {
		if !validID(id) {
			return
		}
		require.LessOrEqual(t, len(id), maxID)
		for _, r := range id {
			require.Greater(t, r, ' ')
			require.NotContains(t, `/\%?#&"'<>`, string(r))
		}
	})
}
