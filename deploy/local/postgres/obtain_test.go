package postgres

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakePrograms is a folder with programs that only know their version.
func fakePrograms(t *testing.T, version string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "bin")
	require.NoError(t, os.MkdirAll(dir, 0o750))
	for _, name := range []string{"initdb", "postgres"} {
		script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", version)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
	}
	return dir
}

func TestFindPrograms(t *testing.T) {
	old, older, newer := fakePrograms(t, "9.6.24"), fakePrograms(t, "14.18 (Debian)"), fakePrograms(t, "99beta1")
	broken := t.TempDir()
	t.Setenv("PATH", broken)
	dirs := []string{broken, old, older, newer}

	t.Run("takes the newest", func(t *testing.T) {
		p, err := findPrograms(t.Context(), dirs, 0)
		require.NoError(t, err)
		require.Equal(t, programs{dir: newer, major: 99}, p)
	})
	t.Run("takes the version that made the data", func(t *testing.T) {
		p, err := findPrograms(t.Context(), dirs, 14)
		require.NoError(t, err)
		require.Equal(t, programs{dir: older, major: 14}, p)
	})
	t.Run("takes none that is too old", func(t *testing.T) {
		_, err := findPrograms(t.Context(), []string{old}, 0)
		require.ErrorIs(t, err, errNoPrograms)
	})
	t.Run("follows a link on the PATH", func(t *testing.T) {
		require.NoError(t, os.Symlink(filepath.Join(newer, "initdb"), filepath.Join(broken, "initdb")))
		p, err := findPrograms(t.Context(), nil, 0)
		require.NoError(t, err)
		require.Equal(t, 99, p.major)
	})
}

func TestGivenFolderIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Options{BinDir: t.TempDir()})
	require.ErrorContains(t, err, "looking for initdb")

	o := Options{BinDir: fakePrograms(t, "15.1")}.withDefaults()
	_, err = source{}.obtain(t.Context(), o, 14)
	require.ErrorContains(t, err, "made by PostgreSQL 14")
}

func TestDownloadIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, repository := range map[string]string{
		"a repository that refuses":      "http://" + refusing(t),
		"a repository that never speaks": "http://" + silent(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			require.Error(t, probe(t.Context(), repository))
			require.Less(t, time.Since(start), 2*probeTimeout)
		})
	}
}

// The library would log.Fatal or panic in places; a repository that answers
// nonsense must end in an error.
func TestDownloadOfNonsenseFails(t *testing.T) {
	t.Parallel()
	repository := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(repository.Close)
	root := t.TempDir()
	err := fetch(t.Context(), repository.URL, root, filepath.Join(root, "programs"))
	require.ErrorContains(t, err, "no download of PostgreSQL")
	http.DefaultClient.CloseIdleConnections() //nolint:forbidigo // the library used it
}

func refusing(t *testing.T) string {
	t.Helper()
	ln := listenLoopback(t)
	require.NoError(t, ln.Close())
	return ln.Addr().String()
}

func silent(t *testing.T) string {
	t.Helper()
	ln := listenLoopback(t)
	t.Cleanup(func() { _ = ln.Close() })
	return ln.Addr().String()
}

func listenLoopback(t *testing.T) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

func TestInstall(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "installed")
	tool := packageManager{
		program: "sh", line: "apt-get update && apt-get install postgresql", sudo: true,
		steps:   [][]string{{"sh", "-c", "echo installed > " + marker}},
		cleanup: []string{"sh", "-c", "echo cleaned >> " + marker},
	}
	o := Options{}.withDefaults()

	t.Run("gives an unprivileged user the one line", func(t *testing.T) {
		t.Parallel()
		err := installer{tools: []packageManager{tool}}.install(t.Context(), o)
		var missing *MissingError
		require.ErrorAs(t, err, &missing)
		require.Equal(t, "sudo apt-get update && sudo apt-get install postgresql", missing.Line)
		require.NoFileExists(t, marker)
	})
	t.Run("says what to do where no package manager is known", func(t *testing.T) {
		t.Parallel()
		err := installer{}.install(t.Context(), o)
		require.ErrorContains(t, err, "install PostgreSQL, name their folder, or give the URL")
	})
	t.Run("shows what went wrong, and the line", func(t *testing.T) {
		t.Parallel()
		failing := tool
		failing.steps, failing.cleanup = [][]string{{"sh", "-c", "echo mirror is away; exit 1"}}, nil
		err := installer{root: true, tools: []packageManager{failing}}.install(t.Context(), o)
		require.ErrorContains(t, err, "mirror is away")
		require.ErrorContains(t, err, tool.line)
	})
}

func TestRootInstalls(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "marker")
	tool := packageManager{
		program: "sh",
		steps:   [][]string{{"sh", "-c", "echo installed > " + marker}},
		cleanup: []string{"sh", "-c", "echo cleaned >> " + marker},
	}
	var said []string
	o := Options{Progress: func(s string) { said = append(said, s) }}.withDefaults()
	require.NoError(t, installer{root: true, tools: []packageManager{tool}}.install(t.Context(), o))
	text, err := os.ReadFile(marker)
	require.NoError(t, err)
	require.Equal(t, "installed\ncleaned\n", string(text))
	require.NotEmpty(t, said)
}

func TestParseMajor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": 15,
		"postgres (PostgreSQL) 17beta1\n":                        17,
		"postgres (PostgreSQL) 9.6.24\n":                         9,
	} {
		got, err := parseMajor(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "mysqld 8", "postgres (PostgreSQL)"} {
		_, err := parseMajor(text)
		require.Error(t, err, text)
	}
}

func TestShortVersion(t *testing.T) {
	t.Parallel()
	require.Equal(t, "PostgreSQL 15.18", shortVersion("PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu"))
	require.Equal(t, "CockroachDB CCL v25.2.1", shortVersion("CockroachDB CCL v25.2.1 (x86_64-pc-linux-gnu)"))
	require.Empty(t, shortVersion(""))
}
