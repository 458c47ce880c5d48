package main

import (
	"fmt"
	"runtime/debug"
)

type versionCmd struct{}

// Run prints what the Go toolchain recorded of this build.
func (versionCmd) Run(std streams) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return usageErrorf("this binary carries no build information: build it with go build")
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
