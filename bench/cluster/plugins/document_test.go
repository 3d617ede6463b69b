package plugins

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// block is one of the document's blocks of code, in their order.
type block struct {
	kind string // sh, text, or a file's language
	text string
	// file is the name of a file, terminal the number of a shell that goes on beside the others;
	// from the first line, a comment.
	file, terminal string
}

// blocks reads a document's.
func blocks(text string) (out []block) {
	var open *block
	for line := range strings.Lines(text) {
		kind, fence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case fence && open == nil:
			open = &block{kind: kind}
		case fence:
			open.name()
			out = append(out, *open)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	return out
}

// name reads the first line.
func (b *block) name() {
	first, _, _ := strings.Cut(b.text, "\n")
	comment := strings.TrimLeft(first, "#/ ")
	switch {
	case comment == first:
	case b.kind == "sh":
		b.terminal, _ = strings.CutPrefix(comment, "terminal ")
	case b.kind != "text":
		b.file = comment
	}
}

func TestTheDocumentLeadsToARunningScheduler(t *testing.T) {
	clone, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(clone, "docs", "plugins.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(clone, filepath.Join(dir, "shardsched")); err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, dir: dir, tools: kubectl(t), group: process.NewGroup(t.TempDir())}
	t.Cleanup(r.close)
	all := blocks(string(text))
	if len(all) < 10 {
		t.Fatalf("got %d blocks, want those of the example", len(all))
	}
	for _, b := range all {
		r.follow(b)
	}
	if r.checked < 5 {
		t.Errorf("got %d outputs compared, want those of the document", r.checked)
	}
}

// reader does what the document says.
type reader struct {
	t     *testing.T
	dir   string // where it is; the files of a shell are remembered from block to block
	tools string // a folder for PATH
	group *process.Group
	env   []string // exported so far

	output  string           // of the last shell
	running *process.Process // the last shell that goes on
	shells  []*process.Process
	checked int
}

// patience bounds each step.
const patience = 4 * time.Minute

func (r *reader) follow(b block) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	switch {
	case b.file != "":
		file := filepath.Join(r.dir, filepath.FromSlash(b.file))
		r.must(os.MkdirAll(filepath.Dir(file), 0o755))
		r.must(os.WriteFile(file, []byte(b.text), 0o644))
	case b.terminal != "":
		// exec: the shell's own process is the one that is told to end.
		script := fmt.Sprintf("cd %q\nexport PATH=%q:$PATH\n%s", r.dir, r.tools, lastExec(b.text))
		p, err := r.group.Start("terminal-"+b.terminal, "bash", "-ec", script)
		r.must(err)
		r.running, r.output = p, ""
		r.shells = append(r.shells, p)
	case b.kind == "sh":
		r.running = nil
		r.shell(ctx, b.text)
	case b.kind == "text":
		r.compare(ctx, b.text)
	default:
		r.t.Errorf("a block of %q says neither what file it is nor what to do with it:\n%s", b.kind, b.text)
	}
}

func (r *reader) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// lastExec has the last command of a script take the shell's place.
func lastExec(script string) string {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(script, "\\\n", " ")), "\n")
	lines[len(lines)-1] = "exec " + lines[len(lines)-1]
	return strings.Join(lines, "\n")
}

// shell runs commands, and keeps where they lead and what they export.
func (r *reader) shell(ctx context.Context, script string) {
	r.t.Helper()
	after := filepath.Join(r.tools, "after")
	c := exec.CommandContext(ctx, "bash", "-ec", script+"\npwd >"+after+"\necho \"$KUBECONFIG\" >>"+after)
	c.Dir = r.dir
	c.Env = append(append(os.Environ(), "PATH="+r.tools+":"+os.Getenv("PATH")), r.env...)
	out, err := c.CombinedOutput()
	r.output = string(out)
	if err != nil {
		r.t.Fatalf("%v\n%s%s%s", err, script, out, r.logs())
	}
	text, err := os.ReadFile(after)
	r.must(err)
	lines := strings.Split(string(text), "\n")
	r.dir = lines[0]
	if lines[1] != "" {
		r.env = []string{"KUBECONFIG=" + lines[1]}
	}
}

// compare looks for lines in what was printed, each at a line's beginning.
func (r *reader) compare(ctx context.Context, want string) {
	r.t.Helper()
	r.checked++
	for line := range strings.Lines(want) {
		line = strings.TrimRight(line, "\n")
		if r.running != nil {
			if _, err := r.running.LineWith(ctx, line); err != nil {
				r.t.Fatalf("%v%s", err, r.logs())
			}
		} else if !strings.Contains("\n"+r.output, "\n"+line) {
			r.t.Errorf("got\n%s\nwant the line %q%s", r.output, line, r.logs())
		}
	}
}

func (r *reader) logs() string {
	var out strings.Builder
	for _, p := range r.shells {
		fmt.Fprintf(&out, "\n--- %s\n%s", p.Name, strings.Join(p.Tail(30), "\n"))
	}
	return out.String()
}

// close ends what goes on, the last first, as a reader would with Ctrl-C.
func (r *reader) close() {
	for i := len(r.shells) - 1; i >= 0; i-- {
		p := r.shells[i]
		// All processes of the terminal: make has children.
		if err := syscall.Kill(-p.PID(), syscall.SIGINT); err != nil {
			r.t.Logf("interrupt %s: %v", p.Name, err)
		}
		select {
		case <-p.Done():
		case <-time.After(20 * time.Second):
		}
	}
	r.group.Close()
}

// kubectl gives a folder with a kubectl in it: that of the machine, or else ours, which knows no more
// than the document needs.
func kubectl(t *testing.T) string {
	dir := t.TempDir()
	name := filepath.Join(dir, "kubectl")
	if own, err := exec.LookPath("kubectl"); err == nil {
		if err := os.Symlink(own, name); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	out, err := exec.Command("go", "build", "-o", name, "./kubectl").CombinedOutput()
	if err != nil {
		t.Fatalf("build kubectl: %v\n%s", err, out)
	}
	return dir
}
