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
	"slices"
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

// block is some commands of a page, and how they are run: alone, as a server ("up"), or beside one ("beside up --demo").
type block struct {
	page, how string
	line      int
	commands  []string
	// prints is the first word that the page shows the commands to print; "": it shows nothing.
	prints  string
	dollars bool
}

// pages are those that people read, README first.
func pages(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(list) == 0 {
		t.Fatalf("got pages %q, %v", list, err)
	}
	out := []string{"README.md", "deploy/README.md"}
	for _, page := range list {
		out = append(out, filepath.Join("docs", filepath.Base(page)))
	}
	return out
}

// marked are the blocks of a page behind a line <!-- runs: HOW -->. Where commands have a dollar in front, the other lines are what they
// print.
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
			if shown, dollar := strings.CutPrefix(command, "$ "); dollar || len(open.commands) == 0 || !open.dollars {
				open.commands = append(open.commands, shown)
			} else if open.prints == "" {
				open.prints, _, _ = strings.Cut(command, " ")
			}
			open.dollars = open.dollars || strings.HasPrefix(command, "$ ")
		case open != nil && len(open.commands) > 0:
			open = nil
		}
	}
	return blocks
}

// pageFiles are what commands of pages read, by the names that they use. In manifests is a pod that finds no room.
func pageFiles(self string) map[string]string {
	const node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: '8', memory: 8Gi, pods: '110'}}\n"
	pod := func(name, cpu string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {containers: [{name: a, resources: {requests: {cpu: '" + cpu + "'}}}]}\n"
	}
	item := func(name string) string {
		return `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + name + `","uid":"uid-` + name + `"},"status":{"allocatable":{"cpu":"8","pods":"110"}}}`
	}
	const policy = `{"kind":"Policy","apiVersion":"v1","predicates":[{"name":"PodFitsResources"}]}`
	return map[string]string{
		"bin/shardsched":               "#!/bin/sh\n" + asProgram + "=1 exec " + self + " \"$@\"\n",
		"bin/kubectl":                  "#!/bin/sh\nexec cat configmap.yaml\n",
		"configmap.yaml":               "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: scheduler-policy}\ndata:\n  policy.cfg: '" + policy + "'\n",
		"policy.json":                  policy,
		"nodes.yaml":                   node,
		"node.yaml":                    strings.Replace(node, "n1", "new", 1),
		"chart/web.yaml":               pod("web-7d4b9c-x2x1p", "1"),
		"pod.yaml":                     pod("p", "1"),
		"manifests/web.yaml":           pod("large", "9"),
		"cluster.json":                 `{"apiVersion":"v1","kind":"List","items":[` + item("node-1") + "," + item("node-2") + "," + item("node-3") + "]}",
		"kube-scheduler.yaml":          "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
		"openb_node_list_all_node.csv": "sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,64000,262144,2,P100\n",
		"openb_pod_list_default.csv":   "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nopenb-pod-0000,12000,16384,1,1000\n",
	}
}

// What pages mark runs as it is printed: files by the names that they use are there.
func TestCommandsOfPagesRunAsPrinted(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range pageFiles(self) {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "docs/journeys"), os.DirFS("../../../docs/journeys")); err != nil {
		t.Fatal(err)
	}
	address := freeAddress()
	shell := func(script string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), "sh", "-ec", script)
		c.Dir = dir
		c.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), addressVariable+"="+address)
		return c
	}
	// Where it listens is not the page's to say: another may run on this machine.
	up := func(t *testing.T, command string) {
		serves := "^shardsched is up"
		if strings.Contains(command, "--demo") || strings.Contains(command, " -f ") {
			serves = " pods placed in "
		}
		serve(t, shell("exec "+command+" --listen "+address+" --http-listen ''"), serves)
	}
	ran := 0
	for _, page := range pages(t) {
		for _, b := range marked(t, page) {
			t.Run(fmt.Sprintf("%s:%d", b.page, b.line), func(t *testing.T) {
				if len(b.commands) == 0 {
					t.Fatal("got no commands behind the mark")
				}
				if strings.HasPrefix(b.how, "beside playground") {
					return // bench/cluster/console runs it: this module has no API server
				}
				ran++
				beside, isBeside := strings.CutPrefix(b.how, "beside ")
				switch {
				case b.how == "up":
					up(t, strings.TrimSpace(strings.Split(b.commands[0], "#")[0]))
				case isBeside:
					up(t, "shardsched "+beside)
					runAll(t, shell, &b)
				case b.how == "apart":
					runApart(t, shell, &b)
				case b.how == "alone" && testing.Short():
					t.Skip("runs without the race detector, which makes simulations take minutes: TestASimulationDecidesTheSame runs with it")
				case b.how == "alone":
					runAll(t, shell, &b)
				default:
					t.Errorf("%q says not how to run", b.how)
				}
			})
		}
	}
	if ran < 8 {
		t.Errorf("got %d blocks that run, want 8 or more: are marks read?", ran)
	}
}

