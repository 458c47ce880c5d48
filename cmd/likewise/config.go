package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/alecthomas/kong"
	kongyaml "github.com/alecthomas/kong-yaml"
	"gopkg.in/yaml.v3"
)

// configFile answers flags from a YAML file: from the section of the flag's
// command first, then from the top level.
type configFile struct {
	lookUp  kong.Resolver
	content map[string]any
}

// loadConfig reads a YAML file of flags. It is a kong.ConfigurationLoader.
func loadConfig(r io.Reader) (kong.Resolver, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	file := &configFile{content: make(map[string]any)}
	if err := yaml.Unmarshal(raw, &file.content); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if file.lookUp, err = kongyaml.Loader(bytes.NewReader(raw)); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return file, nil
}

// Validate refuses keys that are neither a flag nor a command: a value that
// has silently no effect is worse than an error.
func (f *configFile) Validate(app *kong.Application) error {
	everywhere := make(map[string]bool)
	var errs []error
	for _, command := range app.Leaves(true) {
		own := flagNames(command.AllFlags(false))
		maps.Copy(everywhere, own)
		if section, ok := f.content[command.Name].(map[string]any); ok {
			errs = append(errs, unknown(section, own, command.Name+"."))
		}
		everywhere[command.Name] = true
	}
	return errors.Join(append(errs, unknown(f.content, everywhere, ""))...)
}

func flagNames(groups [][]*kong.Flag) map[string]bool {
	names := make(map[string]bool)
	for _, group := range groups {
		for _, flag := range group {
			names[flag.Name] = true
		}
	}
	return names
}

func unknown(section map[string]any, known map[string]bool, prefix string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(section)) {
		if !known[name] {
			errs = append(errs, fmt.Errorf("configuration: %s%s is not a flag", prefix, name))
		}
	}
	return errors.Join(errs...)
}

// Resolve answers nothing for a flag that the environment has set, because
// kong would let the file win.
func (f *configFile) Resolve(ctx *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil
		}
	}
	value, err := f.lookUp.Resolve(ctx, parent, flag)
	if value != nil || err != nil {
		return value, err
	}
	return f.lookUp.Resolve(ctx, &kong.Path{}, flag)
}
