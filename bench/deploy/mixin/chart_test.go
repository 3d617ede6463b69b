package mixin

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/bench/deploy/chart"
)

// The chart's PrometheusRule has the same rules as the one for those without the chart, under the release's name.
func TestTheChartHasTheAlerts(t *testing.T) {
	c, err := chart.Load(filepath.Join(root, "deploy/chart"))
	if err != nil {
		t.Fatal(err)
	}
	values, err := chart.Values([]byte("prometheusRule: {enabled: true, labels: {release: kube-prometheus}}"))
	if err != nil {
		t.Fatal(err)
	}
	texts, _, err := c.Render(chart.Helm, values)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/mixin/prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Kind     string
		Metadata struct {
			Name   string
			Labels map[string]string
		}
		Spec any
	}
	var got, want object
	for text, into := range map[string]*object{string(text): &want, texts["prometheusrule.yaml"]: &got} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if got.Kind != want.Kind || got.Spec == nil || !reflect.DeepEqual(got.Spec, want.Spec) {
		t.Errorf("want the rules of deploy/mixin, got\n%s", texts["prometheusrule.yaml"])
	}
	if got.Metadata.Name != chart.Helm.Name || got.Metadata.Labels["release"] != "kube-prometheus" {
		t.Errorf("want the release's name and the label, got %+v", got.Metadata)
	}
}
