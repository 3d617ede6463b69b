package config

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Error is one thing that is wrong with a file.
type Error struct {
	File string // empty: what is wrong is in no file, but a flag's
	Line int    // 1 is the first; 0: not known
	// Field is a path such as profiles[0].plugins.score; empty: the file as a whole, or
	// Problem names it.
	Field   string
	Problem string
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Problem)
	return b.String()
}

// problems gathers what is wrong with a document.
type problems struct {
	doc  *document
	list []error
	more int // not listed any more
}

// maxErrors is how many problems are told at once.
const maxErrors = 50

// note lists a problem, its line where the field at path stands.
func (p *problems) note(path string, e Error) {
	if len(p.list) == maxErrors {
		p.more++
		return
	}
	e.File = p.doc.file
	if e.Line == 0 {
		e.Line = p.doc.line(path)
	}
	e.Field, e.Problem = clip(e.Field), clip(e.Problem)
	p.list = append(p.list, &e)
}

// at notes a problem with a field.
func (p *problems) at(path, problem string) {
	p.note(path, Error{Field: path, Problem: problem})
}

// named notes a problem whose text names the field at path.
func (p *problems) named(path, problem string) {
	p.note(path, Error{Problem: problem})
}

// fields notes what validation found.
func (p *problems) fields(list field.ErrorList) {
	for _, e := range list {
		p.at(e.Field, e.ErrorBody())
	}
}

// err is all of them, or nil.
func (p *problems) err() error {
	list := p.list
	if p.more > 0 {
		list = append(list[:len(list):len(list)], &Error{File: p.doc.file, Problem: fmt.Sprintf("and %d more", p.more)})
	}
	return errors.Join(list...)
}
