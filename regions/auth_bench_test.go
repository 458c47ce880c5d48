package regions

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkVerify is the first call with a token, by kind of key. The next ones
// cost what BenchmarkWhoCalls/remembered says.
func BenchmarkVerify(b *testing.B) {
	keys, from := testSigners(), fuzzedDoor(b)
	from.cfg.Issuer, from.cfg.Audience = "", nil
	for name, token := range map[string]string{
		"HS256": keys.secret.issue(b, ""),
		"RS256": keys.rsa.issue(b, "rsa"),
		"ES256": keys.ec.issue(b, "ec"),
		"EdDSA": keys.ed.issue(b, "ed"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := from.verify(b.Context(), token)
				require.NoError(b, err)
			}
		})
	}
	b.Run("refused", func(b *testing.B) {
		token := keys.otherSecret.issue(b, "")
		b.ReportAllocs()
		for b.Loop() {
			_, err := from.verify(b.Context(), token)
			require.Equal(b, errBadSignature, err)
		}
	})
}
