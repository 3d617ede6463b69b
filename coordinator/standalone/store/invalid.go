package store

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// shownErrors is how many field errors an error's text spells out.
const shownErrors = 10

// InvalidObject is one object that was refused, and why.
type InvalidObject struct {
	// Index is its place in the request.
	Index int
	Ref   objects.Ref
	Errs  field.ErrorList
}

// InvalidError says that objects of a request are not valid. Written tells how many of the
// request's objects are committed all the same: more than 0 only where an object was
// changed by somebody else while the others were being written.
type InvalidError struct {
	Objects []InvalidObject
	Written int
}

func (e *InvalidError) Error() string {
	var b strings.Builder
	total, shown := 0, 0
	for _, o := range e.Objects {
		for _, err := range o.Errs {
			total++
			if shown == shownErrors {
				continue
			}
			if shown > 0 {
				b.WriteString("; ")
			}
			b.WriteString(o.Ref.String() + ": ")
			if err.Field != "" { // else the object as a whole
				b.WriteString(err.Field + ": ")
			}
			b.WriteString(err.ErrorBody())
			shown++
		}
	}
	if total > shown {
		fmt.Fprintf(&b, "; and %d more", total-shown)
	}
	if e.Written > 0 {
		fmt.Fprintf(&b, " (%d objects of the request are written)", e.Written)
	}
	return b.String()
}
