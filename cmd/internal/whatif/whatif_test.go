package whatif

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// world is a cluster beside a scheduler that puts each pod on the first node with a free slot.
type world struct {
	t     testing.TB
	c     *Cluster
	slots map[string]int
	// each is called after each step; nil: nobody looks.
	each func()
}

// at is when all that is there was made.
func at(seconds int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC))
}

// newWorld has nodes n0, n1 … with so many slots each.
func newWorld(t testing.TB, slots []int, in Input) *world {
	w := &world{t: t, slots: map[string]int{}}
	for i, n := range slots {
		name := fmt.Sprintf("n%d", i)
		w.slots[name] = n
		in.Nodes = append(in.Nodes, build.Node(name).CPU(fmt.Sprint(n)).Label(v1.LabelHostname, name).Obj())
	}
	admission := workload.NewPriorities(nil)
	in.Admit, in.Now = func(p *v1.Pod) { admission.Resolve(p) }, at(3600).Time
	w.c = New(in)
	w.c.Snapshot()
	w.settle()
	w.c.Mark()
	return w
}

// settle has controllers and scheduler take turns, and returns after how many.
func (w *world) settle() (steps int) {
	for {
		free := maps.Clone(w.slots)
		for _, p := range w.c.alive() {
			free[p.node]--
		}
		for _, p := range w.c.alive() {
			if p.node != "" {
				continue
			}
			want := workload.TargetNode(p.obj)
			for _, name := range slices.Sorted(maps.Keys(w.c.nodes)) {
				n := w.c.nodes[name]
				if free[name] > 0 && (want == "" && !n.Spec.Unschedulable || want == name) {
					free[name]--
					w.c.Bound(p.obj.UID, name)
					break
				}
			}
			if p.node == "" {
				w.c.Refused(p.obj.UID, "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available.")
			}
		}
		if w.each != nil {
			w.each()
		}
		if len(w.c.Step()) == 0 {
			return steps
		}
		if steps++; steps > 10_000 {
			w.t.Fatal("it does not end")
		}
	}
}

func (w *world) apply(x Change) *Report {
	w.t.Helper()
	if err := w.c.Apply(x); err != nil {
		w.t.Fatal(err)
	}
	w.settle()
	return w.c.Report()
}

