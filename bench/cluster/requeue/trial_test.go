package requeue

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// trial is a pod that waits, and something that happens.
type trial struct {
	// name is a sentence.
	name string
	// plugin is the only rule that the pod's profile has; empty: all of them.
	plugin string
	// has is what there is, and pod the pod that waits.
	has []runtime.Object
	pod *v1.Pod
	// refused are the plugins that refuse the pod; empty: plugin.
	refused []string
	// do is what happens, event how a scheduler calls it.
	do    func(meteredRig)
	event string
	// by is the event that brings the pod back where that is another than event.
	by string
	// then is what becomes of the pod.
	then outcome
}

// outcome is a node's name, or one of these.
type outcome string

const (
	// stays: the pod is not tried again.
	stays outcome = ""
	// retried: it is tried again, and refused again.
	retried outcome = "(tried again)"
	// inVain: upstream tries it again, and refuses it again; ours may know better.
	inVain outcome = "(tried again in vain)"
	// somewhere: it goes to a node, whichever.
	somewhere outcome = "(some node)"
)

const key = "default/p"

// profileOf is the name of the profile that has one plugin only.
func profileOf(plugin string) string {
	if plugin == "" {
		return v1.DefaultSchedulerName
	}
	return "only-" + strings.ToLower(plugin)
}

// profiles are those of all plugins that trials name.
func profiles(trials []trial) string {
	var s strings.Builder
	known := map[string]bool{"": true}
	for _, t := range trials {
		if !known[t.plugin] {
			known[t.plugin] = true
			fmt.Fprintf(&s, "\n- schedulerName: %s\n  plugins: {multiPoint: {disabled: [{name: \"*\"}], enabled: [{name: PrioritySort}, {name: %s}, {name: DefaultBinder}]}}",
				profileOf(t.plugin), t.plugin)
		}
	}
	return s.String() + "\n"
}

func (s meteredRig) try(x trial) {
	s.T.Helper()
	x.pod.Spec.SchedulerName = profileOf(x.plugin)
	if len(x.refused) == 0 {
		x.refused = []string{x.plugin}
	}
	s.cleanedUp()
	s.prepare(x.has)
	s.wait(x)

	s.judge(x, s.after(x.event, x.do))
}

// after has something happen and returns when the scheduler has taken the event in, with what
// was counted before.
func (s meteredRig) after(event string, do func(meteredRig)) (before counts) {
	s.T.Helper()
	before = s.count()
	do(s)
	s.until(event+" is taken in", func(now counts) bool { return now.since(before).sum(taken, label("event", event)) > 0 })
	return before
}

// in is the same rig for a subtest.
func (s meteredRig) in(t *testing.T) meteredRig {
	sub := *s.Rig
	sub.Cluster = &testbed.Cluster{Bed: s.Bed, T: t}
	return meteredRig{&sub, s.scraper}
}

// prepare makes the cluster, and returns when the scheduler knows it.
func (s meteredRig) prepare(objects []runtime.Object) {
	s.T.Helper()
	want := map[string]int{}
	for _, o := range objects {
		if event := added(o); event != "" {
			want[event]++
		}
	}
	before := s.count()
	s.Create(objects...)
	s.show(objects, want)
	s.until("the cluster is known", func(now counts) bool {
		d := now.since(before)
		for event, n := range want {
			if d.sum(taken, label("event", event)) < float64(n) {
				return false
			}
		}
		return true
	})
}

// show has kinds known whose new objects schedulers do not count: what happens to one of a
// kind after that is counted.
func (s meteredRig) show(objects []runtime.Object, want map[string]int) {
	s.T.Helper()
	for _, o := range objects {
		switch o := o.(type) {
		case *storagev1.CSIDriver:
			want["storage.k8s.io/CSIDriverUpdate"]++
			changeDriver(o.Name, labelled("shown", "yes"))(s)
		case *storagev1.VolumeAttachment:
			want["storage.k8s.io/VolumeAttachmentDelete"]++
			last := o.DeepCopy()
			last.Name += "-last"
			s.Create(last)
			detach(last.Name)(s)
		}
	}
}

// added is the event of a new object; empty: schedulers do not count it.
func added(o runtime.Object) string {
	switch o := o.(type) {
	case *v1.Node:
		return "NodeAdd"
	case *v1.Pod:
		if o.Spec.NodeName == "" {
			return "UnschedulablePodAdd"
		}
		return "AssignedPodAdd"
	case *v1.PersistentVolumeClaim:
		return "PersistentVolumeClaimAdd"
	case *v1.PersistentVolume:
		return "PersistentVolumeAdd"
	case *storagev1.StorageClass:
		return "storage.k8s.io/StorageClassAdd"
	case *storagev1.CSINode:
		return "storage.k8s.io/CSINodeAdd"
	case *storagev1.CSIStorageCapacity:
		return "storage.k8s.io/CSIStorageCapacityAdd"
	}
	return ""
}

// wait has the pod refused, by the plugins that the trial is about.
func (s meteredRig) wait(x trial) {
	s.T.Helper()
	before := s.count()
	s.Create(x.pod)
	place := "unschedulable"
	if len(x.pod.Spec.SchedulingGates) > 0 {
		place = "gated"
	} else {
		s.Unschedulable(key)
	}
	s.until("the pod waits, "+place, func(now counts) bool { return now.sum(pending, label("queue", place)) == 1 })
	for _, plugin := range x.refused {
		s.until("the pod is refused by "+plugin, func(now counts) bool {
			if rig.Upstream() { // its gauge keeps some that are gone
				now = now.since(before)
			}
			return now.sum(blamed, label("plugin", plugin), label("profile", x.pod.Spec.SchedulerName)) == 1
		})
	}
}

