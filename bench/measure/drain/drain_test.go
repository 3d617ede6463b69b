package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestBothSchedulersBindAllPodsWhereTheyMayBe(t *testing.T) {
	dir := t.TempDir()
	prefix := filepath.Join(dir, "report")
	var out, progress strings.Builder
	args := []string{
		"-nodes=50", "-pods=100", "-rates=100", "-arrive-for=500ms", "-workloads=mixed", "-apps=4",
		"-dir=" + t.ArtifactDir(), "-out=" + prefix,
	}
	if err := command(t.Context(), args, &out, &progress); err != nil {
		t.Fatalf("got %v, want no error; progress:\n%s", err, progress.String())
	}
	raw, err := os.ReadFile(prefix + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) != 4 {
		t.Fatalf("got %d cases, want 4: two schedulers, drained and arriving", len(r.Cases))
	}
	for _, f := range r.Cases {
		if f.Bound != f.Pods {
			t.Errorf("%s: got %d of %d pods bound, want all", f.Side, f.Bound, f.Pods)
		}
		if got := f.Requests["POST pods/binding"]; got < float64(f.Pods) {
			t.Errorf("%s: got %.0f requests to bind, want %d", f.Side, got, f.Pods)
		}
		if f.CPUSeconds <= 0 || f.PeakMiB <= 0 {
			t.Errorf("%s: got %v CPU seconds, %v MiB; want some", f.Side, f.CPUSeconds, f.PeakMiB)
		}
	}
	for _, want := range []string{"upstream", "ours", "pods/s", "p99 ms"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

// placed makes pods of an order, as if a scheduler had put them on these nodes.
func placed(o *options, kinds []workload, nodes ...string) []*v1.Pod {
	pods := o.pods(kinds, len(nodes))
	for i, p := range pods {
		p.Spec.NodeName = nodes[i]
	}
	return pods
}

func TestWrongPlacementsAreFound(t *testing.T) {
	o := &options{nodes: 6, zones: 3, apps: 1, seed: 1}
	c := newCluster(o)
	for _, test := range []struct {
		about, workload, want string
		nodes                 []string
	}{
		{"a node of its own each", "anti-affinity", "", []string{"node-00000", "node-00001"}},
		{"two on a node that repel each other", "anti-affinity", "both on node-00003", []string{"node-00003", "node-00003"}},
		{"a zone each", "spread", "", []string{"node-00000", "node-00001", "node-00005"}},
		{"no zone is ahead by more than 1", "spread", "", []string{"node-00000", "node-00001"}},
		{"a zone is ahead by 2", "spread", "a skew of more than 1", []string{"node-00000", "node-00003"}},
		{"a node that is not there", "basic", `node "elsewhere", which is not there`, []string{"elsewhere"}},
	} {
		kinds, err := workloadOf(test.workload)
		if err != nil {
			t.Fatal(err)
		}
		err = o.check(kinds, placed(o, kinds, test.nodes...), c)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: got %v, want no error", test.about, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want %q", test.about, err, test.want)
		}
	}
}

func TestRequestsAreCountedByWhatIsAskedFor(t *testing.T) {
	r := requests{}
	for _, line := range []string{
		`# TYPE apiserver_request_total counter`,
		`apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 17`,
		`apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 2`,
		`apiserver_request_total{code="0",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 3`,
		`apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 5`,
	} {
		if err := r.line(line); err != nil {
			t.Fatal(err)
		}
	}
	got := r.since(requests{"POST pods/binding": 9})
	if len(got) != 1 || got["POST pods/binding"] != 10 {
		t.Errorf("got %v, want 10 of POST pods/binding and nothing else", got)
	}
}
