package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

const (
	// mavenCentral is where the embedded-postgres library fetches from.
	mavenCentral = "https://repo1.maven.org/maven2"
	// probeTimeout keeps a machine without a way out from waiting.
	probeTimeout = 3 * time.Second
	// downloadTimeout is enough for 30 MB over a poor line.
	downloadTimeout = 5 * time.Minute
)

// download returns the programs that the embedded-postgres library fetches
// from repository. They are kept in the user's cache folder. The library knows
// no context: when ctx or the time runs out, its goroutine is left to end with
// the transfer.
func download(ctx context.Context, repository string, progress func(string)) (programs, error) {
	root, err := cacheFolder()
	if err != nil {
		return programs{}, err
	}
	dir := filepath.Join(root, "postgres-"+string(embedded.V15))
	if p, err := inspect(ctx, filepath.Join(dir, "bin")); err == nil {
		return p, nil
	}
	if err := probe(ctx, repository); err != nil {
		return programs{}, err
	}
	progress("downloading PostgreSQL " + string(embedded.V15) + " from " + repository)
	if err := fetch(ctx, repository, root, dir); err != nil {
		return programs{}, err
	}
	return inspect(ctx, filepath.Join(dir, "bin"))
}

// probe reports whether the repository answers at all.
func probe(ctx context.Context, repository string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, repository+"/", nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", repository, err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("no download of PostgreSQL: %w", err)
	}
	return resp.Body.Close()
}

var errDownloadTimeout = errors.New("download of PostgreSQL timed out")

// fetch has the library unpack its archive into dir. The library can fetch
// only by starting a server; that fails for root, but after unpacking, so only
// what is in dir afterwards counts.
func fetch(ctx context.Context, repository, root, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, downloadTimeout, errDownloadTimeout)
	defer cancel()
	runtime, err := os.MkdirTemp("", "likewise-download-")
	if err != nil {
		return fmt.Errorf("making a folder for the download: %w", err)
	}
	defer os.RemoveAll(runtime)
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	server := embedded.NewDatabase(embedded.DefaultConfig().
		Version(embedded.V15).
		BinaryRepositoryURL(repository).
		CachePath(filepath.Join(root, "archive")).
		BinariesPath(dir).
		RuntimePath(filepath.Join(runtime, "run")).
		Port(uint32(port)). //nolint:gosec // a port fits
		Logger(io.Discard))

	result := make(chan error, 1)
	go func() {
		err := server.Start()
		if err == nil {
			err = server.Stop()
		}
		result <- err
	}()
	select {
	case err = <-result:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, statErr := os.Stat(filepath.Join(dir, "bin", "initdb")); statErr != nil {
		return fmt.Errorf("no download of PostgreSQL: %w", err)
	}
	return nil
}

// cacheFolder is where downloaded programs are kept. Root's own cache lies in
// a home that the server's account cannot enter.
func cacheFolder() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/likewise", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	return filepath.Join(dir, "likewise"), nil
}

// freePort returns a loopback port that nobody listens on now. Somebody may a
// moment later: who uses it tries again with another.
func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	port := ln.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener's address
	return port, ln.Close()
}
