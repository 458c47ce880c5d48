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
	"gopkg.in/yaml.v3"
)

// configFile answers flags from a YAML file: from the section of the flag's
// command first, then from the top level. nil is a file with nothing in it.
type configFile struct {
	path string
	root *yaml.Node // a mapping; nil if the file is empty
	note func(*kong.Value, error)
}

// maxConfig bounds what is read of a file that somebody may have named by
// mistake, in bytes.
const maxConfig = 1 << 20

// readConfig reads a YAML file of flags. Its errors name --config.
func readConfig(path string) (*configFile, error) {
	raw, err := readSome(path, maxConfig)
	if err != nil {
		return nil, wrongf(configName, "%w: name a YAML file that this user can read", err)
	}
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, wrongf(configName, "%s is not YAML: %w", path, err)
	}
	file := &configFile{path: path}
	if decoder.Decode(&second) == nil {
		return nil, wrongf(configName, "%s: a second document begins: put all values into one", file.at(&second))
	}
	if len(document.Content) == 0 {
		return file, nil
	}
	file.root = document.Content[0]
	if file.root.Kind != yaml.MappingNode {
		return nil, wrongf(configName, "%s: want lines such as \"region: eu\"", file.at(file.root))
	}
	return file, nil
}

const configName = "config"

// readSome reads a file of at most limit bytes.
func readSome(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, pathError(path, err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, pathError(path, err)
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	return raw, nil
}

// pathError says a path and what the system said of it, once.
func pathError(path string, err error) error {
	if cause, ok := errors.AsType[*os.PathError](err); ok {
		err = cause.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// at names a place in the file.
func (f *configFile) at(node *yaml.Node) string { return fmt.Sprintf("%s:%d", f.path, node.Line) }

// entry is a key of a mapping, and its value.
type entry struct{ key, value *yaml.Node }

func entries(mapping *yaml.Node) []entry {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	found := make([]entry, 0, len(mapping.Content)/2)
	for pair := range slices.Chunk(mapping.Content, 2) {
		found = append(found, entry{pair[0], pair[1]})
	}
	return found
}

// problems are the keys that are neither a flag nor a command, and those that
// stand there twice: a value that has silently no effect is worse than an error.
func (f *configFile) problems(app *kong.Application) problems {
	if f == nil {
		return nil
	}
	commands := make(map[string]*kong.Node)
	everywhere := make(map[string]bool)
	for _, command := range app.Leaves(true) {
		commands[command.Name] = command
		maps.Copy(everywhere, flagNames(command))
	}
	found := f.check(f.root, func(e entry) error {
		if command := commands[e.key.Value]; command != nil && e.value.Kind == yaml.MappingNode || everywhere[e.key.Value] {
			return nil
		}
		return fmt.Errorf("%s: %s is not a flag of any command%s", f.at(e.key), e.key.Value, likely(e.key.Value, everywhere))
	})
	for _, e := range entries(f.root) {
		if command := commands[e.key.Value]; command != nil && e.value.Kind == yaml.MappingNode {
			found = append(found, f.checkSection(e, flagNames(command))...)
		}
	}
	return found
}

func (f *configFile) checkSection(section entry, known map[string]bool) problems {
	return f.check(section.value, func(e entry) error {
		if known[e.key.Value] {
			return nil
		}
		return fmt.Errorf("%s: %s.%s is not a flag of this command%s", f.at(e.key), section.key.Value, e.key.Value, likely(e.key.Value, known))
	})
}

func (f *configFile) check(mapping *yaml.Node, one func(entry) error) (found problems) {
	lines := make(map[string]int)
	for _, e := range entries(mapping) {
		if line, twice := lines[e.key.Value]; twice {
			found = append(found, fmt.Errorf("%s: %s stands in line %d already: remove one", f.at(e.key), e.key.Value, line))
			continue
		}
		lines[e.key.Value] = e.key.Line
		if err := one(e); err != nil {
			found = append(found, err)
		}
	}
	return found
}

// flagNames are those of a command that a file may set.
func flagNames(command *kong.Node) map[string]bool {
	names := make(map[string]bool)
	for _, group := range command.AllFlags(false) {
		for _, flag := range group {
			names[flag.Name] = flag.Name != helpName && flag.Name != configName
		}
	}
	return names
}

// likely names the one known word that is one or two letters away.
func likely(word string, known map[string]bool) string {
	var near []string
	for name, ok := range known {
		if ok && distance(word, name) <= 2 {
			near = append(near, name)
		}
	}
	if len(near) != 1 {
		return ""
	}
	return fmt.Sprintf("; is %s meant?", near[0])
}

// distance is how many letters must be added, removed or changed to make one
// word the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := left
			if a[i] != b[j] {
				changed++
			}
			left = row[j+1]
			row[j+1] = min(changed, left+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// find returns the value of a flag for a command.
func (f *configFile) find(command *kong.Node, flag *kong.Flag) (*yaml.Node, bool) {
	if f == nil || command == nil {
		return nil, false
	}
	section, _ := lookUp(f.root, command.Name)
	if value, ok := lookUp(section, flag.Name); ok {
		return value, true
	}
	value, ok := lookUp(f.root, flag.Name)
	if ok && value.Kind == yaml.MappingNode && isCommand(command, flag.Name) {
		return nil, false // the section of a command that is named like the flag
	}
	return value, ok
}

// isCommand reports whether command or one beside it has this name.
func isCommand(command *kong.Node, name string) bool {
	return slices.ContainsFunc(command.Parent.Children, func(n *kong.Node) bool { return n.Name == name })
}

func lookUp(mapping *yaml.Node, key string) (*yaml.Node, bool) {
	for _, e := range entries(mapping) {
		if e.key.Value == key {
			return e.value, true
		}
	}
	return nil, false
}

// place names where the value of a flag stands.
func (f *configFile) place(command *kong.Node, flag *kong.Flag) (string, bool) {
	value, ok := f.find(command, flag)
	if !ok {
		return "", false
	}
	return f.at(value), true
}

// Validate implements kong.Resolver; see problems.
func (f *configFile) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver. It answers nothing for a flag that the
// environment has set, because kong would let the file win.
func (f *configFile) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil
		}
	}
	node, ok := f.find(ctx.Selected(), flag)
	if !ok || flag.Name == configName {
		return nil, nil
	}
	value, err := plain(node, flag.IsSlice())
	if err != nil {
		f.note(flag.Value, err)
		flag.Set = true // though wrongly: it is not missing
	}
	return value, nil
}

// plain returns a value as it would be typed, or a list of such values.
func plain(node *yaml.Node, list bool) (any, error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		return nil, errors.New("has no value: write one, or remove the line")
	case node.Kind == yaml.ScalarNode:
		return node.Value, nil
	case node.Kind == yaml.SequenceNode && list:
		return plainList(node)
	case list:
		return nil, errors.New("want a list, such as [a, b]")
	default:
		return nil, errors.New("want one value")
	}
}

func plainList(node *yaml.Node) (any, error) {
	values := make([]any, 0, len(node.Content))
	for _, element := range node.Content {
		value, err := plain(element, false)
		if err != nil {
			return nil, fmt.Errorf("in the list: %w", err)
		}
		values = append(values, value)
	}
	return values, nil
}