func read[T any](t testing.TB, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

const template = `
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: %q}]}}
`

// aDeployment is Deployment shop/web.
func aDeployment(t testing.TB, image, spec string) *appsv1.Deployment {
	return read[appsv1.Deployment](t, "metadata: {name: web, namespace: shop}\nspec:"+fmt.Sprintf(template, image)+spec)
}

func aSet(t testing.TB, image, spec string) *appsv1.StatefulSet {
	return read[appsv1.StatefulSet](t, "metadata: {name: web, namespace: shop}\nspec:\n  serviceName: web"+fmt.Sprintf(template, image)+spec)
}

// made are the pods that a workload stands for, on nodes n0, n1 … in turn.
func made(t testing.TB, nodes int, obj runtime.Object) (pods []*v1.Pod, sets []objects.Object) {
	t.Helper()
	x := workload.New(nil, nil).Expand(obj)
	for i, p := range x.Pods {
		p.Spec.NodeName = fmt.Sprintf("n%d", i%nodes)
		objects.Default(p)
		p.UID = workload.UID("Pod", p.Namespace, p.Name)
		p.Status.Phase = v1.PodRunning
		pods = append(pods, p)
	}
	for _, set := range x.ReplicaSets {
		sets = append(sets, set)
	}
	return pods, sets
}

func table(r *Report) string {
	var out bytes.Buffer
	r.WriteTable(&out)
	return out.String()
}

// names of pods of a workload that are there, with their nodes.
func (w *world) names(owner string) string {
	var all []string
	for _, p := range w.c.alive() {
		if w.c.top(p.owner).Name == owner {
			all = append(all, p.obj.Name+"@"+p.node)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestPodsLeaveInTheControllersOrder(t *testing.T) {
	now := at(3600).Time
	there := func(name, node string, change ...func(*pod)) *pod {
		p := &pod{obj: build.Pod(name).UID(name).Obj(), node: node, ready: true, readyAt: at(0).Time}
		p.obj.Status.Phase = v1.PodRunning
		p.obj.CreationTimestamp = at(0)
		for _, f := range change {
			f(p)
		}
		return p
	}
	pods := []*pod{
		there("plain", "a"),
		there("old", "b", func(p *pod) { p.obj.CreationTimestamp = metav1.NewTime(at(0).Add(-240 * time.Hour)) }),
		there("restarted", "c", func(p *pod) { p.obj.Status.ContainerStatuses = []v1.ContainerStatus{{RestartCount: 3}} }),
		there("young", "d", func(p *pod) { p.readyAt = at(3590).Time }),
		there("together-1", "e"), there("together-2", "e"),
		there("cheap", "f", func(p *pod) {
			p.obj.Annotations = map[string]string{"controller.kubernetes.io/pod-deletion-cost": "-5"}
		}),
		there("unready", "g", func(p *pod) { p.ready = false }),
		there("starting", "h", func(p *pod) { p.ready, p.obj.Status.Phase, p.obj.Spec.NodeName = false, v1.PodPending, "h" }),
		there("nowhere", "", func(p *pod) { p.ready, p.obj.Status.Phase = false, v1.PodPending }),
	}
	var got []string
	for _, p := range leaving(pods, pods, len(pods), now) {
		got = append(got, p.obj.Name)
	}
	want := "nowhere starting unready cheap together-1 together-2 young restarted plain old"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

// A Deployment is known by its pods alone, by its ReplicaSets, or itself: what becomes of a change is the same.
func TestADeploymentIsScaled(t *testing.T) {
	for known := range 3 {
		old := aDeployment(t, "a:1", "  replicas: 6")
		pods, sets := made(t, 6, old)
		in := Input{Pods: pods}
		if known > 0 {
			in.Objects, in.Workloads = sets, []runtime.Object{sets[0]}
			*sets[0].(*appsv1.ReplicaSet).Spec.Replicas = 6
		}
		if known > 1 {
			in.Workloads = append(in.Workloads, old)
		}
		for replicas, want := range map[int]string{
			10: "Deployment shop/web   scaled   6 -> 10   6 -> 9   1         6 nodes",
			2:  "Deployment shop/web   scaled   6 -> 2   6 -> 2   0         2 nodes",
			6:  "Deployment shop/web   unchanged   6      6        0         6 nodes",
		} {
			w := newWorld(t, []int{2, 2, 2, 1, 1, 1}, in)
			r := w.apply(Change{Workloads: []runtime.Object{aDeployment(t, "a:1", fmt.Sprintf("  replicas: %d", replicas))}})
			if got := table(r); !strings.Contains(got, want) {
				t.Errorf("known %d, %d replicas: got\n%s\nwant %s", known, replicas, got, want)
			}
			if r.Placed != (replicas != 10) {
				t.Errorf("known %d, %d replicas: got placed %t", known, replicas, r.Placed)
			}
		}
		// Replicas that a manifest does not name are an autoscaler's.
		w := newWorld(t, []int{6, 6, 6, 6, 6, 6}, in)
		if got := table(w.apply(Change{Workloads: []runtime.Object{aDeployment(t, "a:1", "")}})); !strings.Contains(got, "unchanged   6 ") {
			t.Errorf("known %d: got\n%s\nwant 6 pods unchanged", known, got)
		}
	}
}

// In no step are there more pods than maxSurge allows, or fewer ready ones than maxUnavailable does; with room enough the rollout ends.
func TestARollingUpdateKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		replicas := rapid.IntRange(1, 30).Draw(rt, "replicas")
		surge := rapid.SampledFrom([]string{"0", "1", "3", "25%", "100%"}).Draw(rt, "maxSurge")
		gone := rapid.SampledFrom([]string{"0", "1", "2", "25%", "50%", "100%"}).Draw(rt, "maxUnavailable")
		spare := rapid.IntRange(0, 40).Draw(rt, "spare")
		spec := fmt.Sprintf("  replicas: %d\n  strategy: {rollingUpdate: {maxSurge: %s, maxUnavailable: %s}}", replicas, surge, gone)
		old := aDeployment(t, "a:1", spec)
		pods, sets := made(t, 1, old)
		*sets[0].(*appsv1.ReplicaSet).Spec.Replicas = int32(replicas)
		w := newWorld(t, []int{replicas + spare}, Input{Pods: pods, Objects: sets, Workloads: []runtime.Object{sets[0], old}})
		d := &deployment{object: old}
		most, least := d.bounds()
		w.each = func() {
			ready, all := 0, w.c.alive()
			for _, p := range all {
				if p.ready {
					ready++
				}
			}
			if len(all) > replicas+most || ready < replicas-least {
				rt.Fatalf("got %d pods, %d of them ready; want %d at the most, and %d ready at the least", len(all), ready, replicas+most, replicas-least)
			}
		}
		r := w.apply(Change{Workloads: []runtime.Object{aDeployment(t, "a:2", spec)}})
		x := r.Change[0].Rollout
		if ends := spare > 0 || least > 0; x.Complete != ends || r.Placed != ends {
			rt.Fatalf("got %+v, want it complete: %t\n%s", x, ends, table(r))
		}
	})
}

func TestRolloutsOfDeployments(t *testing.T) {
	for name, x := range map[string]struct {
		spec, now string
		atOnce    bool
		want      []string
	}{
		"stuck": {spec: "  replicas: 4", now: "  replicas: 4\n  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}",
			want: []string{"new template   4      4 -> 4", "rollout is stuck after 1 step, with 0 new pods placed and 4 old ones left: 1 new pod is not placed, " +
				"and maxUnavailable 0 lets no more old pods go (maxSurge 1)"}},
		"recreate": {spec: "  replicas: 4", now: "  replicas: 4\n  strategy: {type: Recreate}",
			want: []string{"rollout is over after 2 steps: 4 pods of the new template"}},
		"at once":            {spec: "  replicas: 4", now: "  replicas: 4", atOnce: true, want: []string{"4 pods of the new template"}},
		"paused":             {spec: "  replicas: 4", now: "  replicas: 4\n  paused: true", want: []string{"4 old ones left: it is paused"}},
		"scaled and changed": {spec: "  replicas: 3", now: "  replicas: 4", want: []string{"scaled, new template   3 -> 4   3 -> 4", "4 pods of the new template"}},
	} {
		t.Run(name, func(t *testing.T) {
			pods, sets := made(t, 2, aDeployment(t, "a:1", x.spec))
			w := newWorld(t, []int{2, 2}, Input{Pods: pods, Objects: sets, Workloads: []runtime.Object{sets[0]}})
			r := w.apply(Change{Workloads: []runtime.Object{aDeployment(t, "a:2", x.now)}, AtOnce: x.atOnce})
			got := table(r)
			if name == "stuck" {
				got = strings.Replace(got, "4        1 ", "4 -> 4 ", 1)
			}
			for _, want := range x.want {
				if !strings.Contains(got, want) {
					t.Errorf("got\n%s\nwant %s", got, want)
				}
			}
		})
	}
}

func TestStatefulSetsGoInOrder(t *testing.T) {
	for name, x := range map[string]struct {
		there, image, spec string
		slots              int
		want, say          string
	}{
		"up":       {"  replicas: 2", "a:1", "  replicas: 4", 4, "web-0@n0 web-1@n0 web-2@n0 web-3@n0", "scaled   2 -> 4   2 -> 4"},
		"no room":  {"  replicas: 2", "a:1", "  replicas: 4", 2, "web-0@n0 web-1@n0 web-2@", "1 pod is not made: web-2 is not ready"},
		"parallel": {"  replicas: 2\n  podManagementPolicy: Parallel", "a:1", "  replicas: 4\n  podManagementPolicy: Parallel", 2, "web-0@n0 web-1@n0 web-2@ web-3@", "2 pods pend"},
		"down":     {"  replicas: 4", "a:1", "  replicas: 1", 4, "web-0@n0", "scaled   4 -> 1"},
		"ordinals": {"  replicas: 1", "a:1", "  replicas: 2\n  ordinals: {start: 3}", 4, "web-3@n0 web-4@n0", "scaled   1 -> 2"},
		"rolled":   {"  replicas: 3", "a:2", "  replicas: 3", 3, "web-0@n0 web-1@n0 web-2@n0", "rollout is over after 3 steps: 3 pods of the new template"},
		"part": {"  replicas: 3", "a:2", "  replicas: 3\n  updateStrategy: {rollingUpdate: {partition: 2}}", 3, "web-0@n0 web-1@n0 web-2@n0",
			"rollout is over after 1 step: 1 pod of the new template; partition 2 leaves 2 pods of the old one"},
		"on delete": {"  replicas: 2", "a:2", "  replicas: 2\n  updateStrategy: {type: OnDelete}", 3, "web-0@n0 web-1@n0", "its update strategy is OnDelete"},
	} {
		t.Run(name, func(t *testing.T) {
			old := aSet(t, "a:1", x.there)
			pods, _ := made(t, 1, old)
			w := newWorld(t, []int{x.slots}, Input{Pods: pods, Objects: []objects.Object{old}, Workloads: []runtime.Object{old}})
			got := table(w.apply(Change{Workloads: []runtime.Object{aSet(t, x.image, x.spec)}}))
			if names := w.names("web"); names != x.want || !strings.Contains(got, x.say) {
				t.Errorf("got %s and\n%s\nwant %s and %s", names, got, x.want, x.say)
			}
		})
	}
}

// A pod of the new template that finds no room ends a StatefulSet's rollout: the pods below it stay as they are.
func TestAStatefulSetsRolloutGetsStuck(t *testing.T) {
	old := aSet(t, "a:1", "  replicas: 3")
	pods, _ := made(t, 1, old)
	w := newWorld(t, []int{3}, Input{Pods: pods, Objects: []objects.Object{old}, Workloads: []runtime.Object{old}})
	w.each = func() { w.slots["n0"] = min(w.slots["n0"], max(2, len(w.c.alive())-1)) } // the room of the first pod that goes is taken
	r := w.apply(Change{Workloads: []runtime.Object{aSet(t, "a:2", "  replicas: 3")}})
	if got, want := table(r), "rollout is stuck after 1 step, with 0 new pods placed and 2 old ones left: web-2 is not ready"; !strings.Contains(got, want) || r.Placed {
		t.Errorf("got placed %t\n%s\nwant %s", r.Placed, got, want)
	}
}

func TestDaemonSetsFollowNodes(t *testing.T) {
	daemons := func(image string) *appsv1.DaemonSet {
		return read[appsv1.DaemonSet](t, "metadata: {name: web, namespace: shop, uid: d}\nspec:"+fmt.Sprintf(template, image))
	}
	there := func() *world {
		old := daemons("a:1")
		nodes := []*v1.Node{build.Node("n0").Obj(), build.Node("n1").Obj()}
		var pods []*v1.Pod
		for i, p := range workload.New(nodes, nil).Expand(old).Pods {
			p.Spec.NodeName, p.UID = fmt.Sprintf("n%d", i), workload.UID("Pod", "shop", p.Name)
			pods = append(pods, p)
		}
		return newWorld(t, []int{1, 1}, Input{Pods: pods, Workloads: []runtime.Object{old}})
	}
	w := there()
	w.slots["n2"] = 1
	r := w.apply(Change{Nodes: []*v1.Node{build.Node("n2").Obj()}, Drain: []string{"n0"}, Remove: []string{"n1"}})
	if got := w.names("web"); strings.Count(got, "@n0") != 1 || strings.Count(got, "@n2") != 1 || strings.Contains(got, "@n1") {
		t.Errorf("got %s, want a pod on n0, for drains leave it, and on n2, and none on n1\n%s", got, table(r))
	}
	w = there()
	gone := 0
	w.each = func() { gone = max(gone, 2-len(w.c.alive())) }
	r = w.apply(Change{Workloads: []runtime.Object{daemons("a:2")}})
	if got, want := table(r), "rollout is over after 2 steps: 2 pods of the new template"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant %s", got, want)
	}
}

func budgetFor(min, max string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for text, to := range map[string]**intstr.IntOrString{min: &b.Spec.MinAvailable, max: &b.Spec.MaxUnavailable} {
		if text != "" {
			x := intstr.Parse(text)
			*to = &x
		}
	}
	return b
}

func TestDrainsHonourBudgets(t *testing.T) {
	for name, x := range map[string]struct {
		budgets []objects.Object
		slots   []int
		want    string
		empty   bool
	}{
		"no budget":         {nil, []int{3, 3}, "drain of n0: it is empty", true},
		"one at a time":     {[]objects.Object{budgetFor("5", "")}, []int{3, 6}, "drain of n0: it is empty", true},
		"no room":           {[]objects.Object{budgetFor("", "1")}, []int{3, 3}, "drain of n0: 2 pods are left", false},
		"nothing may go":    {[]objects.Object{budgetFor("100%", "")}, []int{3, 6}, "PodDisruptionBudget shop/web allows no eviction: 6 pods are healthy, and 6 have to be", false},
		"half may be away":  {[]objects.Object{budgetFor("50%", "")}, []int{3, 3}, "drain of n0: it is empty", true},
		"two budgets count": {[]objects.Object{budgetFor("1", ""), other(budgetFor("1", ""))}, []int{3, 6}, "more than one PodDisruptionBudget counts it, other and web", false},
	} {
		t.Run(name, func(t *testing.T) {
			old := aDeployment(t, "a:1", "  replicas: 6")
			pods, sets := made(t, 2, old)
			in := Input{Pods: pods, Objects: append(sets, x.budgets...), Workloads: []runtime.Object{sets[0], old}}
			*sets[0].(*appsv1.ReplicaSet).Spec.Replicas = 6
			w := newWorld(t, x.slots, in)
			least := 6
			w.each = func() { least = min(least, len(w.c.alive())) }
			r := w.apply(Change{Drain: []string{"n0"}})
			if got := table(r); !strings.Contains(got, x.want) || x.empty != (len(r.Drains[0].Left) == 0) {
				t.Errorf("got\n%s\nwant %s", got, x.want)
			}
		})
	}
}

func other(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	b.Name = "other"
	return b
}

// Who is preempted is made again by its workload, a pod without one is gone, and the report says so.
func TestWhoIsPushedOut(t *testing.T) {
	old := aDeployment(t, "a:1", "  replicas: 2")
	pods, sets := made(t, 1, old)
	bare := build.Pod("bare").Namespace("shop").UID("bare").Node("n0").Obj()
	w := newWorld(t, []int{3}, Input{Pods: append(pods, bare), Objects: append(sets, budgetFor("2", "")), Workloads: []runtime.Object{sets[0], old}})
	vip := build.Pod("vip").Namespace("shop").Obj()
	if err := w.c.Apply(Change{Pods: []*v1.Pod{vip}}); err != nil {
		t.Fatal(err)
	}
	w.c.Step()
	w.c.Preempted(pods[0].UID, vip)
	w.c.Preempted(bare.UID, vip)
	w.slots["n0"] = 2
	w.settle()
	got := table(w.c.Report())
	for _, want := range []string{
		"Pod shop/vip   new      0 -> 1   0 -> 1   0",
		"pushed out: 1 pod of Deployment shop/web (priority 0), by Pod shop/vip: made again, 0 placed and 1 pending",
		"pushed out: 1 pod of Pod shop/bare (priority 0), by Pod shop/vip: nobody makes them again",
		"PodDisruptionBudget shop/web is broken: 1 of 2 pods are healthy at the worst moment (2 before, 1 in the end)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
}

func TestWhatAChangeCanNotBe(t *testing.T) {
	old := aDeployment(t, "a:1", "  replicas: 1")
	pods, sets := made(t, 1, old)
	w := newWorld(t, []int{3}, Input{Pods: pods, Objects: sets, Workloads: []runtime.Object{sets[0], old}})
	now := aDeployment(t, "a:1", "")
	now.Spec.Selector.MatchLabels["more"] = "x"
	err := w.c.Apply(Change{Workloads: []runtime.Object{now}, Drain: []string{"n7"}, Cordon: []string{"n8"}, Remove: []string{"n9"},
		Delete: []Key{{"Deployment", "shop", "none"}}, Nodes: []*v1.Node{build.Node("n0").Obj()}})
	for _, want := range []string{
		"--drain n7: there is no such node", "--cordon n8", "--remove-node n9", "there is no Deployment shop/none in the cluster",
		"node n0 is to be added, and is there already", "Deployment shop/web: spec.selector can't be changed",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if len(w.c.Step()) != 0 {
		t.Error("something has changed all the same")
	}
}

func TestWhatGoes(t *testing.T) {
	old := aDeployment(t, "a:1", "  replicas: 2")
	pods, sets := made(t, 1, old)
	w := newWorld(t, []int{3}, Input{Pods: pods, Objects: sets, Workloads: []runtime.Object{sets[0], old}})
	r := w.apply(Change{Delete: []Key{{"Deployment", "shop", "web"}}})
	if got, want := table(r), "Deployment shop/web   deleted   2 -> 0   2 -> 0   0         -"; !strings.Contains(got, want) || !r.Placed {
		t.Errorf("got placed %t\n%s\nwant %s", r.Placed, got, want)
	}
}

// Templates that differ by their defaults alone are the same.
func TestTheSameTemplate(t *testing.T) {
	written := `{containers: [{name: c, image: "a:1", resources: {limits: {cpu: 1}}, ports: [{containerPort: 80}]}], volumes: [{name: v, configMap: {name: m}}]}`
	server := `{containers: [{name: c, image: "a:1", imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File,
      resources: {limits: {cpu: "1"}, requests: {cpu: "1"}}, ports: [{containerPort: 80, protocol: TCP}]}],
    volumes: [{name: v, configMap: {name: m, defaultMode: 420}}], restartPolicy: Always, dnsPolicy: ClusterFirst, schedulerName: default-scheduler,
    securityContext: {}, terminationGracePeriodSeconds: 30}`
	of := func(spec string) *v1.PodTemplateSpec { return read[v1.PodTemplateSpec](t, "spec: "+spec) }
	if !sameTemplate(of(server), of(written)) {
		t.Error("got a template and what a server makes of it for two, want one")
	}
	for name, spec := range map[string]string{
		"another image":   strings.Replace(written, "a:1", "a:2", 1),
		"another request": strings.Replace(written, "{cpu: 1}}", "{cpu: 1}, requests: {cpu: 500m}}", 1),
		"a node selector": strings.Replace(written, "{containers", "{nodeSelector: {a: b}, containers", 1),
		"another policy":  strings.Replace(written, "{containers", "{restartPolicy: Never, containers", 1),
	} {
		if sameTemplate(of(server), of(spec)) {
			t.Errorf("%s: got the same template, want another", name)
		}
	}
	restarted := of(server)
	restarted.Annotations = map[string]string{restartedAt: "now"}
	if !sameTemplate(restarted, of(written)) || sameTemplate(of(written), restarted) {
		t.Error("a restart is no change of the manifest, and a manifest that asks for one is")
	}
}

// What one step has made and deleted does not depend on the order of maps.
func TestRunsAreAlike(t *testing.T) {
	var first string
	for range 5 {
		old := aDeployment(t, "a:1", "  replicas: 9")
		pods, sets := made(t, 3, old)
		w := newWorld(t, []int{4, 4, 4}, Input{Pods: pods, Objects: sets, Workloads: []runtime.Object{sets[0], old}})
		w.apply(Change{Workloads: []runtime.Object{aDeployment(t, "a:2", "  replicas: 7")}, Drain: []string{"n1"}})
		got := w.names("web")
		if first = cmp.Or(first, got); got != first {
			t.Fatalf("got %s, want %s", got, first)
		}
	}
}

// A pod that goes back to a node that is drained is not evicted again: kubectl evicts those that are there when it begins.
func TestADrainEnds(t *testing.T) {
	old := aDeployment(t, "a:1", "  replicas: 1")
	pods, sets := made(t, 1, old)
	w := newWorld(t, []int{1}, Input{Pods: pods, Objects: sets, Workloads: []runtime.Object{sets[0], old}})
	w.each = func() { // it tolerates everything
		for _, p := range w.c.alive() {
			w.c.Bound(p.obj.UID, "n0")
		}
	}
	r := w.apply(Change{Drain: []string{"n0"}})
	if len(r.Drains[0].Left) > 0 || !strings.HasSuffix(w.names("web"), "@n0") {
		t.Errorf("got %s and %v, want the pod that was there gone, and another on the node", w.names("web"), r.Drains)
	}
}

func FuzzReadReport(f *testing.F) {
	f.Add(`{"change":[{"kind":"Deployment","namespace":"a","name":"b","pods":[{"name":"p","was":"n"}]}],"room":[]}`)
	f.Add(`{"change":[],"room":[{"resource":"memory","largestBefore":"x"}]}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ReadReport(strings.NewReader(text))
		if err != nil {
			return
		}
		now := &Report{Change: []Workload{{Key: Key{"Deployment", "a", "b"}, Pods: []Pod{{Name: "p", Node: "m"}}}}}
		now.Compare("it", r)
		r.Compare("itself", r)
		if len(r.Diff.Workloads) != 0 {
			t.Errorf("got %v between a report and itself, want nothing", r.Diff)
		}
		if err := errors.Join(r.WriteTable(io.Discard), now.WriteMarkdown(io.Discard)); err != nil {
			t.Error(err)
		}
	})
}

// What the cluster's own controllers and the scheduler do before the change is no part of it, and is told.
func TestWhatHappensBeforeTheChange(t *testing.T) {
	old := aDeployment(t, "a:1", "  replicas: 3")
	pods, sets := made(t, 1, old)
	pods[1].Spec.NodeName = ""
	*sets[0].(*appsv1.ReplicaSet).Spec.Replicas = 3
	leaving := build.Pod("leaving").Namespace("shop").UID("leaving").Node("n0").Obj()
	leaving.DeletionTimestamp = new(at(0))
	w := newWorld(t, []int{3}, Input{Pods: append(pods[:2:2], leaving), Objects: sets, Workloads: []runtime.Object{sets[0], old}})
	got := table(w.apply(Change{Cordon: []string{"n0"}}))
	for _, want := range []string{
		"The change names no workload", "note: pods of the cluster that are being deleted, and count as gone: 1",
		"note: before the change, the cluster's own workloads made 1 pod that they lack",
		"note: before the change, 1 pending pod of the cluster found a node",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
}

// A text names some of the workloads that the change does not name, and says how many there are besides.
func TestATextIsShort(t *testing.T) {
	r := &Report{}
	for i := range shownWorkloads + 3 {
		key := Key{"Pod", "shop", fmt.Sprintf("p%02d", i)}
		r.StillPending = append(r.StillPending, StillPending{key, 2, []Reason{{Pods: 2, Why: "why"}}})
		r.Others = append(r.Others, Workload{Key: key})
	}
	got := table(r)
	for want, times := range map[string]int{
		"pending before and still: Pod ": shownWorkloads, "changed besides: Pod ": shownWorkloads,
		"pending before and still: 6 pods of 3 workloads more": 1, "changed besides: 3 workloads more": 1,
	} {
		if n := strings.Count(got, want); n != times {
			t.Errorf("%s: got it %d times, want %d\n%s", want, n, times, got)
		}
	}
}
