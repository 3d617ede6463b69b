package scan

import (
	"fmt"
	"runtime/debug"
)

// Panic is the error of an evaluation that has panicked: a bug of ours that a query has met.
type Panic struct {
	Value any
	Stack []byte
}

// Recovered is the error for what recover has returned, with the stack of the caller. A panic that is
// passed on from another goroutine keeps the stack of that.
func Recovered(value any) *Panic {
	if p, ok := value.(*Panic); ok {
		return p
	}
	return &Panic{value, debug.Stack()}
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }
