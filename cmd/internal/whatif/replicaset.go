package whatif

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/cmd/internal/workload"
)

// replicas is a ReplicaSet or a ReplicationController: so many pods, all alike.
type replicas struct {
	key Key
	// object is what pods are made of; nil: it is not known, and pods are made as the model is.
	object runtime.Object
	model  *v1.Pod
	count  int
	// told is the Deployment's number of replicas when it last set count; -1: not known.
	told    int
	created time.Time
	stamped int
	parent  *deployment // nil: it is nobody's
}

func newReplicas(obj runtime.Object, count int) *replicas {
	meta := obj.(metav1.Object)
	r := &replicas{key: keyOf(obj), object: obj, count: count, told: -1, created: meta.GetCreationTimestamp().Time}
	if told, err := strconv.Atoi(meta.GetAnnotations()["deployment.kubernetes.io/desired-replicas"]); err == nil {
		r.told = told
	}
	return r
}

func (r *replicas) sync(c *Cluster) bool {
	pods := c.of(r.key)
	switch missing := r.count - len(pods); {
	case missing > 0:
		for range missing {
			c.create(r.make(c))
		}
		return true
	case missing < 0:
		related := pods
		if r.parent != nil {
			related = r.parent.pods(c)
		}
		for _, p := range leaving(pods, related, -missing, c.now) {
			c.remove(p)
		}
		return true
	}
	return false
}

// make stamps out one more pod.
func (r *replicas) make(c *Cluster) *v1.Pod {
	for {
		i := r.stamped
		r.stamped++
		var p *v1.Pod
		if r.object != nil {
			p = workload.Replica(r.object, i)
		} else {
			p = clone(r.model, i)
		}
		if !c.taken(p.Namespace)(p.Name) {
			return p
		}
	}
}

func (r *replicas) wants(*Cluster) int        { return r.count }
func (r *replicas) lost(*Cluster, *pod)       {}
func (r *replicas) rollout(*Cluster) *Rollout { return nil }
func (r *replicas) available(c *Cluster) (n int) {
	for _, p := range c.of(r.key) {
		if p.ready {
			n++
		}
	}
	return n
}

// leaving picks the pods that a ReplicaSet's controller deletes, in its order (controller_utils.go of k8s.io/kubernetes/pkg/controller):
// without a node before with one, pending before running, not ready before ready, of lower deletion cost, on nodes with more pods of the
// same workload, ready for a shorter time, with more restarts, younger. Times count by powers of two; among equals the UID decides.
func leaving(pods, related []*pod, n int, now time.Time) []*pod {
	together := map[string]int{}
	for _, p := range related {
		together[p.node]++
	}
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b *pod) int {
		order := cmp.Or(
			compareBool(a.node != "", b.node != ""),
			cmp.Compare(phase(a), phase(b)),
			compareBool(a.ready, b.ready),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(together[b.node], together[a.node]),
		)
		if order == 0 && a.ready && b.ready {
			order = compareAge(a, b, a.readyAt, b.readyAt, now)
		}
		return cmp.Or(order, cmp.Compare(restarts(b), restarts(a)),
			compareAge(a, b, a.obj.CreationTimestamp.Time, b.obj.CreationTimestamp.Time, now), cmp.Compare(a.obj.UID, b.obj.UID))
	})
	return sorted[:n]
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// phase is 0 for a pod that is pending, more the further it is. One that was given a node here is running.
func phase(p *pod) int {
	switch {
	case p.node == "", p.obj.Spec.NodeName != "" && p.obj.Status.Phase == v1.PodPending && !p.ready:
		return 0
	case p.obj.Status.Phase == v1.PodUnknown:
		return 1
	}
	return 2
}

func deletionCost(p *pod) int32 {
	cost, err := strconv.ParseInt(p.obj.Annotations["controller.kubernetes.io/pod-deletion-cost"], 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

func restarts(p *pod) (most int32) {
	for _, list := range [][]v1.ContainerStatus{p.obj.Status.InitContainerStatuses, p.obj.Status.ContainerStatuses} {
		for i := range list {
			most = max(most, list[i].RestartCount)
		}
	}
	return most
}

// compareAge puts the younger first, and by UID where both are about as old.
func compareAge(a, b *pod, since, other time.Time, now time.Time) int {
	switch {
	case since.Equal(other):
		return 0
	case since.IsZero() || other.IsZero():
		return compareBool(!since.IsZero(), !other.IsZero())
	}
	return cmp.Or(cmp.Compare(magnitude(now.Sub(since)), magnitude(now.Sub(other))), cmp.Compare(a.obj.UID, b.obj.UID))
}

func magnitude(age time.Duration) int64 {
	if age <= 0 {
		return -1
	}
	return int64(math.Log2(float64(age)))
}

// clone makes another pod as a model is that a controller has made, which is not known itself.
func clone(model *v1.Pod, i int) *v1.Pod {
	p := &v1.Pod{TypeMeta: model.TypeMeta}
	p.Namespace, p.GenerateName = model.Namespace, model.GenerateName
	p.Labels, p.Annotations = copied(model.Labels), copied(model.Annotations)
	p.OwnerReferences = model.OwnerReferences
	p.Spec = *model.Spec.DeepCopy()
	p.Spec.NodeName = ""
	p.Name = workload.Generated(model.Namespace, metav1.GetControllerOfNoCopy(model).Kind, metav1.GetControllerOfNoCopy(model).Name, i)
	return p
}

func copied(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// clones stands for a controller of which the input holds the pods alone: it makes again those that it loses.
type clones struct {
	key     Key
	pods    int // that it is to have
	missing []*pod
	stamped int
}

func (s *clones) sync(c *Cluster) bool {
	for _, p := range s.missing {
		var obj *v1.Pod
		for obj == nil || c.taken(obj.Namespace)(obj.Name) {
			obj = clone(p.obj, s.stamped)
			if s.key.Kind == "StatefulSet" {
				obj.Name = p.obj.Name
				break
			}
			s.stamped++
		}
		c.create(obj)
	}
	did := len(s.missing) > 0
	s.missing = nil
	return did
}

func (s *clones) wants(*Cluster) int        { return s.pods }
func (s *clones) rollout(*Cluster) *Rollout { return nil }

// lost has a pod made again: but for a DaemonSet's whose node is gone or takes it no longer, and one that its kubelet has made.
func (s *clones) lost(c *Cluster, p *pod) {
	switch s.key.Kind {
	case "Node", "Pod":
		s.pods--
		return
	case "DaemonSet":
		if c.nodes[p.node] == nil {
			s.pods--
			return
		}
	}
	s.missing = append(s.missing, p)
}
