package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheWhatIfPageIsTrue runs each command of docs/what-if.md in a copy of its folder, and holds the output against the page.
func TestTheWhatIfPageIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../../docs/what-if.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../../docs/what-if")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	blocks := regexp.MustCompile(`(?m)^    \$ shardsched (.*)\n((?:\n?    [^$\n].*\n)*)`).FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 8 {
		t.Fatalf("got %d commands on the page, want 8 or more", len(blocks))
	}
	for _, b := range blocks {
		line, file, toFile := strings.Cut(b[1], " > ")
		out, errs, code := command(t, strings.Fields(line)...)
		if code == exitFailed {
			t.Errorf("%s: got code %d and %s\n%s", b[1], code, out, errs)
		}
		if toFile {
			if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want := strings.ReplaceAll("\n"+b[2], "\n    ", "\n")[1:]
		if out != want {
			t.Errorf("%s: the page differs from the output (-page +output):\n%s", b[1], cmp.Diff(want, out))
		}
	}
}

// The exit code says whether the change has a place.
func TestExitCodesOfAWhatIf(t *testing.T) {
	const folder = "../../../docs/what-if/"
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"podsBound": 3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"--drain", "node-1"}, exitDone, "drain of node-1: it is empty"},
		{[]string{"-f", folder + "scaled.yaml"}, exitPends, "2 pods pend"},
		{[]string{"-f", folder + "upgrade.yaml"}, exitPends, "rollout is stuck"},
		{[]string{"--drain", "nope"}, exitFailed, "--drain nope: there is no such node in the input"},
		{[]string{"--delete", "shop/web"}, exitFailed, "expected KIND/NAME or KIND/NAMESPACE/NAME"},
		{[]string{"--delete", "deployment/shop/none"}, exitFailed, "there is no Deployment shop/none in the cluster"},
		{[]string{"--add-nodes", "0=" + folder + "node.yaml"}, exitFailed, "expected COUNT=FILE, with a number from 1 to 100000"},
		{[]string{"--add-nodes", "100001=" + folder + "node.yaml"}, exitFailed, "expected COUNT=FILE, with a number from 1 to 100000"},
		{[]string{"--add-nodes", "2=" + folder + "cluster.yaml"}, exitFailed, "holds 4 nodes, expected one"},
		{[]string{"--rollout", "fast"}, exitFailed, "rolling, replace"},
		{[]string{"--diff", bad}, exitFailed, "it is no answer of simulate -o json"},
		{[]string{"--diff", bad, "--compare-config", bad}, exitFailed, "give one of them"},
		{[]string{"--drain", "node-1", "--write-objects", "x"}, exitFailed, "leave --drain out"},
		{[]string{"--nonsense"}, exitFailed, "unknown flag"},
		{[]string{"--explain", "shop/nobody"}, exitFailed, "explain pod shop/nobody"},
		{[]string{"--cordon", "node-1", "--explain", "shop/big"}, exitDone, "Now 0 of 4 nodes pass every filter."},
	} {
		out, errs, code := command(t, append([]string{"simulate", "-f", folder + "cluster.yaml"}, x.args...)...)
		if code != x.code || !strings.Contains(out+errs, x.say) {
			t.Errorf("%s: got code %d and\n%s%s\nwant %d and %s", x.args, code, out, errs, x.code, x.say)
		}
	}
}

// What a change comes to does not depend on workers, and -o json tells all of it.
func TestAWhatIfDoesNotDependOnWorkers(t *testing.T) {
	const folder = "../../../docs/what-if/"
	var first string
	for _, workers := range []string{"0", "1", "3"} {
		out, errs, code := command(t, "simulate", "-f", folder+"cluster.yaml", "-f", folder+"new.yaml", "-f", folder+"upgrade.yaml", "-o", "json",
			"--drain", "node-2", "--workers", workers)
		if first == "" {
			first = out
		}
		if code != exitPends || out != first || !bytes.Contains([]byte(out), []byte(`"preempted"`)) {
			t.Errorf("%s workers: got code %d, %s, and (-first +this)\n%s", workers, code, errs, cmp.Diff(first, out))
		}
	}
}
