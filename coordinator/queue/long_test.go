package queue

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// waitsOf has pods wait, two of each class, that one plugin has rejected.
func waitsOf(plugin string, pods ...*v1.Pod) *Queue {
	q := newFixed()
	for _, p := range pods {
		q.Add(p)
	}
	for i, p := range q.PopBatch(len(pods), nil) {
		p.ClassID = uint64(1 + i/2)
		q.Unschedulable(p, []string{plugin}, "no")
	}
	return q
}

// standing counts the places of buckets under topics.
func standing(q *Queue) (n int) {
	for _, list := range q.index.topics {
		n += len(list)
	}
	return n
}

func hasManyClaims(name string, n int) *v1.Pod {
	p := build.Pod(name).UID(name).Obj()
	for i := range n {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", i)},
		}})
	}
	return p
}

// Pods of two classes that differ in 20,000 labels stand under few topics. Still an event helps those alone that it is
// about.
func TestPodsOfManyLabelsStandUnderFewTopics(t *testing.T) {
	const labels, most = 20000, 4 * 4 * manyTopics
	var pods []*v1.Pod
	for i := range 4 {
		p := pod(fmt.Sprint("p", i), []string{fmt.Sprint("cpu=", 1+i/2), "near=zone:app=none", fmt.Sprint("uid=p", i)})
		if i%2 == 1 {
			p.Labels = map[string]string{}
			for k := range labels {
				p.Labels[fmt.Sprint("k", k)] = ""
			}
		}
		pods = append(pods, p)
	}
	q := waitsOf("InterPodAffinity", pods...)
	if n := standing(q); n > most {
		t.Errorf("4 pods of 2 classes: got %d places under topics, want at most %d", n, most)
	}
	check(t, q)
	gone := pod("gone", []string{"far=zone:k7="})
	gone.Spec.NodeName = "n"
	if n := q.Move(AssignedPodDeleted(gone)); n != 2 || q.Get("p1").Place() == Unschedulable || q.Get("p3").Place() == Unschedulable {
		t.Errorf("a pod goes that kept away those with one of the labels: got %d moved, want p1 and p3", n)
	}
	for i := range 4 {
		q.Delete(types.UID(fmt.Sprint("p", i)))
	}
	if n := standing(q); n != 0 {
		t.Errorf("all pods gone: got %d places under topics, want none", n)
	}
}

// However long the lists of a pod are, it stands under few topics, and hints do not walk them: what its plugin waits
// for helps it. What its plugin does not wait for does not.
func TestHintsDoNotWalkLongLists(t *testing.T) {
	const many = 8000
	claim, node := pvc("other", nil), build.Node("n").Label("zone", "a").Obj()
	gone := build.Pod("gone").Node("n").Obj()
	waits := &metav1.LabelSelector{}
	for i := range many {
		waits.MatchExpressions = append(waits.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpExists})
	}
	term := v1.PodAffinityTerm{TopologyKey: "none", LabelSelector: waits}
	for _, c := range []struct {
		plugin       string
		spec         func(*v1.PodSpec)
		helps, never Event
	}{
		{"VolumeBinding", func(s *v1.PodSpec) { s.Volumes = hasManyClaims("", many).Spec.Volumes }, ClaimUpdated(claim, claim), AssignedPodAdded(gone)},
		{"VolumeRestrictions", func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{RBD: &v1.RBDVolumeSource{CephMonitors: make([]string, many)}}}}
		}, AssignedPodDeleted(hasManyClaims("gone", 1)), AssignedPodDeleted(gone)},
		{"TaintToleration", func(s *v1.PodSpec) { s.Tolerations = make([]v1.Toleration, many) }, NodeAdded(build.Node("n").Taint("a:NoSchedule").Obj()), AssignedPodDeleted(gone)},
		{"NodeAffinity", func(s *v1.PodSpec) {
			s.NodeSelector = map[string]string{}
			for i := range many {
				s.NodeSelector[fmt.Sprint("k", i)] = ""
			}
		}, NodeAdded(node), AssignedPodDeleted(gone)},
		{"NodeAffinity", func(s *v1.PodSpec) {
			s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "k", Operator: v1.NodeSelectorOpIn, Values: make([]string, many)}}}},
			}}}
		}, NodeAdded(node), AssignedPodDeleted(gone)},
		{"InterPodAffinity", func(s *v1.PodSpec) {
			s.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
		}, AssignedPodAdded(gone), NodeDeleted(node)},
		{"InterPodAffinity", func(s *v1.PodSpec) {
			s.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: make([]v1.PodAffinityTerm, many)}}
		}, AssignedPodAdded(gone), NodeDeleted(node)},
		{"PodTopologySpread", func(s *v1.PodSpec) {
			s.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.DoNotSchedule, TopologyKey: "none", LabelSelector: waits}}
		}, NodeAdded(node), ClaimAdded(claim)},
		{"NodeResourcesFit", func(s *v1.PodSpec) {
			s.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}}}}
			for i := range many {
				s.Containers[0].Resources.Requests[v1.ResourceName(fmt.Sprint("example.com/", i))] = resource.MustParse("1")
			}
		}, NodeAdded(node), NodeDeleted(node)},
	} {
		a, b := build.Pod("a").UID("a").Obj(), build.Pod("b").UID("b").Obj()
		c.spec(&a.Spec)
		c.spec(&b.Spec)
		q := waitsOf(c.plugin, a, b)
		if n := standing(q); n > 2 {
			t.Errorf("%s: got %d places under topics, want 2", c.plugin, n)
		}
		if n := q.Move(c.never); n != 0 {
			t.Errorf("%s: %s moves %d, want none", c.plugin, c.never.String(), n)
		}
		for _, uid := range []types.UID{"a", "b"} {
			if p := q.pods[uid]; p.parsed.claims != nil || p.parsed.held != nil || p.parsed.node != nil || p.parsed.affinity != nil || p.parsed.spread != nil || p.usage != nil {
				t.Errorf("%s: the queue has read the lists of pod %s", c.plugin, uid)
			}
		}
		q.Delete("b")
		if n := q.Move(c.helps); n != 1 || standing(q) != 0 {
			t.Errorf("%s: %s moves %d and leaves %d places under topics, want 1 and none", c.plugin, c.helps.String(), n, standing(q))
		}
	}
}

