package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoPods = `
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: fits}
spec: {containers: [{name: a, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {containers: [{name: a, resources: {requests: {cpu: "3"}}}]}
`

// up goes on serving, says when all is scheduled and what to type, and ends an interruption with the summary.
func TestUpSaysWhereItStands(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "two.yaml")
	if err := os.WriteFile(file, []byte(twoPods), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(context.WithValue(t.Context(), signalled{}, true))
	defer interrupt()
	var out bytes.Buffer
	errs, in := io.Pipe()
	done := make(chan int, 1)
	go func() {
		args := []string{"up", "--listen", freeAddress(), "--http-listen", "", "--workers", "1", "-f", file, "--data-dir", filepath.Join(dir, "state")}
		done <- Main(ctx, args, Streams{In: strings.NewReader(""), Out: &out, Err: in, Env: func(string) string { return "" }, Program: "bin/shardsched"}, Standard())
		in.Close()
	}()
	var said strings.Builder
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "  bin/shardsched summary --address ") {
			interrupt()
		}
	}
	if code := <-done; code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	for _, want := range []string{
		"Became leader: id ", "after nobody\n", "1 of 2 pods placed in ", "; 1 pending. In another window:\n  bin/shardsched pending --address ", " pod big\n",
		"Stopped leading: id ", "cause told to end\n", "Stopped. Nodes, pods and all else are kept in " + dir + "/state; --data-dir " + dir + "/state goes on with them.\n",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("got\n%s\nwant it to hold %q", said.String(), want)
		}
	}
	for _, wrong := range []string{"term", "Leader lease ended", "Worker joined"} {
		if strings.Contains(said.String(), wrong) {
			t.Errorf("got\n%s\nwant nothing of %q", said.String(), wrong)
		}
	}
	if !strings.HasPrefix(out.String(), "Summary\n  pods           1 bound, 1 pending\n") {
		t.Errorf("got\n%s\nwant the summary of one bound and one pending pod", out.String())
	}
}
