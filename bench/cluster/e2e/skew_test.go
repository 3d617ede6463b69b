package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/bench/internal/submit"
	"github.com/shardsched/shardsched/bench/judge/oracle/conformance"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

var base = flag.String("base", "", "tag or commit to upgrade from, and to go back to; empty: this one, with other rules and another message")

const (
	// perStep is how many pods are decided at each step of a roll-out, withClaims how many of them ask for a device: workers are
	// always asked of these, where there are any.
	perStep    = 40
	withClaims = 4
)

// rollout is two coordinators and two workers, each of the old or the new version. They have the same names in both, as pods of a
// StatefulSet do.
type rollout struct {
	*rig
	binaries     map[string]string // by version
	coordinators map[string]string // version by name
	workers      map[string]string
	running      map[string]*process.Process // workers by name
	answers      map[string]uint64           // of workers, by version
	pods, lives  int
	sameRules    bool
	records      map[string]string // of each coordinator that runs, by name
	led          []string          // records of those that have led
	random       *rand.Rand
}

// TestMixedVersionsDecideAsUpstream rolls coordinators and workers from one version to another and back twice, one process at a time,
// once with workers first on the way up and coordinators first on the way down, and once the other way round. At each step pods are decided,
// and no worker whose rules are not the leader's is asked. Afterwards every decision is held against upstream's plugins.
func TestMixedVersionsDecideAsUpstream(t *testing.T) {
	t.Logf("seed %d", *seed)
	old := filepath.Join(t.TempDir(), "shardsched-old")
	if *base == "" {
		buildOther(t, old)
	} else {
		buildBase(t, old)
	}
	r := &rollout{
		rig: newRig(t), coordinators: map[string]string{}, workers: map[string]string{}, running: map[string]*process.Process{},
		records: map[string]string{}, answers: map[string]uint64{}, random: rand.New(rand.NewPCG(*seed, 17)),
	}
	r.build()
	r.binaries = map[string]string{"old": old, "new": r.binary}
	r.sameRules = r.rulesAreEqual()
	if *base == "" && r.sameRules {
		t.Fatal("got two builds of the same rules, want them different")
	}
	for _, name := range []string{"coordinator-0", "coordinator-1"} {
		r.rollCoordinator(name, "old")
	}
	for _, name := range []string{"worker-0", "worker-1"} {
		r.rollWorker(name, "old")
	}
	r.cluster()
	r.step("all old")
	r.rollWorkers("new")
	r.rollCoordinators("new")
	r.rollCoordinators("old")
	r.rollWorkers("old")
	r.rollCoordinators("new")
	r.rollWorkers("new")
	r.rollWorkers("old")
	r.rollCoordinators("old")
	if r.answers["old"] == 0 || r.answers["new"] == 0 {
		t.Errorf("got %v answers of workers, want some of each version", r.answers)
	}
	r.settle()
	for name := range r.coordinators {
		r.members[name].Terminate()
		<-r.members[name].Done()
	}
	r.judge()
	r.replay()
}

// rollWorkers exchanges the workers one by one.
func (r *rollout) rollWorkers(version string) {
	r.t.Helper()
	for _, name := range []string{"worker-0", "worker-1"} {
		r.rollWorker(name, version)
		r.step(name + " is " + version)
	}
}

func (r *rollout) rollWorker(name, version string) {
	r.t.Helper()
	if p := r.running[name]; p != nil {
		p.Terminate()
		<-p.Done()
	}
	r.binary, r.workers[name] = r.binaries[version], version
	r.running[name] = r.startWorker(name)
}

// rollCoordinators exchanges the one that stands by, and then the leader: so there is one takeover.
func (r *rollout) rollCoordinators(version string) {
	r.t.Helper()
	leader, term := r.leader(0)
	names := []string{"coordinator-0", "coordinator-1"}
	if leader.Name == names[0] {
		slices.Reverse(names)
	}
	for _, name := range names {
		r.rollCoordinator(name, version)
	}
	next, _ := r.leader(term)
	r.log("%s, which is %s, leads", next.Name, r.coordinators[next.Name])
	r.step("coordinators are " + version)
}

func (r *rollout) rollCoordinator(name, version string) {
	r.t.Helper()
	if m := r.members[name]; m != nil {
		m.Terminate()
		<-m.Done()
	}
	r.lives++
	file := filepath.Join(r.dir, fmt.Sprintf("%s-%d.record", name, r.lives))
	r.records[name] = file
	r.binary, r.coordinators[name], r.flags = r.binaries[version], version, []string{"--record", file}
	r.startCoordinator(name)
	r.flags = nil
}

// cluster applies nodes with devices.
func (r *rollout) cluster() {
	r.t.Helper()
	r.applyNodes(nodes(40))
	objects := []submit.Object{&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}}
	for i := range 40 {
		node := fmt.Sprintf("node-%03d", i)
		objects = append(objects, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
		}})
	}
	r.apply(objects)
}

func (r *rollout) apply(objects []submit.Object) {
	r.t.Helper()
	req, err := submit.Request(objects)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.client.Apply(r.ctx, req); err != nil {
		r.t.Fatal(err)
	}
}

// step has pods decided while versions are as they are now, and holds who was asked to who may be.
func (r *rollout) step(what string) {
	r.t.Helper()
	before := r.asked()
	list := pods(fmt.Sprintf("step-%02d", r.pods), perStep, r.random)
	r.pods++
	var claims []submit.Object
	for i := range withClaims {
		name := fmt.Sprintf("claims-%02d-%d", r.pods, i)
		claims = append(claims, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: resourcev1.ResourceClaimSpec{
			Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			}}}},
		}})
		p := build.Pod(name).UID("").CPU("50m").Obj()
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
		list = append(list, p)
	}
	r.apply(claims)
	l := r.arrive(list, 1000)
	<-l.done
	if l.err != nil {
		r.t.Fatal(l.err)
	}
	r.until("the scheduler is idle", r.idle)
	for name, after := range r.asked() {
		now := after.GetRequests() - before[name].GetRequests()
		if r.mine(name) {
			r.answers[r.workers[name]] += now
		} else if now > 0 {
			r.t.Errorf("%s: %s, which is %s, has answered %d times, want no answer: its rules are not the leader's", what, name, r.workers[name], now)
		}
	}
	leader, _ := r.leader(0)
	if file := r.records[leader.Name]; !slices.Contains(r.led, file) {
		r.led = append(r.led, file)
	}
	r.log("%s: decided", what)
}

// mine tells whether a worker is of the rules of the coordinator that leads.
func (r *rollout) mine(worker string) bool {
	leader, _ := r.leader(0)
	return r.sameRules || r.workers[worker] == r.coordinators[leader.Name]
}

// asked waits until the leader lists both workers as they are, those of other rules as such, and returns what it says of them.
func (r *rollout) asked() (out map[string]*pb.WorkerStatus) {
	r.t.Helper()
	r.until("the leader lists the workers as they are", func() (bool, error) {
		list, err := r.list()
		if err != nil || len(list) != len(r.workers) {
			return false, fmt.Errorf("it lists %v: %w", list, err)
		}
		out = map[string]*pb.WorkerStatus{}
		for _, w := range list {
			out[w.GetId()] = w
			if strings.HasPrefix(w.GetQuarantine(), "other version") == r.mine(w.GetId()) {
				return false, fmt.Errorf("%s is %s, and is listed as %v", w.GetId(), r.workers[w.GetId()], w)
			}
		}
		return true, nil
	})
	return out
}

func (r *rollout) list() (workers []*pb.WorkerStatus, err error) {
	err = r.client.Do(r.ctx, func(ctx context.Context, s pb.SchedulerServiceClient) error {
		resp, err := s.ListWorkers(ctx, &pb.ListWorkersRequest{})
		workers = resp.GetWorkers()
		return err
	})
	return workers, err
}

// rulesAreEqual reads the rules that a worker of each version registers.
func (r *rollout) rulesAreEqual() bool {
	r.t.Helper()
	rules := map[string]uint64{}
	for version, binary := range r.binaries {
		r.binary = binary
		p := r.startWorker("probe-" + version)
		r.until("a worker that is "+version+" registers", func() (bool, error) {
			kept, err := r.etcd.client.Get(r.ctx, "/shardsched/"+clusterName+"/workers/"+p.Name)
			if err != nil || len(kept.Kvs) == 0 {
				return false, err
			}
			var w pb.WorkerRegistration
			err = proto.Unmarshal(kept.Kvs[0].Value, &w)
			rules[version] = w.GetRules()
			return err == nil, err
		})
		p.Terminate()
		<-p.Done()
	}
	return rules["new"] == rules["old"]
}

