package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

var golden = flag.String("golden", "", "write what this build records into testdata/stored, as that of a release: v1.2.3")

// TestStoredByEachRelease reads the record of each release, byte by byte as that release wrote it, and holds it to the lines
// beside it: each has a record in JSON, and the objects that are in it. A new field needs a golden file that has it: make golden
// VERSION=v1.2.3, of the release that is to come.
func TestStoredByEachRelease(t *testing.T) {
	if *golden != "" {
		writeGolden(t, filepath.Join("testdata/stored", *golden))
	}
	files, err := filepath.Glob("testdata/stored/v*.record")
	if err != nil || len(files) == 0 {
		t.Fatalf("got golden files %q, %v; want one of each release", files, err)
	}
	seen := map[protoreflect.FullName]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := os.ReadFile(strings.TrimSuffix(file, ".record") + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(trees(t, string(lines)), trees(t, spell(t, bytes.NewReader(text), seen))); d != "" {
			t.Errorf("%s: -stored +read:\n%s", file, d)
		}
	}
	wantFields(t, (&pb.Record{}).ProtoReflect().Descriptor(), seen)
}

// spell writes a record as JSON, a line each, and notes which fields are set in it.
func spell(t *testing.T, in io.Reader, seen map[protoreflect.FullName]bool) string {
	t.Helper()
	var out bytes.Buffer
	for r := NewReader(in); ; {
		x, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		fieldsOf(x.ProtoReflect(), seen)
		text, err := protojson.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		raw := append(append(append([][]byte{}, x.GetDecision().GetAssumed()...), x.GetBound().GetLatest()...), x.GetTakenBack().GetLatest()...)
		list, err := Objects(raw)
		if err != nil {
			t.Fatal(err)
		}
		if c := x.GetChange(); c != nil {
			obj, err := Object(c)
			if err != nil {
				t.Fatal(err)
			}
			if obj != nil {
				list = append(list, obj)
			}
		}
		if err := json.NewEncoder(&out).Encode(struct {
			Record  json.RawMessage  `json:"record"`
			Objects []objects.Object `json:"objects"`
		}{text, list}); err != nil {
			t.Fatal(err)
		}
	}
}

func trees(t *testing.T, lines string) (out []any) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var x any
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

// fieldsOf notes the fields of a message that are set, and of those within it.
func fieldsOf(m protoreflect.Message, seen map[protoreflect.FullName]bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		seen[f.FullName()] = true
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				fieldsOf(v.List().Get(i).Message(), seen)
			}
		default:
			fieldsOf(v.Message(), seen)
		}
		return true
	})
}

// wantFields holds that each field that a message can have is seen.
func wantFields(t *testing.T, m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) {
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if !seen[f.FullName()] {
			t.Errorf("field %s: want it in a golden file, got none: make golden", f.FullName())
		}
		if f.Message() != nil && f.Message().ParentFile().Package() == m.ParentFile().Package() {
			wantFields(t, f.Message(), seen)
		}
	}
}

// writeGolden records something of all that can be recorded.
func writeGolden(t *testing.T, name string) {
	f := &file{}
	w := newTest(t, f, Config{Version: *golden})
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default", UID: "claim-1"}}
	pod := build.Pod("a").CPU("500m").Memory("1Gi").Label("app", "web").Obj()
	w.Begin("prod", 7, &objects.Snapshot{Nodes: []*v1.Node{build.Node("n").CPU("8").Memory("32Gi").Zone("a").Obj()}, Pods: []*v1.Pod{pod},
		Cluster: []objects.Object{pv, claim}})
	d := &pb.Decision{
		Seq: 1, Pod: "default/a", Uid: string(pod.UID), Profile: "default-scheduler", Node: "n", Score: 500, Feasible: 1, Nodes: 2,
		Claims: []*pb.ClaimDevices{{Claim: "default/gpu", Devices: []string{"gpu/gpu.example.com/n/gpu-0"}}},
	}
	w.Decision(d, false, []objects.Object{pv, claim})
	w.Released(pod.UID, "n")
	w.TakenBack(d, errors.New("conflict"), true, []objects.Object{pv, claim})
	w.Decision(&pb.Decision{Seq: 2, Pod: "default/a", Uid: string(pod.UID), Message: "0/1 nodes are available", Nominated: "n", Victims: []string{"default/b"}},
		true, nil)
	w.Decision(&pb.Decision{Seq: 3, Pod: "default/brief", Uid: "brief", Message: "0/1 nodes are available", Backfills: "default/gang"}, false, nil)
	w.Decision(&pb.Decision{Seq: 4, Pod: "default/member", Uid: "member", Message: "pod group is unschedulable", PodGroup: "default/gang", Held: "n",
		Domain: "rack=r1"}, false, nil)
	w.Bound(d, []objects.Object{claim})
	w.Nominated(pod.UID, "n")
	w.Judgement(&pb.RecordJudgement{Decision: d, Node: "m", Passes: true, Score: 400, Preempts: true})
	w.Change(pv, false, true)
	w.Change(pod, true, false)
	w.put(entry{end: tooSlow})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole := f.Buffer.Bytes()
	if err := os.WriteFile(name+".record", whole, 0o644); err != nil {
		t.Fatal(err)
	}
	lines := spell(t, bytes.NewReader(whole), map[protoreflect.FullName]bool{})
	if err := os.WriteFile(name+".jsonl", []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
}
