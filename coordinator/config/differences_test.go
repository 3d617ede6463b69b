package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestDifferencesToTheDefaults(t *testing.T) {
	if got := Default().Differences(); len(got) > 0 {
		t.Errorf("the default configuration: got %v, want no difference", got)
	}
	c, err := Parse("f", []byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 500}
extenders: [{urlPrefix: "https://user:secret@gpu:8888", filterVerb: f, tlsConfig: {keyData: c2VjcmV0, insecure: true}, enableHTTPS: true}]
profiles:
- schedulerName: batch
  percentageOfNodesToScore: 100
  plugins:
    multiPoint: {disabled: [{name: ImageLocality}]}
    score: {disabled: [{name: TaintToleration}], enabled: [{name: TaintToleration, weight: 7}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range c.Differences() {
		got = append(got, fmt.Sprintf("%s: %s -> %s", d.Field, d.Default, d.Value))
	}
	want := []string{
		`clientConnection.qps: 50 -> 500`,
		`profiles[batch].percentageOfNodesToScore:  -> 100`,
		`profiles[batch].pluginConfig[NodeResourcesFit].scoringStrategy.type: "LeastAllocated" -> "MostAllocated"`,
		`profiles[batch].plugins[ImageLocality]: score 1 -> `,
		`profiles[batch].plugins[TaintToleration]: filter, preScore, score 3 -> filter, preScore, score 7`,
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	if strings.Contains(strings.Join(got, ""), "secret") {
		t.Errorf("got a password or a key: %s", got)
	}
}