// replay holds every decision of every coordinator against upstream's plugins.
func (r *rollout) replay() {
	r.t.Helper()
	decisions := 0
	for _, file := range r.led {
		in, err := os.Open(file)
		if err != nil {
			r.t.Fatal(err)
		}
		result, err := (&conformance.Flight{Record: in, Every: 1}).Replay(klog.NewContext(r.ctx, klog.Logger{}))
		in.Close()
		if err != nil {
			r.t.Errorf("%s: %v", filepath.Base(file), err)
			continue
		}
		for _, d := range result.Differences {
			r.t.Errorf("%s: %v", filepath.Base(file), d)
		}
		if result.Ended != "" {
			r.t.Errorf("%s ends before its time: %s", filepath.Base(file), result.Ended)
		}
		decisions += result.Decisions
		r.log("%s: %v", filepath.Base(file), result)
	}
	if decisions < r.ledger.Len() {
		r.t.Errorf("got %d decisions on record, want one at least of each of %d pods", decisions, r.ledger.Len())
	}
}

// top is the top of the repository.
var top = filepath.Join("..", "..", "..")

// buildBase builds the version that the flag names.
func buildBase(t *testing.T, out string) {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "base")
	run(t, exec.CommandContext(t.Context(), "git", "-C", top, "worktree", "add", "--detach", tree, *base))
	t.Cleanup(func() { _ = exec.Command("git", "-C", top, "worktree", "remove", "--force", tree).Run() })
	c := exec.CommandContext(t.Context(), "go", "build", "-o", out, "./cmd/shardsched")
	c.Dir = tree
	run(t, c)
}

// buildOther builds this version as a later one might be: rules have changed, and requests have one more field, which is always sent.
// Nothing of it is in the product: the files that differ are laid over it.
func buildOther(t *testing.T, out string) {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	lay := func(path string, text []byte) {
		path, err := filepath.Abs(filepath.Join(top, path))
		if err != nil {
			t.Fatal(err)
		}
		replace[path] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(replace[path], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lay("proto/shardsched/v1/worker.pb.go", withField(t, "EvaluateRequest", "later"))
	lay("scorer/scan/version.go", edit(t, "scorer/scan/version.go", `rulesRevision = \d+`, "rulesRevision = 1 << 20"))
	lay("coordinator/fanout/call.go", edit(t, "coordinator/fanout/call.go", `Cluster: c\.job\.cluster,`, "Cluster: c.job.cluster, Later: 1,"))
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "go", "build", "-overlay", file, "-o", out, "./cmd/shardsched")
	c.Dir = top
	run(t, c)
}

// edit replaces the one place of a file that an expression finds.
func edit(t *testing.T, path, find, by string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	x := regexp.MustCompile(find)
	if n := len(x.FindAll(text, -1)); n != 1 {
		t.Fatalf("%s: want %q once, got it %d times", path, find, n)
	}
	return x.ReplaceAll(text, []byte(by))
}

// withField is the Go code of worker.proto with one more field in a message.
func withField(t *testing.T, message, field string) []byte {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(pb.File_shardsched_v1_worker_proto)
	i := slices.IndexFunc(file.MessageType, func(m *descriptorpb.DescriptorProto) bool { return m.GetName() == message })
	m := file.MessageType[i]
	number := int32(1)
	for _, f := range m.Field {
		number = max(number, f.GetNumber()+1)
	}
	m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
		Name: &field, JsonName: &field, Number: &number,
		Type: descriptorpb.FieldDescriptorProto_TYPE_UINT64.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	})
	req := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{file.GetName()}, Parameter: proto.String("paths=source_relative")}
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		if !seen[f.Path()] && f.Path() != file.GetName() {
			seen[f.Path()] = true
			req.ProtoFile = append(req.ProtoFile, protodesc.ToFileDescriptorProto(f))
		}
	}
	add(pb.File_shardsched_v1_worker_proto)
	req.ProtoFile = append(req.ProtoFile, file)
	in, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "go", "run", "google.golang.org/protobuf/cmd/protoc-gen-go")
	c.Stdin = bytes.NewReader(in)
	var resp pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(run(t, c), &resp); err != nil || resp.GetError() != "" || len(resp.File) != 1 {
		t.Fatalf("generate: %v, %v", &resp, err)
	}
	return []byte(resp.File[0].GetContent())
}

// run is what a command prints.
func run(t *testing.T, c *exec.Cmd) []byte {
	t.Helper()
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, said.Bytes())
	}
	return out
}
