package postgres

import (
	"errors"
	"os"
	"time"
)

// Durability says whether a commit waits for the disk.
type Durability int

const (
	// Durable is PostgreSQL's default: an acknowledged commit survives a crash
	// of the machine.
	Durable Durability = iota
	// Volatile never waits for the disk. A crash of the machine may damage the
	// cluster; a crash of the server does not. For tests.
	Volatile
)

// Options say where the server comes from and how it runs. The zero value is
// a durable server on temporary data.
type Options struct {
	// URL is a running server to use as it is; nothing is started then. It
	// must be a postgres:// URL of a user who may create databases.
	URL string
	// BinDir is the folder of initdb and postgres. Empty: look for it.
	BinDir string
	// DataDir keeps the data between runs; a cluster that an earlier run left
	// there is used again. Empty: a temporary folder, removed by Close.
	DataDir string
	// Durability is Durable by default.
	Durability Durability
	// InstallPackages lets a user who is not root install the server with the
	// package manager, through sudo. Root needs no leave.
	InstallPackages bool
	// MaxConnections is 300 by default: six nodes, a demo and a person.
	MaxConnections int
	// Settings are further server settings, such as "deadlock_timeout".
	Settings map[string]string
	// StartTimeout bounds the time from the server's start to its first
	// answer. Default 60 s, as a cluster that crashed has to recover first.
	// Finding and installing the programs is not part of it.
	StartTimeout time.Duration
	// StopTimeout bounds a clean shutdown in Close; the server is killed
	// after it. Default 10 s.
	StopTimeout time.Duration
	// Progress, if not nil, is told in one line what takes long.
	Progress func(string)
}

// FromEnvironment gives the options that a developer's environment asks for:
// LIKEWISE_POSTGRES_URL and LIKEWISE_POSTGRES_BIN. It is for tests, which have
// no flags of their own.
func FromEnvironment() Options {
	return Options{
		URL:    os.Getenv("LIKEWISE_POSTGRES_URL"),
		BinDir: os.Getenv("LIKEWISE_POSTGRES_BIN"),
	}
}

func (o Options) withDefaults() Options {
	if o.MaxConnections == 0 {
		o.MaxConnections = 300
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 60 * time.Second
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = 10 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

func (o Options) validate() error {
	if o.URL != "" && (o.DataDir != "" || o.BinDir != "") {
		return errors.New("a server is started or given: leave out the URL, or the data and program folders")
	}
	if o.MaxConnections < 0 || o.StartTimeout < 0 || o.StopTimeout < 0 {
		return errors.New("MaxConnections, StartTimeout and StopTimeout cannot be negative")
	}
	return nil
}
