package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const scratchPrefix = "likewise-postgres-"

// scratch is a temporary folder that another account can pass through by
// knowing its name. A lock on a file in it, which the system releases when
// this process ends in whatever way, tells it from one that was left behind.
type scratch struct {
	dir  string
	lock *os.File
}

// newScratch makes a scratch folder, and removes those that were left behind
// by processes that were killed. If TMPDIR is closed to the server's account,
// it lies in /tmp.
func newScratch() (*scratch, error) {
	owner, err := serverAccount()
	if err != nil {
		return nil, err
	}
	parent := os.TempDir()
	if owner.canReach(filepath.Join(parent, scratchPrefix)) != nil {
		parent = "/tmp"
	}
	sweep(parent)
	dir, err := os.MkdirTemp(parent, scratchPrefix)
	if err != nil {
		return nil, fmt.Errorf("making a temporary folder: %w", err)
	}
	s := &scratch{dir: dir}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the temporary folder: %w", err), s.remove())
	}
	return s, nil
}

func (s *scratch) open() (err error) {
	// Locked before it has the name that a sweep looks for.
	if s.lock, err = os.Create(filepath.Join(s.dir, "new-lock")); err != nil {
		return err
	}
	if err := flock(s.lock); err != nil {
		return err
	}
	if err := os.Rename(s.lock.Name(), lockOf(s.dir)); err != nil {
		return err
	}
	return os.Chmod(s.dir, 0o711) //nolint:gosec // to be passed through
}

// remove removes the folder. Doing so again does nothing.
func (s *scratch) remove() error {
	err := os.RemoveAll(s.dir)
	if s.lock != nil {
		_ = s.lock.Close() // may be closed already
	}
	return err
}

// sweep removes the caller's scratch folders that nobody holds any more. What
// it cannot remove stays for the next sweep.
func sweep(parent string) {
	// Glob fails on a malformed pattern only; then there is nothing to sweep.
	dirs, _ := filepath.Glob(filepath.Join(parent, scratchPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || int(ownerOf(info)) != os.Geteuid() {
			continue
		}
		lock, err := os.Open(lockOf(dir))
		if err != nil {
			continue
		}
		if flock(lock) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}

func lockOf(dir string) string { return filepath.Join(dir, "lock") }

func flock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