// judge compares what becomes of the pod with what the trial wants.
func (s meteredRig) judge(x trial, before counts) {
	s.T.Helper()
	if x.then == stays {
		// What the event does to the queue has been counted before the event is.
		if d := s.count().since(before); d.requeued("") != 0 {
			s.T.Errorf("%s: the pod was taken from where it waits, want it left there; it %s; counted since:\n%s", x.event, testbed.Describe(s.Pods.Get(key)), d)
		}
		return
	}
	by := x.by
	if by == "" {
		by = x.event
	}
	profile := label("profile", x.pod.Spec.SchedulerName)
	if x.then == inVain {
		x.then = retried
		if d := s.count().since(before); !rig.Upstream() && d.requeued("") == 0 {
			return
		}
	}
	now := s.until("the pod is tried again", func(now counts) bool { return now.since(before).sum(attempts, profile) > 0 })
	if d := now.since(before); d.requeued(by) != 1 {
		s.T.Errorf("pods taken back by %s: got %v, want 1; counted since:\n%s", by, d.requeued(by), d)
	}
	if x.then != retried {
		if got := s.Bound(key); got != string(x.then) && x.then != somewhere {
			s.T.Errorf("got node %s, want %s", got, x.then)
		}
		return
	}
	s.until("the pod is refused again", func(now counts) bool {
		return now.sum(pending, label("queue", "unschedulable")) == 1 && now.since(before).sum(attempts, profile, label("result", "unschedulable")) == 1
	})
	if p := s.Pods.Get(key); testbed.IsBound(p) {
		s.T.Errorf("got %s, want it to wait", testbed.Describe(p))
	}
}

// cleanedUp has what the trial makes deleted after it. The scheduler sees the next trial's
// nodes and pods after that, for each watch keeps its order.
func (s meteredRig) cleanedUp() {
	s.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.T.Context()), testbed.Patience)
		defer cancel()
		if err := s.sweep(ctx); err != nil {
			s.T.Error(err)
		}
	})
}

// sweep deletes what trials make.
func (s meteredRig) sweep(ctx context.Context) error {
	core, storage := s.Admin.CoreV1(), s.Admin.StorageV1()
	var keys []string
	for _, p := range s.Pods.All() {
		keys = append(keys, p.Namespace+"/"+p.Name)
	}
	g, in := errgroup.WithContext(ctx)
	g.Go(func() error { return s.DeletePods(in, keys...) })
	for _, remove := range []func(context.Context, metav1.DeleteOptions, metav1.ListOptions) error{
		core.Nodes().DeleteCollection, core.PersistentVolumes().DeleteCollection,
		core.PersistentVolumeClaims(metav1.NamespaceDefault).DeleteCollection, core.PersistentVolumeClaims(elsewhere).DeleteCollection,
		storage.StorageClasses().DeleteCollection, storage.CSINodes().DeleteCollection, storage.CSIDrivers().DeleteCollection,
		storage.CSIStorageCapacities(metav1.NamespaceDefault).DeleteCollection, storage.VolumeAttachments().DeleteCollection,
	} {
		g.Go(func() error { return remove(in, now(), metav1.ListOptions{}) })
	}
	return g.Wait()
}

// run makes each trial a subtest.
func run(t *testing.T, s meteredRig, trials []trial) {
	for _, x := range trials {
		t.Run(x.plugin+": "+x.name, func(t *testing.T) {
			s.in(t).try(x)
		})
	}
}

// What happens in trials.

// create is new objects.
func create(objects ...runtime.Object) func(meteredRig) {
	return func(s meteredRig) { s.T.Helper(); s.Create(objects...) }
}

// deletePod is the end of a pod.
func deletePod(name string) func(meteredRig) {
	return func(s meteredRig) { s.T.Helper(); s.Delete("default/" + name) }
}

// node changes a node by a merge patch in JSON.
func changeNode(name, patch string, subresources ...string) func(meteredRig) {
	return func(s meteredRig) { s.T.Helper(); s.PatchNode(name, patch, subresources...) }
}

// changePod changes a pod likewise.
func changePod(name, patch string, subresources ...string) func(meteredRig) {
	return func(s meteredRig) { s.T.Helper(); s.PatchPod("default/"+name, patch, subresources...) }
}

// labelled is a patch that sets a label.
func labelled(key, value string) string {
	return fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, key, value)
}

// unlabelled is a patch that takes a label away.
func unlabelled(key string) string { return fmt.Sprintf(`{"metadata": {"labels": {%q: null}}}`, key) }

// annotated is a patch that changes nothing that a scheduler reads.
const annotated = `{"metadata": {"annotations": {"example.com/note": "changed"}}}`

// pod starts the pod that waits.
func pod() *build.PodBuilder { return build.Pod("p") }

// other starts another pod, which is on a node.
func other(name, node string) *build.PodBuilder { return build.Pod(name).Node(node) }

// trialObject is what a trial has.
type trialObject = runtime.Object

// there is what a trial's cluster has.
func there(objects ...runtime.Object) []runtime.Object { return objects }

// bare is a node with room for pods and nothing else.
func bare(name string) *build.NodeBuilder { return build.Node(name).Label(v1.LabelHostname, name) }

// now deletes at once.
func now() metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: new(int64)} }

// shelved is a volume that nobody has.
func shelved(name string) *v1.PersistentVolume {
	v := build.Volume(name, "slow").CSI("driver.example.com", name).Obj()
	v.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	return v
}
