package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/bench/internal/browser"
)

// besidePlayground finds the arguments of the playground, and the command that is run beside it.
var besidePlayground = regexp.MustCompile(`(?m)^<!-- runs: beside playground (.*) -->\n\n    (shardsched .*?)(?: +# exit code 0)?$`)

// TestShadow goes the way of docs/journeys.md beside a kube-scheduler, for less time than the page says, and looks at the report.
func TestShadow(t *testing.T) {
	browser.Need(t)
	page, err := os.ReadFile("../../../docs/journeys.md")
	if err != nil {
		t.Fatal(err)
	}
	found := besidePlayground.FindStringSubmatch(string(page))
	if found == nil {
		t.Fatalf("docs/journeys.md: want a command beside a playground, as %s", besidePlayground)
	}
	r := newRig(t)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	playground := filepath.Join(dir, "bin", "playground")
	if out, err := exec.CommandContext(r.ctx, "go", "build", "-o", playground, "../controlplane").CombinedOutput(); err != nil {
		t.Fatalf("build the playground: %v\n%s", err, out)
	}
	p, err := r.Start("playground", playground, append(strings.Fields(found[1]), "-kubeconfig", filepath.Join(dir, "bin", "playground.kubeconfig"))...)
	r.must(err)
	_, err = p.LineWith(r.ctx, "Interrupt (Ctrl-C)")
	r.must(err)
	c := shell(r.ctx, r.bed, dir, regexp.MustCompile(`--for \S+`).ReplaceAllString(found[2], "--for 10s"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v, want exit code 0\n%s", found[2], err, out)
	}
	p.Interrupt()
	<-p.Done() // it ends what it has started

	x := r.open("file://" + filepath.Join(dir, "report.html"))
	x.audit("the shadow's report")
	if n := eval[int](x, `[...document.querySelectorAll("svg")].filter(s => s.querySelectorAll("path, rect, polyline, line").length > 1 && s.getBoundingClientRect().width > 100).length`); n < 2 {
		t.Errorf("got %d charts that are drawn, want 2 or more", n)
	}
}

// shell runs a command as a page prints it, in a folder.
func shell(ctx context.Context, b *bed, dir, command string) *exec.Cmd {
	c := exec.CommandContext(ctx, "sh", "-ec", command)
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(b.program)+":"+os.Getenv("PATH"))
	return c
}
