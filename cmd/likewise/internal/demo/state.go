package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"likewise/cmd/likewise/internal/audit"
)

// State is what a running demo tells the other commands of the same user. It
// exists exactly as long as the demo runs.
type State struct {
	// PID is the demo's process.
	PID int `json:"pid"`
	// Regions are in the order of the demo's flag.
	Regions []RegionState `json:"regions"`
	// DatabaseURL holds a password; the file is for its owner only.
	DatabaseURL string `json:"database_url"`
}

// RegionState is where a region's nodes answer.
type RegionState struct {
	Name  string   `json:"name"`
	Addrs []string `json:"addrs"`
}

// ErrNotRunning means that no demo of this user runs.
var ErrNotRunning = errors.New(`no demo is running: start one with "likewise demo", or give --addr`)

// statePath is the same for every process of a user. A per-session runtime
// folder is cleaned up by the system even if the demo is killed.
func statePath() (string, error) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "likewise-demo.json"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("looking for a folder for the demo's state: %w", err)
	}
	return filepath.Join(dir, "likewise", "demo.json"), nil
}

// ReadState returns the state of the running demo, or ErrNotRunning. What a
// killed demo left behind does not count.
func ReadState() (State, error) {
	path, err := statePath()
	if err != nil {
		return State{}, err
	}
	return readStateFile(path)
}

func readStateFile(path string) (State, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, ErrNotRunning
	}
	if err != nil {
		return State{}, fmt.Errorf("reading the demo's state: %w", err)
	}
	var s State
	if err := json.Unmarshal(raw, &s); err != nil {
		return State{}, fmt.Errorf("reading the demo's state in %s: %w", path, err)
	}
	if !alive(s.PID) {
		return State{}, ErrNotRunning
	}
	return s, nil
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return pid > 0 && (err == nil || errors.Is(err, syscall.EPERM))
}

// errOtherDemo means that another demo of this user runs.
var errOtherDemo = errors.New("another demo runs")

// writeStateFile publishes s and returns how to take it back. It refuses with
// errOtherDemo to replace the state of a demo that runs.
func writeStateFile(path string, s State) (remove func() error, err error) {
	if other, err := readStateFile(path); err == nil && other.PID != s.PID {
		return nil, fmt.Errorf("%w as process %d", errOtherDemo, other.PID)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the demo's state: %w", err)
	}
	madeDir := makeDir(filepath.Dir(path))
	// Written aside and renamed: no reader sees half of it.
	part := fmt.Sprintf("%s.%d", path, s.PID)
	if err := os.WriteFile(part, raw, 0o600); err != nil {
		return nil, fmt.Errorf("writing the demo's state: %w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the demo's state: %w", err), os.Remove(part))
	}
	return func() error { return errors.Join(os.Remove(path), madeDir()) }, nil
}

// makeDir makes a folder, and the ones above it, if there is none. It returns
// how to remove that one folder in this case. A failure shows when the file is
// written.
func makeDir(dir string) (remove func() error) {
	if os.MkdirAll(filepath.Dir(dir), 0o700) != nil || os.Mkdir(dir, 0o700) != nil {
		return func() error { return nil }
	}
	return func() error { return os.Remove(dir) }
}

// Doors names the front doors of all nodes: eu-1, eu-2, us-1 …
func (s State) Doors() []audit.Door {
	var doors []audit.Door
	for _, region := range s.Regions {
		for i, addr := range region.Addrs {
			doors = append(doors, audit.Door{Name: fmt.Sprintf("%s-%d", region.Name, i+1), URL: "http://" + addr})
		}
	}
	return doors
}

func (s *stage) state() State {
	state := State{PID: os.Getpid(), DatabaseURL: s.databaseURL}
	for _, region := range s.regions() {
		state.Regions = append(state.Regions, RegionState(region))
	}
	return state
}
