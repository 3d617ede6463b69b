package config

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// noImages is a cluster in which no node has an image.
type noImages struct{}

func (noImages) Spread(string) (sizeBytes int64, nodes int, ok bool) { return 0, 0, false }
func (noImages) TotalNodes() int                                     { return 1 }

// TestTheDocumentedExpressions holds every example of docs/cel.md.
func TestTheDocumentedExpressions(t *testing.T) {
	text, err := os.ReadFile("../../docs/cel.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) != 3 {
		t.Fatalf("got %d blocks of yaml, want a configuration, a node and a pod", len(blocks))
	}
	if _, err := Parse("docs/cel.md", blocks[0][1]); err != nil {
		t.Error(err)
	}
	node, pod := &v1.Node{}, &v1.Pod{}
	for i, into := range []any{node, pod} {
		if err := sigsyaml.UnmarshalStrict(blocks[i+1][1], into); err != nil {
			t.Fatal(err)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]*)` \\| (true|false|failed: .*|[0-9.]+) \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 15 {
		t.Fatalf("got %d examples, want at least 15", len(rows))
	}
	for _, row := range rows {
		if got, err := documented(row[1], row[2], node, pod); err != nil || got != row[2] {
			t.Errorf("%s: got %q, %v, want %q", row[1], got, err, row[2])
		}
	}
}

// documented is what an expression comes to, by way of a configuration.
func documented(text, want string, node *v1.Node, pod *v1.Pod) (string, error) {
	plugin := rules.CELScore
	if want == "true" || want == "false" || strings.HasPrefix(want, "failed") {
		plugin = rules.CELFilter
	}
	file := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: %s}]}}
  pluginConfig: [{name: %s, args: {expressions: [{name: x, expression: %q}]}}]
`, plugin, plugin, text)
	c, err := Parse("example", []byte(file))
	if err != nil {
		return "", err
	}
	profiles, err := c.Profiles()
	if err != nil {
		return "", err
	}
	class, err := compile.New().Class(pod, profiles["default-scheduler"], compile.EmptyCluster(noImages{}))
	switch {
	case err != nil:
		return "", err
	case class.Rejected != nil:
		return "false", nil
	}
	wire := compile.Node(node)
	wire.Annotations = compile.Annotations(node, compile.NodeAnnotations(profiles))
	table := scorer.NewTable(0)
	usage := &pb.PodUsage{Requests: &pb.Resources{MilliCpu: 1000}, NonZeroMilliCpu: 1000}
	for _, d := range []*pb.Delta{{Change: &pb.Delta_SetNode{SetNode: wire}}, {Change: &pb.Delta_AddPod{AddPod: usage}}, {Change: &pb.Delta_AddPod{AddPod: usage}}} {
		if err := table.Apply(d); err != nil {
			return "", err
		}
	}
	outcomes := scorer.NewEvaluator(nil).Expressions(table, 0, nil, class.Scorer)
	if len(outcomes) == 0 {
		return "true", nil // the pod decides alone
	}
	return outcomes[0].Outcome, nil
}
