package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// commandLine is a command line with all that it draws from: the environment
// and a file.
type commandLine struct {
	grammar *cli
	parser  *kong.Kong
	parsed  *kong.Context
	file    *configFile // nil if none was named
	notes   notes
}

// checker is a command whose flags must go together. Its errors come from
// wrongf, disagreef and gather.
type checker interface{ check() error }

func newCommandLine(ctx context.Context, std streams) (*commandLine, error) {
	l := &commandLine{grammar: &cli{}, notes: notes{wrong: make(map[origin]error)}}
	var err error
	if l.parser, err = newParser(ctx, l.grammar, std); err != nil {
		return nil, fmt.Errorf("reading this program's own flags: %w", err)
	}
	l.notes.watch(l.parser.Model)
	return l, nil
}

// parse reads the command line. Unlike kong.Parse it tells everything that is
// wrong at once, and where it stands.
func (l *commandLine) parse(args []string) (err error) {
	l.notes.now = fromLine
	if l.parsed, err = kong.Trace(l.parser, args); err != nil {
		return usage(err)
	}
	if l.parsed.Error != nil || l.wantsHelp() {
		return usage(l.parsed.Error)
	}
	l.notes.now = fromEnvironment
	if err := l.parsed.Reset(); err != nil {
		return usage(err)
	}
	if _, err := l.parsed.Apply(); err != nil {
		return usage(err)
	}
	if err := l.readFile(); err != nil {
		return usage(err)
	}
	if l.parsed.Selected() == nil {
		return usage(errors.New("say what to do, such as \"likewise demo\""))
	}
	return usage(l.problems())
}

// readFile reads the configuration file, if one is named, for the flags that
// have no value yet.
func (l *commandLine) readFile() (err error) {
	if l.grammar.Config == "" {
		return nil
	}
	if l.file, err = readConfig(l.grammar.Config); err != nil {
		return err
	}
	l.notes.now = fromFile
	l.file.note = l.notes.note
	l.parsed.AddResolver(l.file)
	if err := l.parsed.Resolve(); err != nil {
		return err
	}
	_, err = l.parsed.Apply()
	return err
}

// wantsHelp reports whether --help is among the flags.
func (l *commandLine) wantsHelp() bool {
	return slices.ContainsFunc(l.parsed.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == helpName })
}

// problems are all that is wrong with the values of the command that was
// chosen, and with the file.
func (l *commandLine) problems() error {
	found := l.file.problems(l.parser.Model)
	seen := make(map[string]bool)
	for _, value := range l.values() {
		if err := l.problem(value); err != nil {
			seen[value.Name] = true
			found = append(found, err)
		}
	}
	command, ok := reflect.TypeAssert[checker](l.parsed.Selected().Target.Addr())
	if !ok {
		return gather(found...)
	}
	for _, err := range listed(command.check()) {
		if !concerns(err, seen) { // else it is about a value that could not even be read
			found = append(found, err)
		}
	}
	return gather(found...)
}

// values are the flags and arguments of the command that was chosen.
func (l *commandLine) values() []*kong.Value {
	return append(l.parser.Model.Values(), l.parsed.Selected().Values()...)
}

// problem is what is wrong with one value by itself.
func (l *commandLine) problem(value *kong.Value) error {
	switch err := l.notes.wrong[origin{value, l.source(value)}]; {
	case err != nil && value.Flag == nil:
		return fmt.Errorf("%s: %w", value.ShortSummary(), err)
	case err != nil:
		return wrongf(value.Name, "%w", err)
	case value.Required && !value.Set && value.Flag == nil:
		return fmt.Errorf("%s is missing: %s", value.ShortSummary(), firstSentence(value.Help))
	case value.Required && !value.Set:
		return fmt.Errorf("--%s (or %s) is missing: %s", value.Name, value.Flag.Envs[0], firstSentence(value.Help))
	case value.Enum != "" && value.Set:
		return checkEnum(value)
	default:
		return nil
	}
}

func firstSentence(help string) string {
	sentence, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(sentence, ".")
}

// checkEnum compares without regard to case, and puts the word as it stands in
// the grammar.
func checkEnum(value *kong.Value) error {
	words := value.EnumSlice()
	for _, word := range words {
		if strings.EqualFold(word, value.Target.String()) {
			value.Target.SetString(word)
			return nil
		}
	}
	text := fmt.Sprintf("want one of %s, have %q", strings.Join(words, ", "), value.Target.String())
	if value.Flag == nil {
		return fmt.Errorf("%s: %s", value.ShortSummary(), text)
	}
	return wrongf(value.Name, "%s", text)
}

func (l *commandLine) source(value *kong.Value) source {
	if value.Flag == nil {
		return fromLine
	}
	from, _ := sourceOf(l.parsed, value.Flag, l.file)
	return from
}

// place says where the value of a flag stands, if that is not the command line.
func (l *commandLine) place(name string) string {
	if l == nil || l.parsed == nil {
		return ""
	}
	flags := l.parsed.Flags()
	i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	_, place := sourceOf(l.parsed, flags[i], l.file)
	return place
}

// text says an error in one line, and of each flag where its value stands.
func (l *commandLine) text(err error) string {
	status, ok := errors.AsType[*statusError](err)
	if ok {
		err = status.err
	}
	var texts []string
	for _, one := range listed(err) {
		texts = append(texts, oneLine(one.Error())+l.places(one))
	}
	return strings.Join(texts, "; ")
}

func (l *commandLine) places(err error) string {
	flag, ok := errors.AsType[*flagError](err)
	if !ok {
		return ""
	}
	var places []string
	for i, name := range flag.names {
		place := l.place(name)
		switch {
		case place == "":
		case i == 0:
			places = append(places, "from "+place)
		default:
			places = append(places, "--"+name+" from "+place)
		}
	}
	if len(places) == 0 {
		return ""
	}
	return " (" + strings.Join(places, ", ") + ")"
}

// helpCommand is what shows the flags of the command that was chosen.
func (l *commandLine) helpCommand() string {
	if l == nil || l.parsed == nil {
		return "likewise --help"
	}
	if selected := l.parsed.Selected(); selected != nil {
		return selected.FullPath() + " --help"
	}
	return cmp.Or(l.parser.Model.Name, "likewise") + " --help"
}
