package process

import (
	"fmt"
	"io"
	"os"
)

// tailBytes is enough for some twenty lines of log.
const tailBytes = 4096

// Tail returns the end of a log file, for an error message. It never fails:
// what kept it from reading is its answer.
func Tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return fmt.Sprintf("(no log: %v)", err)
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return string(text)
}
