package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// source is where server programs may come from. It is a value so that a test
// can point it elsewhere.
type source struct {
	patterns   []string
	repository string // base URL of the embedded-postgres download
	installer  installer
}

func defaultSource() source {
	return source{
		patterns:   usualFolders(),
		repository: mavenCentral,
		installer:  installer{root: os.Geteuid() == 0, tools: packageManagers()},
	}
}

// obtain finds or fetches server programs. If major is not 0, the data folder
// holds a cluster of that version and no other will do.
func (s source) obtain(ctx context.Context, o Options, major int) (programs, error) {
	if o.BinDir != "" {
		p, err := inspect(ctx, o.BinDir)
		if err == nil && major != 0 && p.major != major {
			err = fmt.Errorf("the data folder was made by PostgreSQL %d, the programs are version %d: name another folder", major, p.major)
		}
		return p, err
	}
	p, err := findPrograms(ctx, s.patterns, major)
	if !errors.Is(err, errNoPrograms) {
		return p, err
	}
	if major != 0 {
		return programs{}, fmt.Errorf("the data folder was made by PostgreSQL %d: install that version, or name another folder", major)
	}
	p, downloadErr := download(ctx, s.repository, o.Progress)
	if downloadErr == nil {
		return p, nil
	}
	if ctx.Err() != nil {
		return programs{}, ctx.Err()
	}
	o.Progress(downloadErr.Error())
	if err := s.installer.install(ctx, o); err != nil {
		return programs{}, err
	}
	return findPrograms(ctx, s.patterns, 0)
}
