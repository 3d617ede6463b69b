package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// celEval runs the command, and returns the cells of the rows.
func celEval(t *testing.T, files map[string]string, expression string) ([][]string, string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	c := Root(Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard, Env: func(string) string { return "" }}, Runs{})
	c.SetArgs([]string{"cel", "eval", "-f", dir, expression})
	err := c.ExecuteContext(t.Context())
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[1:] {
		rows = append(rows, regexp.MustCompile(`\s{3,}`).Split(line, -1))
	}
	return rows, out.String(), err
}

const celNode = `apiVersion: v1
kind: Node
metadata: {name: n1, labels: {disk: ssd}}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
`

// Every example of docs/cel.md comes to what is documented, and the command there prints what it shows.
func TestDocumentedExpressionsAreEvaluated(t *testing.T) {
	text, err := os.ReadFile("../../../docs/cel.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	files := map[string]string{"node.yaml": string(blocks[1][1]), "pod.yaml": string(blocks[2][1])}
	shown := regexp.MustCompile(`(?m)^    \$ shardsched cel eval -f node.yaml -f pod.yaml "(.*)"\n((?:    .*\n)+)`).FindSubmatch(text)
	if shown == nil {
		t.Fatal("docs/cel.md shows no run of cel eval")
	}
	_, out, err := celEval(t, files, string(shown[1]))
	if want := regexp.MustCompile("(?m)^    ").ReplaceAllString(string(shown[2]), ""); err != nil || out != want {
		t.Errorf("got\n%s%v\nwant\n%s", out, err, want)
	}
	for i := range 2 {
		files[fmt.Sprintf("on-%d.yaml", i)] = fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: on-%d}
spec: {nodeName: n1, containers: [{name: c, image: x, resources: {requests: {cpu: "1"}}}]}
`, i)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]*)` \\| (true|false|failed: .*|[0-9.]+) \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 15 {
		t.Fatalf("got %d examples, want at least 15", len(rows))
	}
	for _, row := range rows {
		got, _, err := celEval(t, files, row[1])
		if err != nil || len(got) != 1 || got[0][2] != row[2] {
			t.Errorf("%s: got %q, %v; want %q", row[1], got, err, row[2])
		}
	}
}

func TestExpressionsThatCanNotBeEvaluated(t *testing.T) {
	for expression, want := range map[string]string{
		"node.labels['disk'":           "expression: column",
		"nod.labels":                   "expression: column 1: undeclared reference",
		"node.labels":                  "expected a bool",
		"pod.labels['a'] == node.name": "the expression reads pod.labels, and there is no pod without a node in the input",
	} {
		if _, out, err := celEval(t, map[string]string{"node.yaml": celNode}, expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v; want %q", expression, out, err, want)
		}
	}
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: x}]}\n"
	if _, _, err := celEval(t, map[string]string{"pod.yaml": pod}, "true"); err == nil || !strings.Contains(err.Error(), "no node in the input") {
		t.Errorf("without a node: got %v", err)
	}
	rows, _, err := celEval(t, map[string]string{"node.yaml": celNode}, "node.free['cpu'] / quantity('4')")
	if err != nil || len(rows) != 1 || rows[0][1] != "<none>" || rows[0][2] != "2" {
		t.Errorf("without a pod: got %q, %v; want 2", rows, err)
	}
}
