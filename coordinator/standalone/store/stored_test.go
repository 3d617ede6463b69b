package store_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

var golden = flag.String("golden", "", "write what this build stores into testdata/stored, as that of a release: v1.2.3")

// keptKey is a key in etcd as a release wrote it, and what it means: an object, a QueueEntry or a GangCommit, in JSON.
type keptKey struct {
	Key   string          `json:"key"`
	Value []byte          `json:"value"`
	Means json.RawMessage `json:"means"`
}

// TestStoredByEachRelease reads what each release has stored, byte by byte as that release wrote it. A new kind, or a new field of
// the journal, needs a golden file that has it: make golden VERSION=v1.2.3, of the release that is to come.
func TestStoredByEachRelease(t *testing.T) {
	if *golden != "" {
		t.Run("write", func(t *testing.T) { // it ends when those within it have ended
			t.Run("golden", func(t *testing.T) { writeGolden(t, filepath.Join("testdata/stored", *golden+".jsonl")) })
		})
	}
	files, err := filepath.Glob("testdata/stored/v*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("got golden files %q, %v; want one of each release", files, err)
	}
	kinds, fields := map[objects.Kind]bool{}, map[string]bool{}
	t.Run("read", func(t *testing.T) { // they run side by side, and end before what they found is looked at
		for _, file := range files {
			for _, x := range readGolden(t, file) {
				note(t, x, kinds, fields)
			}
			t.Run(filepath.Base(file), func(t *testing.T) { wantStored(t, readGolden(t, file)) })
		}
	})
	for _, kind := range objects.Kinds() {
		if !kinds[kind] {
			t.Errorf("%s: want one in a golden file, got none: make golden", kind)
		}
	}
	for _, m := range []proto.Message{&pb.QueueEntry{}, &pb.GangCommit{}} {
		all := m.ProtoReflect().Descriptor().Fields()
		for i := range all.Len() {
			if name := all.Get(i).JSONName(); !fields[name] {
				t.Errorf("field %s of a %T: want it in a golden file, got none: make golden", name, m)
			}
		}
	}
}

func readGolden(t *testing.T, file string) (out []keptKey) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); {
		var x keptKey
		if err := json.Unmarshal(in.Bytes(), &x); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, x)
	}
	return out
}

// note takes in which kinds and which fields of the journal a golden file has.
func note(t *testing.T, x keptKey, kinds map[objects.Kind]bool, fields map[string]bool) {
	var means map[string]any
	if err := json.Unmarshal(x.Means, &means); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(x.Key, "/objects/") {
		for name := range means {
			fields[name] = true
		}
		return
	}
	obj, err := objects.Decode(x.Value)
	if err != nil {
		t.Fatalf("%s: %v", x.Key, err)
	}
	kinds[objects.RefOf(obj).Kind] = true
}

// wantStored has a leader load what a release stored.
func wantStored(t *testing.T, all []keptKey) {
	r := newRig(t)
	want := map[string]any{}
	for _, x := range all {
		r.put(t, x.Key, string(x.Value))
		want[x.Key] = tree(t, x.Means)
	}
	got := map[string]any{}
	loaded := r.load(t)
	list := loaded.Cluster
	for _, n := range loaded.Nodes {
		list = append(list, n)
	}
	for _, p := range loaded.Pods {
		list = append(list, p)
	}
	for _, obj := range list {
		if faults := objects.Validate(obj); len(faults) > 0 {
			t.Errorf("%s: want it valid, got %v", objects.RefOf(obj), faults)
		}
		got[keyOf(obj)] = tree(t, meaning(t, obj))
	}
	entries, err := r.LoadEntries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for uid, e := range entries {
		got["/shardsched/test/queue/"+string(uid)] = tree(t, protoJSON(t, e))
	}
	commits, err := r.LoadGangs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, part := range commits {
		got["/shardsched/test/gangs/"+key] = tree(t, protoJSON(t, part))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-stored +loaded:\n%s", d)
	}
}

func keyOf(obj objects.Object) string {
	ref := objects.RefOf(obj)
	key := "/shardsched/test/objects/" + ref.Kind.Plural() + "/"
	if ref.Kind.Namespaced() {
		key += ref.Namespace + "/"
	}
	return key + ref.Name
}

// meaning is an object in JSON, without the resource version, which is etcd's and is not stored.
func meaning(t *testing.T, obj objects.Object) []byte {
	t.Helper()
	obj = obj.DeepCopyObject().(objects.Object)
	obj.SetResourceVersion("")
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func protoJSON(t *testing.T, e proto.Message) []byte {
	t.Helper()
	text, err := protojson.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func tree(t *testing.T, text []byte) (out any) {
	t.Helper()
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// writeGolden stores objects and entries as a leader does, and writes what etcd then holds.
func writeGolden(t *testing.T, file string) {
	r := newRig(t)
	text, err := os.ReadFile("testdata/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var list []runtime.Object
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		obj, err := objects.Decode(raw)
		if err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		objects.Default(obj)
		list = append(list, obj)
	}
	r.apply(t, list...)
	second := func(n int64) *timestamppb.Timestamp {
		return timestamppb.New(birth.Add(time.Duration(n) * time.Second))
	}
	entry := &pb.QueueEntry{
		Pod: "shop/pending", Attempts: 3, FirstAttempt: second(1), Queued: second(2), BackoffUntil: second(3), UnschedulableCount: 2, ErrorCount: 1,
		RejectedBy: []string{"NodeAffinity", "NodeResourcesFit"}, NominatedNode: "n1", Message: "0/1 nodes are available: 1 Insufficient cpu.",
	}
	if err := r.SaveEntries(t.Context(), r.fence, map[types.UID]*pb.QueueEntry{"uid-pending": entry}, nil); err != nil {
		t.Fatal(err)
	}
	commit := &pb.GangCommit{
		PodGroup: "shop/train", Term: 7, Seq: 12, Part: 1, Parts: 2, Members: []*pb.GangMember{{Uid: "uid-a", Node: "n1"}, {Uid: "uid-b", Node: "n2"}},
	}
	gangKey := "shop/train/0000000000000007-000000000000000c-0001"
	if err := r.SaveGangs(t.Context(), r.fence, map[string]*pb.GangCommit{gangKey: commit}, nil); err != nil {
		t.Fatal(err)
	}
	kept, err := r.client.Get(t.Context(), "/shardsched/test/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, kv := range kept.Kvs {
		x := keptKey{Key: string(kv.Key), Value: kv.Value}
		switch {
		case strings.Contains(x.Key, "/objects/"):
			obj, err := objects.Decode(kv.Value)
			if err != nil {
				t.Fatal(err)
			}
			x.Means = meaning(t, obj)
		case strings.Contains(x.Key, "/gangs/"):
			x.Means = protoJSON(t, commit)
		default:
			x.Means = protoJSON(t, entry)
		}
		if err := json.NewEncoder(&out).Encode(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
