package devices

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// start is the time of all scripts.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// script runs a golden script against a cache. Each line of a "do" block is a command, objects are written in YAML; what the
// command changes for the tables and the queue is printed after it.
//
//	slice|class|claim|pod OBJECT          sets an object; a pod is only remembered
//	delete slice|class|claim|pod NAME     deletes it
//	time DURATION                         is the time since the start
//	resolve POD, problem POD, names POD   what PreFilter and PreEnqueue say, and how texts name the claims
//	use DRIVER/POOL/DEVICE                who uses a device
//	reserve POD NODE FOUND [EXTENDED]     FOUND is a list of Found
//	settle POD, unreserve POD, complete POD
//	plan POD UNAVAILABLE                  what PostFilter says
//	free POD UNAVAILABLE                  does it in memory
//	show NAME                             a claim's status
type script struct {
	t     *testing.T
	c     *Cache
	now   time.Time
	uids  int
	pods  map[string]*v1.Pod
	works map[string]*Work
	out   strings.Builder
}

func newScript(t *testing.T) *script {
	s := &script{t: t, now: start, pods: map[string]*v1.Pod{}, works: map[string]*Work{}}
	s.c = New(Config{Now: func() time.Time { return s.now }, NewUID: func() types.UID {
		s.uids++
		return types.UID(fmt.Sprintf("made-%d", s.uids))
	}})
	return s
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		s := newScript(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			for line := range strings.Lines(d.Input) {
				if line = strings.TrimSpace(line); line != "" {
					s.run(line)
				}
			}
			return s.out.String()
		})
	})
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// read reads YAML.
func read[T any](s *script, text string) *T {
	x := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), x); err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	return x
}

