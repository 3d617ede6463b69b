package framework

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/features"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/framework"
)

func resourceNames() []v1.ResourceName {
	return []v1.ResourceName{
		v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods, "example.com/gpu", "hugepages-2Mi",
		"kubernetes.io/thing", "attachable-volumes-csi-x", "requests.example.com/gpu", "storage", "unknown",
	}
}

func drawList(r *rand.Rand, n int) v1.ResourceList {
	if r.IntN(4) == 0 {
		return nil
	}
	out := v1.ResourceList{}
	names := resourceNames()
	for _, i := range r.Perm(len(names))[:r.IntN(n)] {
		q := []string{"0", "1", "1500m", "3", "7Mi", "123456789", "1u"}[r.IntN(7)]
		out[names[i]] = resource.MustParse(q)
	}
	return out
}

func drawContainer(r *rand.Rand, name string) v1.Container {
	c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: drawList(r, 6)}}
	for range r.IntN(3) {
		c.Ports = append(c.Ports, v1.ContainerPort{
			HostPort: int32(r.IntN(3) * 80), HostIP: []string{"", "10.0.0.1", "0.0.0.0"}[r.IntN(3)],
			Protocol: []v1.Protocol{"", v1.ProtocolTCP, v1.ProtocolUDP}[r.IntN(3)],
		})
	}
	return c
}

func drawTerm(r *rand.Rand) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": fmt.Sprint(r.IntN(3))}}}
	switch r.IntN(6) {
	case 0:
		t.LabelSelector = nil
	case 1:
		t.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Nonsense"}}
	case 2:
		t.Namespaces = []string{"x", "y"}
	case 3:
		t.NamespaceSelector = &metav1.LabelSelector{}
	}
	return t
}

func drawTerms(r *rand.Rand) (required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
	for range r.IntN(3) {
		required = append(required, drawTerm(r))
	}
	for range r.IntN(3) {
		preferred = append(preferred, v1.WeightedPodAffinityTerm{Weight: int32(1 + r.IntN(100)), PodAffinityTerm: drawTerm(r)})
	}
	return required, preferred
}

// drawPod draws a pod with all that views tell of.
func drawPod(r *rand.Rand, i int) *v1.Pod {
	name := fmt.Sprintf("p%d", i)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: []string{"x", "y"}[r.IntN(2)], UID: types.UID(name)}}
	for k := range 1 + r.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, drawContainer(r, fmt.Sprint("c", k)))
	}
	for k := range r.IntN(3) {
		c := drawContainer(r, fmt.Sprint("i", k))
		if r.IntN(2) == 0 {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if r.IntN(4) == 0 {
		p.Spec.Overhead = drawList(r, 4)
	}
	if r.IntN(4) == 0 {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: drawList(r, 4)}
	}
	if r.IntN(4) == 0 {
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c0", Resources: &v1.ResourceRequirements{Requests: drawList(r, 6)}, AllocatedResources: drawList(r, 6)}}
	}
	for range r.IntN(3) {
		v := v1.Volume{Name: "v"}
		if r.IntN(3) > 0 {
			v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("claim", r.IntN(4))}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	if r.IntN(3) == 0 {
		p.Spec.Affinity = &v1.Affinity{}
		if r.IntN(2) == 0 {
			required, preferred := drawTerms(r)
			p.Spec.Affinity.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: preferred}
		}
		if r.IntN(2) == 0 {
			required, preferred := drawTerms(r)
			p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: preferred}
		}
	}
	return p
}

func drawNode(r *rand.Rand, i int) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}, Status: v1.NodeStatus{Allocatable: drawList(r, 9)}}
	for k := range r.IntN(4) {
		// Of one size everywhere: upstream's cache has that of the first node, but this
		// constructor of its snapshot each node's own.
		shared := r.IntN(4)
		n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{fmt.Sprint("image", shared), fmt.Sprint("own", i, k)}, SizeBytes: int64(100 * shared)})
	}
	for _, f := range features.AllFeatures {
		if r.IntN(2) == 0 {
			n.Status.DeclaredFeatures = append(n.Status.DeclaredFeatures, f.Name())
		}
	}
	if r.IntN(3) == 0 {
		n.Status.DeclaredFeatures = append(n.Status.DeclaredFeatures, "ZZZNobodyKnows")
	}
	return n
}

