package framework

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestASnapshotIsReadDuringCyclesOnly(t *testing.T) {
	s := NewSnapshot(newCluster(2))
	for range 2 {
		if _, err := s.List(); err != errClosed {
			t.Errorf("List: got %v, want %v", err, errClosed)
		}
		if _, err := s.Get("n0"); err != errClosed {
			t.Errorf("Get: got %v, want %v", err, errClosed)
		}
		if _, err := s.HavePodsWithAffinityList(); err != errClosed {
			t.Errorf("HavePodsWithAffinityList: got %v, want %v", err, errClosed)
		}
		if s.IsPVCUsedByPods("x/c") {
			t.Error("a claim is used")
		}
		s.Begin()
		if n := len(views(t, s)); n != 2 {
			t.Errorf("%d nodes, want 2", n)
		}
		s.End()
	}
}

func TestReserveAndPermitSeeWhatFilterHasSeen(t *testing.T) {
	c := newCluster(2)
	s := NewSnapshot(c)
	s.Begin()
	pods := func(node string) int {
		v, err := s.Get(node)
		if err != nil {
			t.Fatal(err)
		}
		return len(v.GetPods())
	}
	pods("n0") // n1 has not been looked at
	for _, node := range []string{"n0", "n1"} {
		uid := "on-" + node
		s.Assume(types.UID(uid), node, func() { c.pods[node] = append(c.pods[node], newPod(uid)) })
		if pods(node) != 0 {
			t.Errorf("%s shows the assumed pod in the same cycle", node)
		}
	}
	s.End()
	s.Begin()
	if pods("n0") != 1 || pods("n1") != 1 {
		t.Error("the next cycle does not show it")
	}
	s.End()
}

func TestViewsOfPodsAreKept(t *testing.T) {
	c := newCluster(1)
	c.pods["n0"] = []*v1.Pod{newPod("a")}
	s := NewSnapshot(c)
	look := func() fwk.NodeInfo {
		s.Begin()
		defer s.End()
		v, err := s.Get("n0")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := look()
	if look() != first {
		t.Error("a node that has not changed is viewed anew")
	}
	c.pods["n0"] = append(c.pods["n0"], newPod("b"))
	s.Changed("n0")
	second := look()
	if len(second.GetPods()) != 2 || second.GetPods()[0] != first.GetPods()[0] {
		t.Error("the view of a pod that has not changed is not kept")
	}
	if len(first.GetPods()) != 1 || second.GetGeneration() <= first.GetGeneration() {
		t.Error("the old view has changed, or has a higher generation")
	}
}

// TestASnapshotShowsWhatASourceHas changes a cluster at random and holds what is kept against what
// a snapshot shows that is made anew.
func TestASnapshotShowsWhatASourceHas(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newCluster(5)
		s := NewSnapshot(c)
		made := 0
		for range 30 {
			for range r.IntN(4) {
				name := fmt.Sprint("n", r.IntN(8))
				switch {
				case c.nodes[name] == nil:
					c.add(name)
				case r.IntN(5) == 0:
					c.drop(name)
				default:
					made++
					c.pods[name] = append(c.pods[name], drawn(r, fmt.Sprint("p", made)))
				}
				s.Changed(name)
			}
			fresh := NewSnapshot(c)
			fresh.Begin()
			s.Begin()
			for range r.IntN(3) {
				name := fmt.Sprint("n", r.IntN(8))
				a, errA := s.Get(name)
				b, errB := fresh.Get(name)
				if fmt.Sprint(errA) != fmt.Sprint(errB) || errA == nil && shown(a) != shown(b) {
					t.Fatalf("seed %d: %s: got %v, %v, want %v, %v", seed, name, a, errA, b, errB)
				}
			}
			if r.IntN(3) > 0 {
				if got, want := all(t, s), all(t, fresh); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d:\ngot  %v\nwant %v", seed, got, want)
				}
			}
			s.End()
		}
	}
}

func drawn(r *rand.Rand, name string) *v1.Pod {
	p := newPodOf(name, int64(r.IntN(1000)))
	if r.IntN(3) == 0 {
		p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	}
	if r.IntN(3) == 0 {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}}
		if r.IntN(2) == 0 {
			p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []v1.PodAffinityTerm{{TopologyKey: "zone"}}
		}
	}
	return p
}

func shown(n fwk.NodeInfo) string {
	var pods []string
	for _, p := range n.GetPods() {
		pods = append(pods, p.GetPod().Name)
	}
	return fmt.Sprint(n.Node().Name, pods, n.GetRequested().GetMilliCPU(), n.GetPVCRefCounts())
}

// all is all that a snapshot tells.
func all(t *testing.T, s *Snapshot) [][]string {
	t.Helper()
	var out [][]string
	for _, list := range []func() ([]fwk.NodeInfo, error){s.List, s.HavePodsWithAffinityList, s.HavePodsWithRequiredAntiAffinityList} {
		nodes, err := list()
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{}
		for _, n := range nodes {
			texts = append(texts, shown(n))
		}
		slices.Sort(texts) // a node that went and came again meanwhile keeps its place
		out = append(out, texts)
	}
	return append(out, []string{fmt.Sprint(s.IsPVCUsedByPods("x/c"), s.IsPVCUsedByPods("x/d"))})
}

// TestReadersNeverMeetTheWriter reads from goroutines that know nothing of cycles.
func TestReadersNeverMeetTheWriter(t *testing.T) {
	c := newCluster(20)
	s := NewSnapshot(c)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if v, err := s.Get(fmt.Sprint("n", i)); err == nil {
					_ = v.GetRequested().GetMilliCPU()
				}
				if list, err := s.List(); err == nil {
					for _, v := range list {
						for _, p := range v.GetPods() {
							_ = p.CalculateResource()
							_ = p.GetRequiredAntiAffinityTerms()
						}
					}
				}
				s.HavePodsWithAffinityList()
				s.IsPVCUsedByPods("x/c")
			}
		})
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 300 {
		s.Begin()
		if _, err := s.List(); err != nil {
			t.Error(err)
		}
		node, pod := fmt.Sprint("n", r.IntN(20)), drawn(r, fmt.Sprint("p", i))
		s.Assume(pod.UID, node, func() { c.pods[node] = append(c.pods[node], pod) })
		s.End()
		other := fmt.Sprint("n", r.IntN(20))
		c.pods[other] = slices.Clone(c.pods[other][:len(c.pods[other])/2])
		s.Changed(other)
	}
	close(stop)
	readers.Wait()
}
