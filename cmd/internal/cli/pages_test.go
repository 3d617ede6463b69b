package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asProgram has the test's binary be the program: pages' commands run as processes, in a shell.
const asProgram = "SHARDSCHED_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(context.Background(), os.Args[1:], SystemStreams(), Standard()))
	}
	os.Exit(m.Run())
}

// block is some commands of a page, and how they are run.
type block struct {
	page, how string
	line      int
	commands  string
}

// marked are the blocks of a page behind a line <!-- runs: HOW -->.
func marked(t *testing.T, page string) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", page))
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	for i, line := range strings.Split(string(text), "\n") {
		how, is := strings.CutPrefix(line, "<!-- runs: ")
		command, indented := strings.CutPrefix(line, "    ")
		switch {
		case is:
			blocks = append(blocks, block{page: page, how: strings.TrimSuffix(how, " -->"), line: i + 1})
			open = &blocks[len(blocks)-1]
		case open != nil && indented:
			open.commands += command + "\n"
		case open != nil && open.commands != "":
			open = nil
		}
	}
	return blocks
}

// What pages mark runs as it is printed: files by the names that they use are there.
func TestCommandsOfPagesRunAsPrinted(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: '8', memory: 8Gi, pods: '110'}}\n"
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web-7d4b9c-x2x1p}\nspec: {containers: [{name: a}]}\n"
	for name, text := range map[string]string{
		"bin/shardsched":      "#!/bin/sh\n" + asProgram + "=1 exec " + self + " \"$@\"\n",
		"nodes.yaml":          node,
		"chart/web.yaml":      pod,
		"cluster.json":        `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"8","pods":"110"}}}`,
		"kube-scheduler.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	address := freeAddress()
	shell := func(script string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), "sh", "-ec", script)
		c.Dir = dir
		c.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), addressVariable+"="+address)
		return c
	}
	ran := map[string]int{}
	for _, page := range []string{"README.md", "docs/configuration.md"} {
		for _, b := range marked(t, page) {
			t.Run(fmt.Sprintf("%s:%d", b.page, b.line), func(t *testing.T) {
				if b.commands == "" {
					t.Fatal("got no commands behind the mark")
				}
				ran[b.how]++
				switch b.how {
				case "up":
					// Where it listens is not the page's to say: another may run on this machine.
					serve(t, shell("exec "+strings.TrimSpace(strings.Split(b.commands, "#")[0])+" --listen "+address+" --http-listen ''"))
				case "alone":
					runAll(t, shell, b)
				case "beside up":
					serve(t, shell("exec shardsched up --listen "+address+" --http-listen ''"))
					runAll(t, shell, b)
				default:
					t.Errorf("%q says not how to run", b.how)
				}
			})
		}
	}
	if ran["up"] == 0 || ran["beside up"] == 0 || ran["alone"] == 0 {
		t.Errorf("got %v blocks, want some of each sort", ran)
	}
}

// serve starts a command and returns when it serves; it is interrupted with the test, and has to end well.
func serve(t *testing.T, c *exec.Cmd) {
	t.Helper()
	errs, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(errs)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "shardsched is up") {
	}
	t.Cleanup(func() {
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		var rest bytes.Buffer
		if _, err := io.Copy(&rest, errs); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v, want it to end well after an interruption; it said\n%s", c, err, rest.String())
		}
	})
}

// runAll runs each command, and wants it to say something and to succeed.
func runAll(t *testing.T, shell func(string) *exec.Cmd, b block) {
	t.Helper()
	for command := range strings.Lines(b.commands) {
		out, err := shell(command).CombinedOutput()
		if err != nil || len(out) == 0 {
			t.Errorf("%s: %v\n%s", strings.TrimSpace(command), err, out)
		}
	}
}