// TestViewsAreUpstreams holds what every getter of a view gives against upstream's, as pods come and
// go on copies.
func TestViewsAreUpstreams(t *testing.T) {
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 3))
		var nodes []*v1.Node
		var pods []*v1.Pod
		for i := range 1 + r.IntN(4) {
			nodes = append(nodes, drawNode(r, i))
		}
		for i := range r.IntN(12) {
			p := drawPod(r, i)
			p.Spec.NodeName = nodes[r.IntN(len(nodes))].Name
			pods = append(pods, p)
		}
		theirs := internalcache.NewSnapshot(pods, nodes)
		ours := framework.NewSnapshot(newSource(nodes, pods))
		ours.Begin()
		compareListers(t, ours, theirs)
		for _, n := range nodes {
			a, b := get(ours, n.Name), get(theirs, n.Name)
			compareViews(t, a, b)
			change(t, r, a.Snapshot(), b.Snapshot())
			compareViews(t, a, b) // copies have nothing in common with it
		}
		ours.End()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// change adds pods to views and takes some out.
func change(t *testing.T, r *rand.Rand, ours, theirs fwk.NodeInfo) {
	t.Helper()
	before := ours.GetGeneration()
	for i := range 6 {
		if pods := ours.GetPods(); len(pods) > 0 && r.IntN(2) == 0 {
			p := pods[r.IntN(len(pods))].GetPod()
			if a, b := ours.RemovePod(klog.Logger{}, p), theirs.RemovePod(klog.Logger{}, p); a != nil || b != nil {
				t.Fatalf("removing %s: got %v, upstream %v", p.Name, a, b)
			}
		} else {
			p := drawPod(r, 1000+i)
			a, errA := framework.NewPodInfo(p)
			b, errB := upstream.NewPodInfo(p)
			if fmt.Sprint(errA) != fmt.Sprint(errB) {
				t.Fatalf("view of pod: got error %v, upstream's is %v", errA, errB)
			}
			ours.AddPodInfo(a)
			theirs.AddPodInfo(b)
		}
		if now := ours.GetGeneration(); now <= before {
			t.Fatalf("generation %d after %d", now, before)
		} else {
			before = now
		}
		compareViews(t, ours, theirs)
	}
	for _, stranger := range []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "s"}}, {ObjectMeta: metav1.ObjectMeta{Name: "s"}}} {
		if a, b := ours.RemovePod(klog.Logger{}, stranger), theirs.RemovePod(klog.Logger{}, stranger); a.Error() != b.Error() {
			t.Fatalf("removing a stranger: got %v, upstream %v", a, b)
		}
	}
	n := drawNode(r, 77)
	ours.SetNode(n)
	theirs.SetNode(n)
	compareViews(t, ours, theirs)
}

func compareListers(t *testing.T, ours, theirs fwk.SharedLister) {
	t.Helper()
	for what, list := range map[string]func(fwk.NodeInfoLister) ([]fwk.NodeInfo, error){
		"all":           fwk.NodeInfoLister.List,
		"affinity":      fwk.NodeInfoLister.HavePodsWithAffinityList,
		"anti-affinity": fwk.NodeInfoLister.HavePodsWithRequiredAntiAffinityList,
	} {
		names := func(l fwk.SharedLister) []string {
			nodes, err := list(l.NodeInfos())
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, n := range nodes {
				out = append(out, n.Node().Name)
			}
			slices.Sort(out) // upstream's is in the order of a map, in this constructor
			return out
		}
		if a, b := names(ours), names(theirs); !slices.Equal(a, b) {
			t.Errorf("list of %s: got %v, upstream %v", what, a, b)
		}
	}
	for _, key := range []string{"x/claim0", "x/claim1", "y/claim0", "y/claim3", "z/none"} {
		if a, b := ours.StorageInfos().IsPVCUsedByPods(key), theirs.StorageInfos().IsPVCUsedByPods(key); a != b {
			t.Errorf("%s is used: got %v, upstream %v", key, a, b)
		}
	}
	_, a := ours.NodeInfos().Get("nobody")
	_, b := theirs.NodeInfos().Get("nobody")
	if a.Error() != b.Error() {
		t.Errorf("unknown node: got %v, upstream %v", a, b)
	}
}

