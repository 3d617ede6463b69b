package expression

import (
	"slices"
	"testing"
)

func TestAnExpressionTellsWhatItSaw(t *testing.T) {
	template, err := Compile(`node.labels['disk'] == 'ssd' && node.free['cpu'] > quantity('1') && 'zone' in node.labels && `+
		`node.taints.size() == 0 && !node.unschedulable && pod.name != ''`, Filter)
	if err != nil {
		t.Fatal(err)
	}
	r, err := template.Residual(template.Ask(&Pod{Name: "p"}))
	if err != nil {
		t.Fatal(err)
	}
	got := r.Saw(sawNode())
	want := []string{
		`node.free["cpu"] is 500m`,
		`node.labels["disk"] is "hdd"`,
		`there is no node.labels["zone"]`,
		`node.taints is [{key: "dedicated", value: "gpu", effect: "NoSchedule"}]`,
		`node.unschedulable is false`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func sawNode() *fakeNode {
	return &fakeNode{
		labels: map[string]string{"disk": "hdd"}, allocatable: map[string]int64{"cpu": 2000}, requested: map[string]int64{"cpu": 1500},
		taints: [][3]string{{"dedicated", "gpu", "NoSchedule"}},
	}
}
