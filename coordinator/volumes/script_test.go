package volumes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// script runs a golden script against a cache. Each line of a "do" block is a command;
// what it answers is printed after it, if anything.
//
//	claim|volume|class|capacity|driver|attachment|csinode|node NAME WORDS...   sets an object
//	delete KIND NAME WORDS...     deletes it
//	pod NAME VOLUMES...           makes a pod
//	add|remove POD NODE           prints the changes of counters
//	take                          prints other changes
//	use DRIVER/HANDLE             prints the counter of a volume's uses
//	reserve POD NODE, unreserve POD, complete POD
//	show claim|volume NAME, offered CLASS, limits NODE, version
type script struct {
	t        *testing.T
	c        *Cache
	registry *registry
	nodes    map[string]*v1.Node
	pods     map[string]*v1.Pod
	works    map[string]*Work
	seen     uint64
	out      strings.Builder
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		r := &registry{}
		s := &script{
			t: t, c: New(r), registry: r,
			nodes: map[string]*v1.Node{}, pods: map[string]*v1.Pod{}, works: map[string]*Work{},
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			for line := range strings.SplitSeq(strings.TrimSpace(d.Input), "\n") {
				if f := strings.Fields(line); len(f) > 0 {
					s.run(f)
				}
			}
			return s.out.String()
		})
	})
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *script) run(f []string) {
	switch f[0] {
	case "delete":
		s.c.Delete(wordsOf(f[3:]).object(f[1], f[2]))
	case "pod":
		s.pods[f[1]] = podOf(f[1], f[2:])
	case "add":
		s.printf("%s %s: %s", f[0], f[1], s.counters(s.c.PodAdded(f[2], s.pods[f[1]])))
	case "remove":
		s.printf("%s %s: %s", f[0], f[1], s.counters(s.c.PodRemoved(f[2], s.pods[f[1]])))
	case "take":
		for _, change := range s.c.TakeChanges() {
			s.printf("%s: %s", change.Node, s.counters(change.Counters))
		}
	case "use":
		driver, handle, _ := strings.Cut(f[1], "/")
		s.printf("%s: %s", f[1], s.registry.name(s.c.UseCounter(compile.Attachment{Driver: driver, Handle: strings.ReplaceAll(handle, "~", " ")})))
	case "show":
		s.show(f[1], f[2])
	case "offered":
		var names []string
		for pv := range s.c.VolumesOf(f[1]) {
			names = append(names, pv.Name)
		}
		s.printf("%s: %s", f[1], strings.Join(names, " "))
	case "limits":
		var list []string
		for _, l := range s.c.Limits(f[1]) {
			list = append(list, fmt.Sprintf("%s=%d", l.Driver, l.Volumes))
		}
		s.printf("%s: %s; migrated: %s", f[1], strings.Join(list, " "), strings.Join(s.c.MigratedPlugins(f[1]), " "))
	case "version":
		s.printf("version moved: %v", s.c.Version() != s.seen)
		s.seen = s.c.Version()
	case "reserve", "unreserve", "complete":
		s.place(f)
	default:
		s.set(f)
	}
}

func (s *script) set(f []string) {
	obj := wordsOf(f[2:]).object(f[0], f[1])
	if obj == nil {
		s.t.Fatalf("unknown command %q", strings.Join(f, " "))
	}
	if n, ok := obj.(*v1.Node); ok {
		s.nodes[n.Name] = n
	}
	s.c.Set(obj)
}

func (s *script) place(f []string) {
	w := s.works[f[1]]
	switch f[0] {
	case "reserve":
		w, err := s.c.Reserve(s.pods[f[1]], s.nodes[f[2]])
		s.works[f[1]] = w
		if err != nil {
			s.printf("error: %v", err)
			return
		}
		s.printf("reserve %s: %s", f[1], describe(w))
	case "unreserve":
		s.c.Unreserve(w)
	case "complete":
		for _, obj := range s.c.Complete(w) {
			s.printf("%s", objects.RefOf(obj))
		}
	}
}

// describe tells what a work is going to do.
func describe(w *Work) string {
	if !w.PreBindNeeded() {
		return "nothing to do"
	}
	var list []string
	for _, p := range w.matches {
		list = append(list, p.key.name+"="+p.pv.Name)
	}
	for _, p := range w.provisions {
		list = append(list, p.claim.key.name+" is to be made")
	}
	return strings.Join(list, ", ")
}

func (s *script) counters(list []*pb.CounterValue) string {
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprintf("%s %+d", s.registry.name(v.Counter), v.Value))
	}
	return strings.Join(out, ", ")
}

func (s *script) show(kind, name string) {
	switch kind {
	case "claim":
		pvc := s.c.Claim("default", name)
		if pvc == nil {
			s.printf("%s: gone", name)
			return
		}
		s.printf("%s: volume=%s phase=%s selected=%s completed=%v byUs=%v assumed=%v", name, pvc.Spec.VolumeName, pvc.Status.Phase,
			pvc.Annotations[storage.AnnSelectedNode], pvc.Annotations[storage.AnnBindCompleted] != "", pvc.Annotations[storage.AnnBoundByController] != "",
			s.c.claims[keyOf(pvc)].assumed != nil)
	case "volume":
		pv := s.c.Volume(name)
		if pv == nil {
			s.printf("%s: gone", name)
			return
		}
		ref := "nobody"
		if r := pv.Spec.ClaimRef; r != nil {
			ref = fmt.Sprintf("%s/%s/%s", r.Namespace, r.Name, r.UID)
		}
		s.printf("%s: for %s phase=%s byUs=%v assumed=%v", name, ref, pv.Status.Phase, pv.Annotations[storage.AnnBoundByController] != "",
			s.c.volumes[name].assumed != nil)
	}
}
