package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"pgregory.net/rapid"
)

// TestJudgedTogetherAsApart holds that pods of one class which are judged together are those
// that an event helps alike: it draws pods that differ in all that a class does not tell of
// them, and compares with the same pods without a class.
func TestJudgedTogetherAsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plugins := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "DynamicResources",
		}), 1, 2, rapid.ID).Draw(t, "plugins")
		now := start
		together, apart := newQueue(&now), newQueue(&now)
		for i := range rapid.IntRange(2, 8).Draw(t, "pods") {
			obj := drawPod(t, fmt.Sprint("p", i))
			for _, q := range []*Queue{together, apart} {
				q.Add(obj)
				p := q.PopBatch(1, nil)[0]
				if q == together {
					p.ClassID = 1
				}
				q.Unschedulable(p, plugins, "no")
			}
		}
		now = now.Add(time.Minute)
		for range 3 {
			e := drawEvent(t)
			again := e
			got, want := together.Move(e), apart.Move(again)
			if got != want || !slices.Equal(waitingPods(together), waitingPods(apart)) {
				t.Fatalf("%s: together moves %d and leaves %v, apart moves %d and leaves %v", e.String(), got, waitingPods(together), want, waitingPods(apart))
			}
			check(t, together)
			check(t, apart)
		}
	})
}

func waitingPods(q *Queue) []string {
	var out []string
	q.Each(func(p *Pod) {
		if p.place == Unschedulable {
			out = append(out, p.Obj.Name)
		}
	})
	slices.Sort(out)
	return out
}

func drawPod(t *rapid.T, name string) *v1.Pod {
	labels := []string{"label=app=web", "label=app=db", "label=tier=a"}
	terms := []string{
		"near=zone:app=web", "near=zone:app=web@x", "near=host:app=db@{}", "near=zone:broken",
		"far=zone:app=web", "far=host:tier=a", "far=zone:app=db@env=prod",
		"spread=zone:app=web", "spread=host:{}+app", "spread=zone:tier=a:honor-taints", "soft=zone:app=web",
	}
	volumes := []string{"claim=c", "claim=d", "ephemeral=e", "gce=pd", "gce=pd:ro", "ebs=vol-1", "rbd=m/p/i", "csi=d", "azure-disk=Shared", "configmap="}
	words := []string{"ns=" + rapid.SampledFrom([]string{"default", "x"}).Draw(t, "namespace")}
	claims := []string{"resource-claim=c", "resource-claim=d", "template=t", "generated=t:c", "generated=t:d", "generated=t"}
	for _, from := range [][]string{labels, terms, volumes, claims} {
		words = append(words, rapid.SliceOfN(rapid.SampledFrom(from), 0, 2).Draw(t, "words")...)
	}
	return pod(name, words)
}

func drawEvent(t *rapid.T) Event {
	nodes := func(name string) *v1.Node {
		return node("n", rapid.SliceOfN(rapid.SampledFrom([]string{"label=zone=a", "label=zone=b", "label=host=a", "taint=k:NoSchedule"}), 0, 3).Draw(t, name))
	}
	other := drawPod(t, "other")
	other.Spec.NodeName = "n"
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0:
		return AssignedPodAdded(other)
	case 1, 2:
		return AssignedPodDeleted(other)
	case 3:
		now := drawPod(t, "other")
		now.Spec.NodeName = "n"
		return AssignedPodUpdated(other, now)[0]
	case 4:
		return NodeAdded(nodes("node"))
	case 5:
		if events := NodeUpdated(nodes("old"), nodes("now")); len(events) > 0 {
			return events[0]
		}
		return NodeDeleted(nodes("gone"))
	case 6:
		name := rapid.SampledFrom([]string{"c", "d", "p0-e", "p1-e"}).Draw(t, "claim")
		c := pvc(name, []string{"ns=" + other.Namespace})
		if rapid.Bool().Draw(t, "new") {
			return ClaimAdded(c)
		}
		return ClaimUpdated(c, c)
	case 7:
		return VolumeAttachmentDeleted(attachment(rapid.SampledFrom([]string{"x", "ebs.csi.aws.com", "pd.csi.storage.gke.io"}).Draw(t, "attacher")))
	case 8:
		return drawClaimEvent(t, other.Namespace)
	}
	return CSIDriverUpdated(csiDriver("d", []string{"capacity=true"}), csiDriver("d", nil))
}

func drawClaimEvent(t *rapid.T, namespace string) Event {
	draw := func(name string) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{}
		c.Namespace, c.Name = namespace, name
		if rapid.Bool().Draw(t, "devices") {
			c.Status.Allocation = &resourcev1.AllocationResult{}
		}
		return c
	}
	name := rapid.SampledFrom([]string{"c", "d", "e"}).Draw(t, "claim")
	if rapid.Bool().Draw(t, "new") {
		return ResourceClaimAdded(draw(name))
	}
	return ResourceClaimUpdated(draw(name), draw(name))
}