func compareViews(t *testing.T, ours, theirs fwk.NodeInfo) {
	t.Helper()
	same := func(what string, a, b any) {
		t.Helper()
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s of %s: got %v, upstream %v", what, theirs.Node().Name, a, b)
		}
	}
	same("node", ours.Node(), theirs.Node())
	same("name", ours.(klog.KMetadata).GetName(), theirs.(klog.KMetadata).GetName())
	same("pods", podsOf(ours.GetPods()), podsOf(theirs.GetPods()))
	same("pods with affinity", podsOf(ours.GetPodsWithAffinity()), podsOf(theirs.GetPodsWithAffinity()))
	same("pods with anti-affinity", podsOf(ours.GetPodsWithRequiredAntiAffinity()), podsOf(theirs.GetPodsWithRequiredAntiAffinity()))
	same("ports", ours.GetUsedPorts(), theirs.GetUsedPorts())
	same("requested", resourceOf(ours.GetRequested()), resourceOf(theirs.GetRequested()))
	same("non-zero", resourceOf(ours.GetNonZeroRequested()), resourceOf(theirs.GetNonZeroRequested()))
	same("allocatable", resourceOf(ours.GetAllocatable()), resourceOf(theirs.GetAllocatable()))
	same("images", imagesOf(ours), imagesOf(theirs))
	same("claims", ours.GetPVCRefCounts(), theirs.GetPVCRefCounts())
	same("features", featuresOf(t, ours), featuresOf(t, theirs))
	same("claims of devices", len(ours.GetNodeAllocatableDRAClaimState()), len(theirs.GetNodeAllocatableDRAClaimState()))
	if a, b := ours.String(), theirs.String(); untyped(a) != untyped(b) {
		t.Errorf("text: got %s\nupstream %s", a, b)
	}
}

// untyped leaves out where the addresses of resources are, and the order of scalars.
func untyped(s string) string { return strings.SplitN(s, "RequestedResource", 2)[0] }

func podsOf(list []fwk.PodInfo) []string {
	var out []string
	for _, p := range list {
		held := p.CalculateResource()
		out = append(out, fmt.Sprint(p.GetPod().Name, resourceOf(held.Resource), held.Non0CPU, held.Non0Mem,
			p.GetRequiredAffinityTerms(), p.GetRequiredAntiAffinityTerms(), p.GetPreferredAffinityTerms(), p.GetPreferredAntiAffinityTerms()))
	}
	return out
}

func resourceOf(r fwk.Resource) string {
	return fmt.Sprint(r.GetMilliCPU(), r.GetMemory(), r.GetEphemeralStorage(), r.GetAllowedPodNumber(), r.GetScalarResources())
}

func imagesOf(n fwk.NodeInfo) map[string]string {
	out := map[string]string{}
	for name, i := range n.GetImageStates() {
		out[name] = fmt.Sprint(i.Size, i.NumNodes)
	}
	return out
}

func featuresOf(t *testing.T, n fwk.NodeInfo) []string {
	out, err := ndf.DefaultFramework.Unmap(n.GetNodeDeclaredFeatures())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestResourcesAreUpstreams holds Add, SetMaxResource and Clone.
func TestResourcesAreUpstreams(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 4))
		list := drawList(r, 9)
		ours, theirs := framework.NewResource(list), upstream.NewResource(list)
		for range 4 {
			list := drawList(r, 9)
			if r.IntN(2) == 0 {
				ours, theirs = ours.Clone(), theirs.Clone()
			}
			if r.IntN(2) == 0 {
				ours.Add(list)
				theirs.Add(list)
			} else {
				ours.SetMaxResource(list)
				theirs.SetMaxResource(list)
			}
			if a, b := resourceOf(ours), resourceOf(theirs); a != b {
				t.Fatalf("seed %d: got %s, upstream %s", seed, a, b)
			}
		}
	}
}
