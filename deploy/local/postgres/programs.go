package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// oldestMajor is the oldest PostgreSQL that is still used: the first with
// DROP DATABASE … WITH (FORCE).
const oldestMajor = 13

// programs is a folder with the server's programs, of one version.
type programs struct {
	dir   string
	major int
}

func (p programs) initdb() string   { return filepath.Join(p.dir, "initdb") }
func (p programs) postgres() string { return filepath.Join(p.dir, "postgres") }

// usualFolders is where packages put the server's programs: Debian, Red Hat,
// Alpine, Homebrew on both kinds of Mac, Postgres.app, and a build from source.
func usualFolders() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/usr/libexec/postgresql*",
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/usr/local/pgsql/bin",
	}
}

// errNoPrograms means that no folder that was looked at holds a server that
// can be used.
var errNoPrograms = errors.New("no PostgreSQL server programs found")

// findPrograms looks for a server in the folders that match the patterns, and
// then on the PATH. The newest wins. If major is not 0, only that version
// will do.
func findPrograms(ctx context.Context, patterns []string, major int) (programs, error) {
	var found []programs
	for _, dir := range candidates(patterns) {
		p, err := inspect(ctx, dir)
		if err != nil || (major != 0 && p.major != major) {
			continue
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return programs{}, errNoPrograms
	}
	// Stable: of two folders with one version, the one named first.
	slices.SortStableFunc(found, func(a, b programs) int { return b.major - a.major })
	return found[0], nil
}

func candidates(patterns []string) []string {
	var dirs []string
	for _, pattern := range patterns {
		// Glob fails on a malformed pattern only, and these are constants.
		matches, _ := filepath.Glob(pattern)
		dirs = append(dirs, matches...)
	}
	if onPath, err := exec.LookPath("initdb"); err == nil {
		// A link on the PATH may stand alone; its target has the others beside it.
		if target, err := filepath.EvalSymlinks(onPath); err == nil {
			onPath = target
		}
		dirs = append(dirs, filepath.Dir(onPath))
	}
	return dirs
}

// inspect reads the version of the server in dir.
func inspect(ctx context.Context, dir string) (programs, error) {
	p := programs{dir: dir}
	if _, err := os.Stat(p.initdb()); err != nil {
		return programs{}, fmt.Errorf("looking for initdb: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, p.postgres(), "--version").Output()
	if err != nil {
		return programs{}, fmt.Errorf("asking %s for its version: %w", p.postgres(), err)
	}
	if p.major, err = parseMajor(string(out)); err != nil {
		return programs{}, err
	}
	if p.major < oldestMajor {
		return programs{}, fmt.Errorf("%s is PostgreSQL %d: version %d or newer is needed", dir, p.major, oldestMajor)
	}
	return p, nil
}

// parseMajor reads the major version from text like
// "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)" or "17beta1".
func parseMajor(text string) (int, error) {
	fields := strings.Fields(strings.TrimPrefix(text, "postgres (PostgreSQL)"))
	if len(fields) == 0 {
		return 0, fmt.Errorf("no PostgreSQL version in %q", text)
	}
	digits := fields[0]
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	major, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("no PostgreSQL version in %q", text)
	}
	return major, nil
}
