package storage

import "math"

// KeepCold makes no video hot: all are counted in their cold slots. It must be
// called before the Store is used.
func KeepCold(s *Store) {
	for _, w := range s.committer.workers {
		if a, ok := w.tx.(*attempter); ok {
			a.heat.hotFrom = math.Inf(1)
		}
	}
}
