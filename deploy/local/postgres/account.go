package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is whom the server runs as. The zero value is the caller.
type account struct {
	name       string
	credential *syscall.Credential // nil: the caller, who is not root
}

// clusterAccount chooses whom the server of an existing cluster runs as: the
// caller or, for root, the cluster's owner.
func clusterAccount(owner uint32) (account, error) {
	if os.Geteuid() != 0 || owner == 0 {
		return serverAccount()
	}
	u, err := user.LookupId(strconv.FormatUint(uint64(owner), 10))
	if err != nil {
		return account{}, fmt.Errorf("looking up the owner of the data folder: %w", err)
	}
	return newAccount(u)
}

// serverAccount chooses whom the server of a new cluster runs as: the caller or,
// for root, "postgres" or "nobody".
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return newAccount(u)
		}
	}
	return account{}, errors.New(`PostgreSQL refuses to run as root, and there is no account "postgres" or "nobody": add one, or run as another user`)
}

func newAccount(u *user.User) (account, error) {
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return account{}, fmt.Errorf("reading the ids of account %q: %w", u.Username, err)
	}
	return account{
		name:       u.Username,
		credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
	}, nil
}

// own gives a file or folder to the account.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	if err := os.Chown(path, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
		return fmt.Errorf("giving %s to %q: %w", path, a.name, err)
	}
	return nil
}

// canReach checks that the account may pass through every folder above path.
func (a account) canReach(path string) error {
	if a.credential == nil {
		return nil
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("looking at %s: %w", dir, err)
		}
		if !a.canEnter(info) {
			return fmt.Errorf("the server runs as %q, whom the folder %s lets not through: choose another place, or chmod o+x %s", a.name, dir, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func (a account) canEnter(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	mode := info.Mode().Perm()
	switch {
	case stat.Uid == a.credential.Uid:
		return mode&0o100 != 0
	case stat.Gid == a.credential.Gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

func ownerOf(info fs.FileInfo) uint32 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Uid
	}
	return 0
}
