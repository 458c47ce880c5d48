package regions

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// requireGuard asks that a promise holds, and, in a build with the tag
// unguarded, that its test notices when the guard behind it is gone.
func requireGuard(t require.TestingT, holds bool, promise string) {
	require.Equal(t, guarded, holds, promise)
}
