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
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
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
					serve(t, shell("exec "+strings.TrimSpace(strings.Split(b.commands, "#")[0])+" --listen "+address+" --http-listen ''"), upServes)
				case "apart":
					runApart(t, shell, b)
				case "alone":
					runAll(t, shell, b)
				case "beside up":
					serve(t, shell("exec shardsched up --listen "+address+" --http-listen ''"), upServes)
					runAll(t, shell, b)
				default:
					t.Errorf("%q says not how to run", b.how)
				}
			})
		}
	}
	if ran["up"] == 0 || ran["beside up"] == 0 || ran["alone"] == 0 || ran["apart"] == 0 {
		t.Errorf("got %v blocks, want some of each sort", ran)
	}
}

// upServes is how the line begins by which up tells that it serves.
const upServes = "shardsched is up"

// runApart runs each command of a block beside the others, on addresses of the test's own in the place of the page's, until the workers
// have registered and both coordinators tell so.
func runApart(t *testing.T, shell func(string) *exec.Cmd, b block) {
	t.Helper()
	own := map[string]string{}
	address := func(of string) string {
		if own[of] == "" {
			own[of] = freeAddress()
		}
		return own[of]
	}
	workers, coordinators := 0, 0
	for line := range strings.Lines(b.commands) {
		command := "exec " + regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllStringFunc(strings.TrimSpace(line), address)
		if strings.Contains(command, "--embedded-etcd") {
			command += " --embedded-etcd-listen " + address("127.0.0.1:2379")
		}
		if strings.Contains(command, "shardsched worker") {
			workers++
			serve(t, shell(command), "worker ")
		} else {
			coordinators++
			serve(t, shell(command), "coordinator serves clients on ")
		}
	}
	if workers != 2 || coordinators != 2 {
		t.Fatalf("got %d workers and %d coordinators, want 2 of each", workers, coordinators)
	}
	for _, coordinator := range []string{"127.0.0.1:7450", "127.0.0.1:7452"} {
		for tries := 0; ; tries++ {
			out, err := shell("shardsched get workers --no-headers --address " + address(coordinator)).Output()
			if n := bytes.Count(out, []byte("\n")); err == nil && n == workers {
				break
			} else if tries == 600 {
				t.Fatalf("%s: got %v\n%s\nwant %d workers", coordinator, err, out, workers)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// serve starts a command and returns when a line that begins so says that it serves; it is interrupted with the test, and has to end well.
func serve(t *testing.T, c *exec.Cmd, serves string) {
	t.Helper()
	errs, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines, said := bufio.NewScanner(errs), ""
	for lines.Scan() && !strings.HasPrefix(lines.Text(), serves) {
		said += lines.Text() + "\n"
	}
	if !strings.HasPrefix(lines.Text(), serves) {
		t.Fatalf("%s: got %v\n%s\nwant it to serve", c, c.Wait(), said)
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
