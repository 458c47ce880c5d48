package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// source is where the value of a flag came from. A later one wins over an
// earlier one.
type source int

const (
	fromDefault source = iota
	fromFile
	fromEnvironment
	fromLine
)

// notes are what is wrong with values that were read. Reading goes on after a
// value that is wrong, so that all are told at once.
type notes struct {
	now   source // what is being read
	wrong map[origin]error
}

// origin is a value and where it was read.
type origin struct {
	value *kong.Value
	from  source
}

// watch puts n between kong and every value of the model.
func (n *notes) watch(app *kong.Application) {
	_ = kong.Visit(app.Node, func(v kong.Visitable, next kong.Next) error {
		if value, ok := v.(*kong.Value); ok && value.Name != helpName {
			value.Mapper = forgiving{value.Mapper, n}
		}
		return next(nil)
	})
}

const helpName = "help"

// note keeps what is wrong with a value from the source that is being read.
func (n *notes) note(value *kong.Value, err error) {
	n.wrong[origin{value, n.now}] = err
}

// forgiving notes what its Mapper refuses, and says that all is well.
type forgiving struct {
	kong.Mapper
	notes *notes
}

// Decode implements kong.Mapper. The texts are our own: those of parsers name
// Go's functions, and may hold a secret.
func (f forgiving) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	next := ctx.Scan.Peek()
	if !ctx.Value.IsBool() {
		if isNextFlag(next) {
			f.notes.note(ctx.Value, errors.New("needs a value"))
			return nil
		}
		if !next.IsValue() { // -5, and not a short flag
			ctx.Scan.Pop()
			ctx.Scan.PushTyped(next.Value, kong.FlagValueToken)
		}
	}
	if f.Mapper.Decode(ctx, target) != nil {
		f.notes.note(ctx.Value, errors.New(wanted(ctx.Value, next.String())))
	}
	return nil
}

// isNextFlag reports whether what follows a flag is not its value.
func isNextFlag(token kong.Token) bool {
	return token.IsEOL() || token.Type == kong.UntypedToken && strings.HasPrefix(token.String(), "--")
}

// wanted says what a value should look like.
func wanted(value *kong.Value, have string) string {
	kind := value.Target.Type()
	if kind == reflect.TypeFor[*url.URL]() {
		return "want a URL such as http://host:port" // the value may hold a password
	}
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if kind == reflect.TypeFor[time.Duration]() {
		return fmt.Sprintf("want a duration with its unit, such as 500ms, 30s or 24h, have %q", have)
	}
	switch kind.Kind() {
	case reflect.Bool:
		return fmt.Sprintf("want true or false, have %q", have)
	case reflect.Int, reflect.Int64:
		return fmt.Sprintf("want a whole number, have %q", have)
	case reflect.Uint64:
		return fmt.Sprintf("want a whole number, 0 or more, have %q", have)
	case reflect.Float64:
		return fmt.Sprintf("want a number, have %q", have)
	default:
		return "want a text"
	}
}

// sourceOf returns where the value that counts came from, and its name there.
func sourceOf(ctx *kong.Context, flag *kong.Flag, file *configFile) (source, string) {
	for _, path := range ctx.Path {
		if path.Flag == flag && !path.Resolved {
			return fromLine, ""
		}
	}
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return fromEnvironment, name
		}
	}
	if place, ok := file.place(ctx.Selected(), flag); ok {
		return fromFile, place
	}
	return fromDefault, ""
}
