package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"likewise/deploy/local/process"
)

const (
	superuser    = "likewise"
	passwordFile = "likewise.password"
	logFile      = "likewise.log"
)

// cluster is a data folder and who may read it.
type cluster struct {
	dir      string // absolute
	owner    account
	major    int // 0: not made yet
	password string
}

// openCluster looks at dir, which may not exist yet, hold nothing, or hold the
// cluster of an earlier run. Anything else is an error: nothing is overwritten.
func openCluster(dir string) (*cluster, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the data folder: %w", err)
	}
	c := &cluster{dir: abs}
	var ownerID uint32
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("looking at the data folder: %w", err)
	default:
		ownerID = ownerOf(info)
		if err := c.readExisting(); err != nil {
			return nil, err
		}
	}
	if c.major == 0 {
		c.owner, err = serverAccount()
	} else {
		c.owner, err = clusterAccount(ownerID)
	}
	return c, err
}

func (c *cluster) readExisting() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("reading the data folder: %w", err)
	}
	if len(entries) == 0 {
		return nil
	}
	version, err := os.ReadFile(filepath.Join(c.dir, "PG_VERSION"))
	if err != nil {
		return fmt.Errorf("the data folder %s holds something other than a PostgreSQL cluster: name an empty one", c.dir)
	}
	password, err := os.ReadFile(filepath.Join(c.dir, passwordFile))
	if err != nil {
		return fmt.Errorf("the PostgreSQL cluster in %s was not made by likewise, or not to the end: name another folder, or give the URL of its server", c.dir)
	}
	if c.major, err = strconv.Atoi(strings.TrimSpace(string(version))); err != nil {
		return fmt.Errorf("reading the version of the cluster in %s: %w", c.dir, err)
	}
	c.password = strings.TrimSpace(string(password))
	return nil
}

// create makes the cluster with initdb, with extra arguments. Scratch is a
// folder that the account can reach.
func (c *cluster) create(ctx context.Context, p programs, scratch string, extra ...string) error {
	if err := c.makeFolder(); err != nil {
		return err
	}
	c.password = rand.Text()
	secret := filepath.Join(scratch, "password")
	if err := os.WriteFile(secret, []byte(c.password), 0o600); err != nil {
		return fmt.Errorf("writing the password: %w", err)
	}
	defer os.Remove(secret)
	if err := c.owner.own(secret); err != nil {
		return err
	}
	args := append([]string{
		"--pgdata=" + c.dir, "--username=" + superuser, "--pwfile=" + secret,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C",
	}, extra...)
	if err := c.run(ctx, p.initdb(), args, filepath.Join(scratch, "initdb.log")); err != nil {
		return fmt.Errorf("making a database cluster in %s: %w", c.dir, err)
	}
	// Last: only a cluster that was finished has it.
	return c.write(passwordFile, []byte(c.password+"\n"))
}

func (c *cluster) makeFolder() error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil { //nolint:gosec // parents stay passable; the folder itself is closed below
		return fmt.Errorf("making the data folder: %w", err)
	}
	if err := c.owner.canReach(c.dir); err != nil {
		return err
	}
	if err := os.Chmod(c.dir, 0o700); err != nil { //nolint:gosec // a folder
		return fmt.Errorf("closing the data folder to others: %w", err)
	}
	return c.owner.own(c.dir)
}

// run runs one of the server's programs to its end.
func (c *cluster) run(ctx context.Context, path string, args []string, log string) error {
	out, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("making a log: %w", err)
	}
	defer out.Close()
	child, err := process.Start(process.Spec{
		Path: path, Args: args, Env: environment(), Output: out, User: c.owner.credential,
	})
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Kill()
		return context.Cause(ctx)
	}
	if err := child.Err(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(path), err, process.Tail(log))
	}
	return nil
}

// write writes a file into the data folder, for its owner alone. The folder
// belongs to another account than root, so a link in it must not lead out.
func (c *cluster) write(name string, content []byte) error {
	f, err := c.open(name, os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

func (c *cluster) open(name string, flag int) (*os.File, error) {
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return nil, fmt.Errorf("opening the data folder: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile(name, flag|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	if c.owner.credential != nil {
		if err := f.Chown(int(c.owner.credential.Uid), int(c.owner.credential.Gid)); err != nil {
			return nil, errors.Join(fmt.Errorf("giving %s to %q: %w", name, c.owner.name, err), f.Close())
		}
	}
	return f, nil
}

// environment is the caller's without PostgreSQL's own variables, which would
// change what the programs do, and with messages in English.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") {
			env = append(env, v)
		}
	}
	return append(env, "LC_ALL=C")
}