func (s *script) run(line string) {
	command, rest, _ := strings.Cut(line, " ")
	if obj := s.object(command, rest); obj != nil {
		s.changes(s.c.Set(obj))
		return
	}
	f := strings.Fields(rest)
	switch command {
	case "pod":
		s.pod(rest)
	case "delete":
		s.changes(s.delete(f[0], f[1]))
	case "time":
		d, err := time.ParseDuration(f[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = start.Add(d)
	case "resolve":
		s.resolve(s.pods[f[0]])
	case "problem":
		s.printf("%q", s.c.Problem(s.pods[f[0]]))
	case "names":
		s.printf("%v", s.c.ClaimNames(s.pods[f[0]]))
	case "use":
		d := strings.Split(f[0], "/")
		s.printf("%v", s.c.Holders(Device{d[0], d[1], d[2]}))
	case "reserve", "settle", "unreserve", "complete":
		s.place(command, f[0], f[1:], rest)
	case "plan":
		p := s.c.Plan(s.pods[f[0]], *read[[]int](s, strings.Join(f[1:], " ")))
		s.printf("%s", p.Text)
		if p.deallocate != nil {
			s.printf("  deallocate %s: %s", p.deallocate.Name, status(&p.deallocate.Status))
		}
		if p.remove != nil {
			s.printf("  delete %s", p.remove.Name)
		}
	case "free":
		now, gone, told := s.c.CompletePlan(s.c.Plan(s.pods[f[0]], *read[[]int](s, strings.Join(f[1:], " "))))
		s.printf("changed %v, gone %v", now != nil, gone != nil)
		s.changes(told)
	case "show":
		s.printf("%s", status(&s.c.Claim("default", f[0]).Status))
	default:
		s.t.Fatalf("unknown command %q", line)
	}
}

func (s *script) object(kind, text string) objects.Object {
	switch kind {
	case "slice":
		return read[resourcev1.ResourceSlice](s, text)
	case "class":
		return read[resourcev1.DeviceClass](s, text)
	case "claim":
		c := read[resourcev1.ResourceClaim](s, text)
		if c.Namespace == "" {
			c.Namespace = "default"
		}
		if c.UID == "" {
			c.UID = types.UID(c.Name + "-uid")
		}
		return c
	}
	return nil
}

func (s *script) pod(text string) {
	p := read[v1.Pod](s, text)
	p.Namespace, p.UID = "default", types.UID(p.Name+"-uid")
	s.pods[p.Name] = p
}

func (s *script) delete(kind, name string) Changes {
	switch kind {
	case "slice":
		return s.c.Delete(s.c.slices[name])
	case "class":
		return s.c.Delete(s.c.classes[name])
	case "pod":
		return s.c.Delete(s.pods[name])
	}
	return s.c.Delete(s.c.Claim("default", name))
}

func (s *script) resolve(p *v1.Pod) {
	switch r := s.c.Claims(p, 10*time.Minute); {
	case r.Message != "":
		s.printf("no node: %s", r.Message)
	case r.Err != nil:
		s.printf("error: %v", r.Err)
	case r.Query == nil:
		s.printf("skip")
	default:
		r.Query.Features = nil
		s.printf("%s", short(r.Query))
	}
}

// short writes a message in one line.
func short(m proto.Message) string {
	b, err := protojson.Marshal(m)
	if err != nil {
		return err.Error()
	}
	out, err := yaml.JSONToYAML(b) // protojson spaces its output as it likes
	if err != nil {
		return err.Error()
	}
	if b, err = yaml.YAMLToJSON(out); err != nil {
		return err.Error()
	}
	return string(b)
}

func status(s *resourcev1.ResourceClaimStatus) string {
	out, err := yaml.Marshal(s)
	if err == nil {
		out, err = yaml.YAMLToJSON(out)
	}
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// found is what reserve reads.
type found struct {
	Claims   []Found
	Extended *FoundExtended
}

func (s *script) place(command, pod string, args []string, rest string) {
	var told Changes
	switch command {
	case "reserve":
		_, text, _ := strings.Cut(rest, args[0]+" ")
		f := read[found](s, text)
		w, changes, err := s.c.Reserve(s.pods[pod], args[0], f.Claims, f.Extended)
		if err != nil {
			s.printf("error: %v", err)
		}
		for _, a := range w.Allocated() {
			for _, x := range a.Devices {
				s.printf("  %q gets %s", a.Claim, x)
			}
		}
		s.works[pod], told = w, changes
	case "settle":
		told = s.c.Settle(s.works[pod])
	case "unreserve":
		told = s.c.Unreserve(s.works[pod])
	case "complete":
		claims, tell, changes := s.c.Complete(s.works[pod])
		for _, c := range claims {
			s.printf("  %s: %s", c.Name, status(&c.Status))
		}
		if tell != nil {
			s.printf("  pod: %s %v", tell.ResourceClaimName, tell.RequestMappings)
		}
		told = changes
	}
	s.changes(told)
}

// changes prints what the tables and the queue are told.
func (s *script) changes(told Changes) {
	list, err := told.Slices(s.c)
	if err != nil {
		s.printf("  error: %v", err)
	}
	for _, x := range list {
		s.printf("  %s slice %s/%s/%s: %s", where(x.Node), x.Driver, x.Pool, x.Name, sliceText(x.Message))
	}
	for _, u := range told.Uses(s.c) {
		s.printf("  %s use %s", where(u.Node), short(u.DeviceUse))
	}
	for _, c := range told.Claims {
		s.printf("  queue: %s -> %s", claimText(c.Old), claimText(c.Now))
	}
	if told.IsNone() != (len(list)+len(told.Claims)+len(told.Uses(s.c)) == 0) {
		s.t.Errorf("IsNone is %v with %d slices, %d claims", told.IsNone(), len(list), len(told.Claims))
	}
}

func where(node string) string {
	if node == "" {
		return "shared"
	}
	return "node " + node
}

func sliceText(m *pb.DeviceSlice) string {
	if m == nil {
		return "gone"
	}
	return short(m)
}

func claimText(c *resourcev1.ResourceClaim) string {
	switch {
	case c == nil:
		return "none"
	case c.Status.Allocation == nil:
		return c.Name + " without devices"
	}
	return fmt.Sprintf("%s with %d devices, reserved for %d", c.Name, len(c.Status.Allocation.Devices.Results), len(c.Status.ReservedFor))
}
