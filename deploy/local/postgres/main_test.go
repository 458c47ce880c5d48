package postgres

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		runAsParent()
		return
	}
	goleak.VerifyTestMain(m)
}
