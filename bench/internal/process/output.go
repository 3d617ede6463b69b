package process

import (
	"bytes"
	"os"
	"sync"
)

// output copies what a process prints to a file and keeps its lines.
type output struct {
	mu     sync.Mutex
	file   *os.File
	lines  []string
	rest   []byte        // of the line that has not ended
	more   chan struct{} // closed at the next change; nil: nobody waits
	closed bool
}

// Write is called by one goroutine.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, b...)
	for {
		line, rest, whole := bytes.Cut(o.rest, []byte("\n"))
		if !whole {
			break
		}
		o.lines = append(o.lines, string(line))
		o.rest = rest
	}
	o.wake()
	return o.file.Write(b)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.rest) > 0 {
		o.lines = append(o.lines, string(o.rest))
		o.rest = nil
	}
	o.closed = true
	o.wake()
	o.file.Close()
}

func (o *output) wake() {
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
}

// after returns the lines after the first n, and what is closed when there are more;
// nil: there will be none.
func (o *output) after(n int) ([]string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines[n:len(o.lines):len(o.lines)]
	if o.closed {
		return lines, nil
	}
	if o.more == nil {
		o.more = make(chan struct{})
	}
	return lines, o.more
}

// Tail returns the last lines of a process's output.
func (p *Process) Tail(n int) []string {
	lines, _ := p.output.after(0)
	return lines[max(0, len(lines)-n):]
}
