package manifest

import (
	"fmt"
	"strings"
)

// Position is a place in the input. Lines count from 1; 0: the file as a whole.
type Position struct {
	File string
	Line int
}

func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Error is one thing that is wrong with the input.
type Error struct {
	Position Position
	// Object is what the place is about, such as "Pod default/web"; empty: not known.
	Object string
	// Field is a path such as spec.containers[0].image; empty: all of it.
	Field   string
	Problem string
}

func (e *Error) Error() string {
	parts := make([]string, 0, 4)
	for _, p := range []string{e.Position.String(), e.Object, e.Field, e.Problem} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ": ")
}

// maxListed is how many errors one report shows.
const maxListed = 20

// Errors are all that is wrong with an input, in its order.
type Errors []*Error

func (e Errors) Error() string {
	if len(e) == 1 {
		return e[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d things are wrong with the input; nothing of it is used:", len(e))
	for i, one := range e {
		if i == maxListed {
			fmt.Fprintf(&b, "\n  … and %d more", len(e)-maxListed)
			break
		}
		b.WriteString("\n  " + one.Error())
	}
	return b.String()
}

// Unwrap lets errors.As find the first.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}

// maxShown bounds what of a value is repeated to the reader.
const maxShown = 80

// Clip shortens a value for a message: nobody wants a label of 10 MB back.
func Clip(s string) string {
	if len(s) <= maxShown {
		return s
	}
	cut := maxShown
	for cut > 0 && s[cut]&0xC0 == 0x80 { // not within a UTF-8 sequence
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:cut], len(s))
}