// runApart runs each command of a block beside the others, on addresses of the test's own in the place of the page's, until the workers
// have registered and both coordinators tell so.
func runApart(t *testing.T, shell func(string) *exec.Cmd, b *block) {
	t.Helper()
	own := map[string]string{}
	address := func(of string) string {
		if own[of] == "" {
			own[of] = freeAddress()
		}
		return own[of]
	}
	workers, coordinators := 0, 0
	for _, line := range b.commands {
		command := "exec " + regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllStringFunc(strings.TrimSpace(line), address)
		if strings.Contains(command, "--embedded-etcd") {
			command += " --embedded-etcd-listen " + address("127.0.0.1:2379")
		}
		if strings.Contains(command, "shardsched worker") {
			workers++
			serve(t, shell(command), "^worker ")
		} else {
			coordinators++
			serve(t, shell(command), "^coordinator serves clients on ")
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
			time.Sleep(100 * time.Millisecond) // the processes say nothing when the other pair is ready
		}
	}
}

// serve starts a command and returns when a line that matches says that it serves; it is interrupted with the test, and has to end well.
func serve(t *testing.T, c *exec.Cmd, serves string) {
	t.Helper()
	errs, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines, said, told := bufio.NewScanner(errs), "", regexp.MustCompile(serves)
	for lines.Scan() && !told.MatchString(lines.Text()) {
		said += lines.Text() + "\n"
	}
	if !told.MatchString(lines.Text()) {
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

// saysExitCode is what a page says of a command's exit code behind it.
var saysExitCode = regexp.MustCompile(`# exit code (\d)`)

// runAll runs each command, and wants it to say something, unless a file takes it, and to end as the page says: well, if it says nothing.
func runAll(t *testing.T, shell func(string) *exec.Cmd, b *block) {
	t.Helper()
	for _, command := range b.commands {
		c := shell(command)
		var errs bytes.Buffer
		c.Stderr = &errs
		out, err := c.Output()
		want := 0
		if said := saysExitCode.FindStringSubmatch(command); said != nil {
			want = int(said[1][0] - '0')
		}
		if got := c.ProcessState.ExitCode(); got != want || len(out) == 0 && !strings.Contains(command, " > ") {
			t.Errorf("%s: %v, want exit code %d and some output\n%s%s", command, err, want, out, errs.String())
		}
		if first, _, _ := strings.Cut(string(out), " "); b.prints != "" && first != b.prints {
			t.Errorf("%s: got\n%s, want it to begin with %q as on the page", command, out, b.prints)
		}
	}
}

// inCode finds what a page has as code: lines with an indent of four, and between backticks.
var inCode = regexp.MustCompile("(?m)^    (?:\\$ )?((?:.*\\\\\n)*.*)$|`((?:kubectl )?shardsched [a-z][^`]*)`")

// shardschedIn finds a call of the program in a line of a shell.
var shardschedIn = regexp.MustCompile(`(?:^|\| |\$\(|[^ ]*/)(kubectl )?shardsched ([a-z].*)`)

// inShell is a command whose output is put into a call.
var inShell = regexp.MustCompile(`\$\([^()]*\)`)

// TestCommandsOfPagesExist holds all that pages write of the program to its commands: each exists, has the flags, takes as many arguments, and
// takes the values that are none of a reader's own.
func TestCommandsOfPagesExist(t *testing.T) {
	seen := map[string]bool{}
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join("../../..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range inCode.FindAllStringSubmatch(string(text), -1) {
			line := strings.ReplaceAll(code[1]+code[2], "\\\n", " ")
			for call := shardschedIn.FindStringSubmatch(line); call != nil; call = shardschedIn.FindStringSubmatch(line) {
				name, err := parses(inShell.ReplaceAllString(call[2], "X"), call[1] != "", code[1] != "")
				if err != nil {
					t.Errorf("%s: %s: %v", page, line, err)
				}
				seen[name] = true
				line = strings.Replace(line, "shardsched "+call[2], call[2], 1)
			}
		}
	}
	for _, name := range []string{
		"apply", "capacity", "eval", "coordinator", "delete", "explain", "get", "openb", "pending", "policy", "shadow", "simulate", "snapshot", "summary",
		"top", "trace", "up", "worker",
	} {
		if !seen[name] {
			t.Errorf("no page shows %s", name)
		}
	}
}

// parses holds a call to the commands, as a shell would cut it up. A usage line may have brackets, dots, and words in capitals for values;
// one that is not whole only names a command.
func parses(call string, plugin, whole bool) (name string, err error) {
	s := Streams{Program: "shardsched", In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	if plugin {
		s.Program = "kubectl-shardsched"
	}
	root := Root(s, Standard())
	root.InitDefaultCompletionCmd()
	words := shellWords(call)
	c, rest, err := root.Find(words)
	if err != nil {
		return "", err
	}
	if c == root || c.RunE == nil && c.Run == nil && len(c.Commands()) == 0 {
		return "", fmt.Errorf("%q is no command", words)
	}
	var args []string
	for i := 0; i < len(rest); i++ {
		word, value, has := strings.Cut(rest[i], "=")
		if !strings.HasPrefix(word, "-") || word == "-" {
			args = append(args, rest[i])
			continue
		}
		flag := c.Flag(strings.TrimPrefix(word, "--"))
		if !strings.HasPrefix(word, "--") {
			if flag = c.Flags().ShorthandLookup(word[1:2]); flag == nil {
				flag = c.InheritedFlags().ShorthandLookup(word[1:2])
			}
		}
		switch {
		case flag == nil && (word == "--help" || word == "-h" || word == "--version"):
			continue
		case flag == nil:
			return c.Name(), fmt.Errorf("%s has no flag %s", c.CommandPath(), word)
		case !has && flag.NoOptDefVal != "":
			continue
		case !has && i+1 == len(rest):
			return c.Name(), fmt.Errorf("%s wants a value", word)
		case !has:
			i++
			value = rest[i]
		}
		if strings.ContainsAny(value, "…|") || value == strings.ToUpper(value) { // a reader's own
			continue
		}
		if err := flag.Value.Set(value); err != nil {
			return c.Name(), fmt.Errorf("%s %s: %w", word, value, err)
		}
	}
	if c.Args == nil || len(c.Commands()) > 0 || !whole {
		return c.Name(), nil
	}
	return c.Name(), c.ValidateArgs(args)
}

// shellWords cuts a command up as a shell does, up to where another begins.
func shellWords(line string) (words []string) {
	var word strings.Builder
	quote, open := rune(0), false
	end := func() {
		if text := strings.Trim(word.String(), "[]"); open && text != "…" {
			words = append(words, strings.TrimSuffix(text, "…"))
		}
		word.Reset()
		open = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && r == ' ':
			if end(); len(words) > 0 && slices.Contains([]string{"|", ">", "#", "&", "(", "<"}, words[len(words)-1]) {
				return words[:len(words)-1]
			}
		case quote == 0 && (r == ')' || r == ';' || r == '#' && !open):
			end()
			return words
		default:
			word.WriteRune(r)
			open = true
		}
	}
	end()
	return words
}
