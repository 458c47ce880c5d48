//go:build !unguarded

package regions

const guarded = true