// What the pod of an event has many of is read once, or not at all, however many pods wait.
func TestHintsDoNotWalkAnEventsLongListsForEachPod(t *testing.T) {
	const many, pods = 100000, 20000
	waits := &Pod{Obj: hasManyClaims("waits", manyParts)}
	for i := range waits.Obj.Spec.Volumes {
		waits.Obj.Spec.Volumes[i].PersistentVolumeClaim.ClaimName = fmt.Sprint("own-", i)
	}
	old := hasManyClaims("other", many)
	old.Spec.NodeName, old.Labels = "n", map[string]string{}
	for i := range many {
		old.Labels[fmt.Sprint("k", i)] = ""
	}
	now := old.DeepCopy()
	now.Spec.Tolerations = make([]v1.Toleration, 1)
	gone, tolerates := AssignedPodDeleted(old), AssignedPodUpdated(old, now)[0]
	for range pods {
		if freesVolume(waits, &gone) {
			t.Fatal("a pod goes that had none of the claims: got help, want none")
		}
		if (spreading{}).podChanged(waits, &tolerates) {
			t.Fatal("another pod tolerates more: got help, want none")
		}
	}
	for _, c := range []struct {
		what        string
		first, rest *metav1.LabelSelector
		helps       bool
	}{
		{"all of its terms match", &metav1.LabelSelector{}, &metav1.LabelSelector{}, true},
		{"its first term does not match", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}}, &metav1.LabelSelector{}, false},
		{"a list is not looked at", listOf(metav1.LabelSelectorOpIn), &metav1.LabelSelector{}, true},
	} {
		terms := []v1.PodAffinityTerm{{TopologyKey: "zone", LabelSelector: c.first}}
		for range manyParts {
			terms = append(terms, v1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: c.rest})
		}
		far := build.Pod("far").Namespace(waits.Obj.Namespace).Node("n").Obj()
		far.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		e := AssignedPodDeleted(far)
		if kept := e.oldPodAntiTerms(); len(kept.terms) > manyParts || affinityPodChanged(waits, &e) != c.helps {
			t.Errorf("a pod goes, and %s: got %d terms read, and help %v", c.what, len(kept.terms), !c.helps)
		}
	}
}

// listOf selects by a list of more than manyParts values, none of which any pod has.
func listOf(op metav1.LabelSelectorOperator) *metav1.LabelSelector {
	r := metav1.LabelSelectorRequirement{Key: "app", Operator: op}
	for i := range manyParts {
		r.Values = append(r.Values, fmt.Sprint("none-", i))
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}}
}

// To compare what two pods ask for takes no product of how many resources each of them names.
func TestScalarResourcesAreFoundByName(t *testing.T) {
	const many = 200000
	list := v1.ResourceList{}
	for i := range many {
		list[v1.ResourceName(fmt.Sprint("example.com/", i))] = resource.MustParse("2")
	}
	old := build.Pod("a").Obj()
	old.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: list}}}
	e := Event{oldPod: old, pod: old}
	if shrank(e.oldPodUsage().GetRequests(), e.podUsage().GetRequests()) {
		t.Error("got that the same asks for less")
	}
}
