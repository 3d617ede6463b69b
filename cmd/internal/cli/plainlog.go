package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/cmd/internal/serving"
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
	if message == serving.ChangeLogged {
		l.out.line(l.now().Format(time.TimeOnly) + " " + strings.Map(printable, changeSentence(values)))
		return
	}
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

// changeSentence words a call that changes objects, such as "alice at 10.0.0.1:5000 applied 2 objects: Pod shop/a, Pod shop/b".
func changeSentence(values []any) string {
	of := func(name string) string {
		for i := 0; i+1 < len(values); i += 2 {
			if values[i] == name {
				return fmt.Sprint(values[i+1])
			}
		}
		return ""
	}
	did, tried := "applied", "to apply"
	if strings.HasSuffix(of("call"), "/Delete") {
		did, tried = "deleted", "to delete"
	}
	objects := of("objects") + " objects"
	if of("objects") == "1" {
		objects = "1 object"
	}
	text := cmp.Or(of("identity"), "A client without a certificate") + " at " + of("from")
	if outcome := of("outcome"); outcome == codes.OK.String() {
		text += " " + did + " " + objects
	} else {
		text += " asked " + tried + " " + objects + ", which has failed (" + outcome + ")"
	}
	if names := of("names"); names != "" {
		text += ": " + names
	}
	if leftOut := of("leftOut"); leftOut != "0" {
		text += ". Lines left out before: " + leftOut
	}
	return text
}

// printable replaces a control character.
func printable(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return ' '
	}
	return r
}

// printableLines is printable for a text of several lines, some of them indented.
func printableLines(r rune) rune {
	if r == '\n' || r == '\t' {
		return r
	}
	return printable(r)
}
