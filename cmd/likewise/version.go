package main

import (
	"fmt"
	"runtime/debug"
)

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON: version, go and revision."`
}

// Run prints what the Go toolchain recorded of this build.
func (c versionCmd) Run(std streams) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return usageErrorf("this binary carries no build information: build it with go build")
	}
	if c.JSON {
		return printJSON(std.out, map[string]string{"version": info.Main.Version, "go": info.GoVersion, "revision": revision(info)})
	}
	fmt.Fprintf(std.out, "likewise %s %s %s\n", info.Main.Version, info.GoVersion, revision(info))
	return nil
}

func revision(info *debug.BuildInfo) string {
	at := "unknown revision"
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			at = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			at += " with changes"
		}
	}
	return at
}
