//go:build unguarded

package storage

import "testing"

// Guards that negative controls switch off, for tests outside the package.
type Guard *bool

func HeadLock() Guard        { return &guardHeadLock }
func LockAlone() Guard       { return &guardLockAlone }
func ExactHeads() Guard      { return &guardExactHeads }
func Fences() Guard          { return &guardFences }
func ShardOrder() Guard      { return &guardShardOrder }
func LookUp() Guard          { return &guardLookUp }
func LookUpUnderLock() Guard { return &guardLookUpUnderLock }
func SessionLimits() Guard   { return &guardSessionLimits }
func CounterSlot() Guard     { return &guardCounterSlot }
func VideoBarrier() Guard    { return &guardVideoBarrier }

// SwitchOff switches guards off until the test has ended.
func SwitchOff(t *testing.T, guards ...Guard) {
	t.Helper()
	for _, g := range guards {
		*g = false
		t.Cleanup(func() { *g = true })
	}
}
