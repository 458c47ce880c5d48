package main

import (
	"errors"
	"fmt"
	"strings"
)

// flagError is what is wrong with the value of a flag. Whoever reports it says
// where the value came from.
type flagError struct {
	names []string // without dashes; the first one is to be changed
	err   error
}

func (e *flagError) Error() string { return "--" + e.names[0] + ": " + e.err.Error() }
func (e *flagError) Unwrap() error { return e.err }

// wrongf says what is wrong with the value of a flag, and what would be right.
func wrongf(name, format string, args ...any) error {
	return &flagError{[]string{name}, fmt.Errorf(format, args...)}
}

// disagreef says how the value of the first flag does not go with the others.
func disagreef(names []string, format string, args ...any) error {
	return &flagError{names, fmt.Errorf(format, args...)}
}

// problems are told together, in one line.
type problems []error

func (p problems) Error() string {
	texts := make([]string, len(p))
	for i, err := range p {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (p problems) Unwrap() []error { return p }

// gather returns what is not nil as one error, or nil.
func gather(errs ...error) error {
	var found problems
	for _, err := range errs {
		found = append(found, listed(err)...)
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

// listed returns what gather put together, or the one error.
func listed(err error) problems {
	if err == nil {
		return nil
	}
	if many, ok := err.(problems); ok { //nolint:errorlint // one that is wrapped has a text of its own
		return many
	}
	return problems{err}
}

// concerns reports whether an error is about the value of a flag in seen.
func concerns(err error, seen map[string]bool) bool {
	flag, ok := errors.AsType[*flagError](err)
	if !ok {
		return false
	}
	for _, name := range flag.names {
		if seen[name] {
			return true
		}
	}
	return false
}

// oneLine makes a text one line, whatever a library put into it.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "; ")
}
