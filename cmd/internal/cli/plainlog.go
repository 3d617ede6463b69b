package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// withPlainLog has what runs in ctx log for a person at a terminal, unless -v asks for klog's lines.
func withPlainLog(ctx context.Context, out io.Writer) context.Context {
	if klog.V(1).Enabled() {
		return ctx
	}
	return klog.NewContext(ctx, logr.New(&plainLog{out: &lockedWriter{out: out}, now: time.Now}))
}

// plainLog writes lines for people, such as "15:04:05 Worker left: worker w-1". It leaves out what only machines need: the
// source's line, levels, and values that all lines of a part have, such as the term.
type plainLog struct {
	out *lockedWriter
	now func() time.Time
}

// lockedWriter writes one line at a time.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lockedWriter) line(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(w.out, text)
}

// Init is part of logr.LogSink.
func (*plainLog) Init(logr.RuntimeInfo) {}

// Enabled is part of logr.LogSink.
func (*plainLog) Enabled(level int) bool { return level == 0 }

// Info is part of logr.LogSink.
func (l *plainLog) Info(_ int, message string, values ...any) { l.write(message, values) }

// Error is part of logr.LogSink.
func (l *plainLog) Error(err error, message string, values ...any) {
	if err != nil {
		values = append(values[:len(values):len(values)], "error", err)
	}
	l.write(message, values)
}

// WithValues is part of logr.LogSink.
func (l *plainLog) WithValues(...any) logr.LogSink { return l }

// WithName is part of logr.LogSink.
func (l *plainLog) WithName(string) logr.LogSink { return l }

func (l *plainLog) write(message string, values []any) {
	var b strings.Builder
	b.WriteString(l.now().Format(time.TimeOnly) + " " + message)
	between := ": "
	for i := 0; i+1 < len(values); i += 2 {
		if text := fmt.Sprint(values[i+1]); text == "" || text == "0" && values[i] == "leftOut" {
			continue
		}
		// A value is somebody else's text: no control character of it reaches the terminal.
		text := strings.Map(printable, fmt.Sprint(values[i+1]))
		fmt.Fprintf(&b, "%s%v %s", between, values[i], text)
		between = ", "
	}
	l.out.line(b.String())
}

// printable replaces a control character.
func printable(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return ' '
	}
	return r
}
