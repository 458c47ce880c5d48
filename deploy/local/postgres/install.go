package postgres

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// installTimeout is enough for a slow mirror: some 60 MB of packages.
const installTimeout = 10 * time.Minute

// MissingError means that there is no PostgreSQL server here and that nothing
// may install one.
type MissingError struct {
	// Line is the one command that installs it, or "" if no package manager
	// is known here.
	Line string
}

func (e *MissingError) Error() string {
	if e.Line == "" {
		return "PostgreSQL's server programs are missing: install PostgreSQL, name their folder, or give the URL of a running server"
	}
	return "PostgreSQL's server programs are missing. Install them with:  " + e.Line
}

// packageManager installs the server on one kind of system.
type packageManager struct {
	program string
	// line is what a person types, without sudo.
	line string
	// steps are run one after the other. None: only a person can.
	steps [][]string
	// cleanup is run after the steps, whatever they led to.
	cleanup []string
	// sudo says that the line needs root.
	sudo bool
}

// noDefaultCluster and its counterpart keep Debian's package from making and
// starting a cluster of its own while it is installed.
const (
	noDefaultCluster = "mkdir -p /etc/postgresql-common/createcluster.d && " +
		"echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.d/likewise.conf"
	allowDefaultCluster = "rm -f /etc/postgresql-common/createcluster.d/likewise.conf; " +
		"rmdir --ignore-fail-on-non-empty /etc/postgresql-common/createcluster.d"
)

func packageManagers() []packageManager {
	return []packageManager{
		{
			program: "apt-get",
			line:    "apt-get update && apt-get install -y --no-install-recommends postgresql",
			steps: [][]string{
				{"sh", "-c", noDefaultCluster},
				{"apt-get", "update"},
				{"apt-get", "install", "-y", "--no-install-recommends", "postgresql"},
			},
			cleanup: []string{"sh", "-c", allowDefaultCluster},
			sudo:    true,
		},
		{program: "dnf", line: "dnf install -y postgresql-server", sudo: true},
		{program: "apk", line: "apk add postgresql", sudo: true},
		{program: "pacman", line: "pacman -S --noconfirm postgresql", sudo: true},
		{program: "brew", line: "brew install postgresql@17"},
	}
}

type installer struct {
	root  bool
	tools []packageManager
}

// install installs the server if it may, and leaves no server running.
func (i installer) install(ctx context.Context, o Options) error {
	tool, ok := i.choose()
	if !ok {
		return &MissingError{}
	}
	prefix, allowed := i.prefix(o)
	if !allowed || len(tool.steps) == 0 {
		return &MissingError{Line: i.line(tool)}
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	if len(tool.cleanup) > 0 {
		defer runStep(context.WithoutCancel(ctx), slices.Concat(prefix, tool.cleanup)) //nolint:errcheck // a left-over setting does no harm
	}
	o.Progress("installing PostgreSQL with " + tool.program)
	for _, step := range tool.steps {
		if err := runStep(ctx, slices.Concat(prefix, step)); err != nil {
			return fmt.Errorf("installing PostgreSQL: %w\nTo do it by hand:  %s", err, i.line(tool))
		}
	}
	return nil
}

func (i installer) choose() (packageManager, bool) {
	for _, tool := range i.tools {
		if _, err := exec.LookPath(tool.program); err == nil {
			return tool, true
		}
	}
	return packageManager{}, false
}

// prefix is what goes before each step: nothing for root, sudo that never asks
// for a user who was told to install.
func (i installer) prefix(o Options) (argv []string, allowed bool) {
	if i.root {
		return nil, true
	}
	return []string{"sudo", "-n"}, o.InstallPackages
}

func (i installer) line(tool packageManager) string {
	if i.root || !tool.sudo {
		return tool.line
	}
	return "sudo " + strings.ReplaceAll(tool.line, "&& ", "&& sudo ")
}

func runStep(ctx context.Context, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	// A grandchild that keeps the output open must not keep us.
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, lastLines(string(out), 15))
	}
	return nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
