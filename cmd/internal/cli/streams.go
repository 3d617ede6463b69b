package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"github.com/shardsched/shardsched/cmd/internal/summary"
)

// Streams is the outside of a command: what it reads, where it writes, and the
// environment that it looks at.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Env looks an environment variable up; empty where there is none.
	Env func(string) string
	// Program is how the program was called, for what to type next; empty: shardsched.
	Program string
}

// SystemStreams are the process's own.
func SystemStreams() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, Program: os.Args[0]}
}

// isPlugin tells whether the program was called by kubectl, as kubectl-shardsched.
func (s Streams) isPlugin() bool {
	return strings.TrimSuffix(filepath.Base(s.Program), ".exe") == "kubectl-shardsched"
}

// Style is how an answer to w is drawn: with colour and block characters only
// where w is a terminal that takes them.
func (s Streams) Style(w io.Writer) summary.Style {
	width, terminal := terminalWidth(w)
	return summary.StyleFor(terminal, width, s.Env)
}

// Terminal tells whether w is a terminal.
func (s Streams) Terminal(w io.Writer) bool {
	_, terminal := terminalWidth(w)
	return terminal
}

func terminalWidth(w io.Writer) (int, bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 0
	}
	return width, true
}
