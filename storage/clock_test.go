package storage

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClock(t *testing.T) {
	t.Parallel()
	database := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

	t.Run("carries the highest time seen forward", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var c Clock
			require.Zero(t, c.Now())
			c.Observe(database)
			time.Sleep(time.Second)                         //nolint:forbidigo // in a bubble: moves its clock
			c.Observe(database.Add(900 * time.Millisecond)) // took 100 ms to come
			require.Equal(t, database.Add(time.Second), c.Now())
			c.Observe(time.Time{})
			c.Observe(database.Add(1100 * time.Millisecond))
			require.Equal(t, database.Add(1100*time.Millisecond), c.Now())
		})
	})

	t.Run("forgets a lead in time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var c Clock
			c.Observe(database.Add(time.Minute))
			for i := range 70 {
				time.Sleep(time.Second) //nolint:forbidigo // in a bubble: moves its clock
				c.Observe(database.Add(time.Duration(i+1) * time.Second))
			}
			require.Equal(t, database.Add(70*time.Second), c.Now())
		})
	})
}
