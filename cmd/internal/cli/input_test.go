package cli

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardsched/shardsched/cmd/internal/openb"
)

// manifests is a folder of well-known projects' workloads, beside the repository.
const manifests = "../../../../shared/data/manifests"

// TestRealManifests reads what people wrote: most of it as it is, and with
// --skip-invalid all but what no API server would take.
func TestRealManifests(t *testing.T) {
	files, err := filepath.Glob(manifests + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Skipf("the manifests are not at %s", manifests)
	}
	wrong := map[string]string{
		"karpenter-workloads.yaml":  "securityContext.allowPrivilegedEscalation: unknown field",
		"metrics-server.yaml":       "metrics-server.yaml:80: Deployment kube-system/metrics-server: spec.template.spec.containers: Required value",
		"nvidia-device-plugin.yaml": "given twice; first at",
	}
	for _, file := range files {
		name := filepath.Base(file)
		var errs bytes.Buffer
		s := Streams{Err: &errs, Env: func(string) string { return "" }}
		_, err := readInput(s, inputRequest{Paths: []string{file}, Demo: true})
		if want := wrong[name]; want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		in, err := readInput(s, inputRequest{Paths: []string{file}, SkipInvalid: true, Create: true})
		if err != nil {
			t.Errorf("%s: with invalid objects skipped got %v", name, err)
			continue
		}
		for _, p := range in.Pods {
			if p.UID == "" || p.Spec.Priority == nil || p.Spec.SchedulerName == "" || len(p.OwnerReferences) != 1 {
				t.Errorf("%s: got pod %v, want one with a UID, a priority, a scheduler and an owner", name, p)
			}
		}
	}
}

// TestReadInputTwiceGivesTheSame holds that runs can be repeated: the same names,
// UIDs and order.
func TestReadInputTwiceGivesTheSame(t *testing.T) {
	const text = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 50, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}}}`
	read := func() *Input {
		in, err := readInput(Streams{In: strings.NewReader(text), Err: io.Discard}, inputRequest{Paths: []string{"-"}, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	if d := cmp.Diff(read(), read()); d != "" {
		t.Errorf("the second time gave something else:\n%s", d)
	}
}

// BenchmarkReadInput reads the demo cluster, 9,675 objects, as YAML and as JSON.
func BenchmarkReadInput(b *testing.B) {
	nodes, pods := openb.Objects(openb.Demo(1))
	for _, format := range []string{"yaml", "json"} {
		var text bytes.Buffer
		if err := openb.Write(&text, format, nodes, pods); err != nil {
			b.Fatal(err)
		}
		b.Run(format, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				s := Streams{In: strings.NewReader(text.String()), Out: io.Discard, Err: io.Discard}
				in, err := readInput(s, inputRequest{Paths: []string{"-"}, Create: true})
				if err != nil || len(in.Pods) != len(pods) {
					b.Fatalf("got %v, %v", in, err)
				}
			}
		})
	}
}
