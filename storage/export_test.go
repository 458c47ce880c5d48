package storage

import (
	"math"
	"strings"
)

// KeepCold makes no video hot: all are counted in their cold slots. It must be
// called before the Store is used.
func KeepCold(s *Store) {
	for _, w := range s.committer.workers {
		if a, ok := w.tx.(*attempter); ok {
			a.heat.hotFrom = math.Inf(1)
		}
	}
}

// Statements returns the text of every statement by the name of its file.
func Statements() (map[string]string, error) {
	files, err := sqlFiles.ReadDir("sql")
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".sql")
		texts[name] = statement(name)
	}
	return texts, nil
}

func WriteSettings() map[string]string { return writeSettings() }
func ReadSettings() map[string]string  { return readSettings() }

// UnboundedSQL begins a transaction that may scan.
const UnboundedSQL = unboundedSQL
