package whatif

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Where the room that is left does not suffice for all that lose pods, it goes to those whose controllers make others while the lost
// ones stop, then to StatefulSets, then to Jobs, which wait out a backoff.
func TestWhoIsMadeAgainFirst(t *testing.T) {
	web := aDeployment(t, "a:1", "  replicas: 1")
	web.Name = "z-web" // of all names the last
	set := aSet(t, "a:1", "  replicas: 1")
	set.Name = "m-set"
	job := aJob(t, "spec:\n"+jobTemplate)
	job.Name = "a-job"
	in := Input{Workloads: []runtime.Object{set, job}, Objects: []objects.Object{set}}
	for _, obj := range []runtime.Object{web, set, job} {
		pods, sets := made(t, 1, obj)
		in.Pods, in.Objects = append(in.Pods, pods...), append(in.Objects, sets...)
		for _, s := range sets {
			in.Workloads = append(in.Workloads, s)
		}
	}
	in.Workloads = append(in.Workloads, web)
	for slots, want := range map[int]string{1: "z-web", 2: "m-set z-web", 3: "a-job m-set z-web"} {
		w := newWorld(t, []int{3, slots}, in)
		w.apply(Change{Drain: []string{"n0"}})
		var placed []string
		for _, name := range []string{"a-job", "m-set", "z-web"} {
			if strings.HasSuffix(w.names(name), "@n1") {
				placed = append(placed, name)
			}
		}
		if got := strings.Join(placed, " "); got != want {
			t.Errorf("room for %d: got pods of %s placed, want %s", slots, got, want)
		}
	}
}

// A ReplicaSet whose name another has gets a name and a label of its own.
func TestATakenNameOfAReplicaSet(t *testing.T) {
	d := aDeployment(t, "a:1", "  replicas: 1")
	taken := workload.ReplicaSet(d, 0)
	taken.OwnerReferences = nil
	second := workload.ReplicaSetNamed(d, taken.Name+"-1", 0)
	second.OwnerReferences = nil
	w := newWorld(t, []int{1}, Input{Objects: []objects.Object{taken, second}})
	w.apply(Change{Workloads: []runtime.Object{d}})
	pods := w.c.alive()
	if len(pods) != 1 {
		t.Fatalf("got %d pods, want 1", len(pods))
	}
	hash := pods[0].obj.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	owner := metav1.GetControllerOf(pods[0].obj)
	if want := taken.Name + "-2"; owner.Name != want || "web-"+hash != want || pods[0].obj.UID == "" {
		t.Errorf("got a pod of ReplicaSet %s with the label %s, want %s", owner.Name, hash, want)
	}
}

func TestAutoscalersAreToldOf(t *testing.T) {
	old := aDeployment(t, "a:1", "  replicas: 2")
	pods, sets := made(t, 1, old)
	in := Input{Pods: pods, Objects: sets, Workloads: []runtime.Object{sets[0], old}, Autoscalers: []Autoscaler{
		{Name: "web", Of: Key{"Deployment", "shop", "web"}, Min: 2, Max: 9}, {Name: "other", Of: Key{"Deployment", "shop", "other"}, Min: 1, Max: 2},
	}}
	const want = "note: HorizontalPodAutoscaler web sets the replicas of Deployment shop/web, 2 to 9; here they are 3, and stay so\n"
	got := table(newWorld(t, []int{4}, in).apply(Change{Workloads: []runtime.Object{aDeployment(t, "a:1", "  replicas: 3")}}))
	if strings.Count(got, "HorizontalPodAutoscaler") != 1 || !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant %s", got, want)
	}
	if got := table(newWorld(t, []int{4, 4}, in).apply(Change{Drain: []string{"n0"}})); strings.Contains(got, "HorizontalPodAutoscaler") {
		t.Errorf("got\n%s\nwant nothing of autoscalers of workloads that the change does not name", got)
	}
}

// What belongs to a workload is not deleted by itself, what is deleted may come anew, and a node goes or is emptied.
func TestWhatIsDeleted(t *testing.T) {
	old := aDeployment(t, "a:1", "  replicas: 2")
	pods, sets := made(t, 1, old)
	in := Input{Pods: pods, Objects: sets, Workloads: []runtime.Object{sets[0], old}}
	w := newWorld(t, []int{4, 4}, in)
	err := w.c.Apply(Change{Delete: []Key{keyOf(sets[0]), keyOf(pods[0])}, Remove: []string{"n0"}, Drain: []string{"n0"}, Cordon: []string{"n0", "n1"}})
	for _, want := range []string{
		"--delete: ReplicaSet shop/" + sets[0].GetName() + " belongs to Deployment shop/web, which makes it again: delete that",
		"--delete: Pod shop/" + pods[0].Name + " belongs to Deployment shop/web, which makes it again: delete that",
		"--drain n0: --remove-node has it gone at once, whatever budgets say; give one of them", "--cordon n0: --remove-node has it gone",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	got := table(w.apply(Change{Delete: []Key{keyOf(old)}, Workloads: []runtime.Object{aDeployment(t, "a:1", "  replicas: 3")}}))
	if want := "Deployment shop/web   new      2 -> 3   2 -> 3   0"; !strings.Contains(got, want) || strings.Contains(got, "rollout") {
		t.Errorf("got\n%s\nwant %s", got, want)
	}
}

// A budget that counts pods without a controller goes by the others' scale, and allows nothing where there is none.
func TestBudgetsOfPodsWithoutAController(t *testing.T) {
	old := aDeployment(t, "a:1", "  replicas: 4")
	pods, sets := made(t, 2, old)
	bare := build.Pod("bare").Namespace("shop").UID("bare").Label("app", "web").Node("n0").Obj()
	bare.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	for _, b := range []objects.Object{budgetFor("", "50%"), budgetFor("50%", "")} {
		w := newWorld(t, []int{4, 4}, Input{Pods: append(pods[:len(pods):len(pods)], bare), Objects: append(sets[:1:1], b),
			Workloads: []runtime.Object{sets[0], old}})
		got := table(w.apply(Change{Drain: []string{"n0"}}))
		for _, want := range []string{"drain of n0: it is empty", "Pod shop/bare: it has no workload, and nobody makes it again",
			"kubectl asks for --force, for these have no workload: shop/bare",
			"kubectl asks for --delete-emptydir-data, for what these have in emptyDir volumes is lost: shop/bare"} {
			if !strings.Contains(got, want) {
				t.Errorf("got\n%s\nwant %s", got, want)
			}
		}
		w = newWorld(t, []int{4, 4}, Input{Pods: []*v1.Pod{bare}, Objects: []objects.Object{b}})
		if got, want := table(w.apply(Change{Drain: []string{"n0"}})), "bare stays: PodDisruptionBudget shop/web allows no eviction: its pods have no controller with a scale"; !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
}

// With AtOnce strategies have no say; without, the text tells what they leave.
func TestStrategiesThatLeavePodsAsTheyAre(t *testing.T) {
	for name, x := range map[string]struct {
		there, now runtime.Object
		atOnce     bool
		want       string
	}{
		"partition beyond": {aSet(t, "a:1", "  replicas: 2"), aSet(t, "a:2", "  replicas: 2\n  updateStrategy: {rollingUpdate: {partition: 9}}"), false,
			"rollout is over after 0 steps: 0 pods of the new template; partition 9 leaves 2 pods of the old one"},
		"partition counts from the first": {aSet(t, "a:1", "  replicas: 3\n  ordinals: {start: 5}"),
			aSet(t, "a:2", "  replicas: 3\n  ordinals: {start: 5}\n  updateStrategy: {rollingUpdate: {partition: 1}}"), false,
			"2 pods of the new template; partition 1 leaves 1 pod of the old one"},
		"partition, at once": {aSet(t, "a:1", "  replicas: 2"), aSet(t, "a:2", "  replicas: 2\n  updateStrategy: {rollingUpdate: {partition: 9}}"), true,
			"rollout is over after 1 step: 2 pods of the new template"},
		"a set on delete, at once": {aSet(t, "a:1", "  replicas: 2"), aSet(t, "a:2", "  replicas: 2\n  updateStrategy: {type: OnDelete}"), true,
			"rollout is over after 1 step: 2 pods of the new template"},
		"renumbered":            {aSet(t, "a:1", "  replicas: 2"), aSet(t, "a:1", "  replicas: 2\n  ordinals: {start: 3}"), false, "StatefulSet shop/web   renumbered   2"},
		"paused from the start": {nil, aDeployment(t, "a:1", "  replicas: 2\n  paused: true"), false, "2 pods are not made: it is paused"},
		"nothing old left": {aDeployment(t, "a:1", "  replicas: 2\n  strategy: {rollingUpdate: {maxUnavailable: 100%}}"),
			aDeployment(t, "a:2", "  replicas: 9\n  strategy: {rollingUpdate: {maxUnavailable: 100%}}"), false, "0 old ones left: 5 new pods are not placed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var in Input
			if x.there != nil {
				in.Pods, in.Objects = made(t, 1, x.there)
				for _, obj := range in.Objects {
					in.Workloads = append(in.Workloads, obj)
				}
				in.Workloads = append(in.Workloads, x.there)
			}
			w := newWorld(t, []int{4}, in)
			if got := table(w.apply(Change{Workloads: []runtime.Object{x.now}, AtOnce: x.atOnce})); !strings.Contains(got, x.want) {
				t.Errorf("got\n%s\nwant %s", got, x.want)
			}
		})
	}
}

func TestADaemonSetThatIsReplacedAtOnce(t *testing.T) {
	const text = "metadata: {name: web, namespace: shop, uid: d}\nspec:\n  updateStrategy: {type: OnDelete}\n  selector: {matchLabels: {app: web}}\n" +
		"  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: 'a:1'}]}}\n"
	old := read[appsv1.DaemonSet](t, text)
	var pods []*v1.Pod
	for _, p := range workload.New([]*v1.Node{build.Node("n0").Obj()}, nil).Expand(old).Pods {
		p.Spec.NodeName, p.UID = "n0", workload.UID("Pod", "shop", p.Name)
		pods = append(pods, p)
	}
	for atOnce, want := range map[bool]string{true: "rollout is over after 1 step: 1 pod of the new template", false: "its update strategy is OnDelete"} {
		w := newWorld(t, []int{1}, Input{Pods: pods, Workloads: []runtime.Object{old}})
		now := read[appsv1.DaemonSet](t, strings.Replace(text, "a:1", "a:2", 1))
		if got := table(w.apply(Change{Workloads: []runtime.Object{now}, AtOnce: atOnce})); !strings.Contains(got, want) {
			t.Errorf("at once %t: got\n%s\nwant %s", atOnce, got, want)
		}
	}
}

// An API server lets nobody change what a StatefulSet's claims are made of, nor its service.
func TestWhatOfAStatefulSetCanNotChange(t *testing.T) {
	const claims = "  replicas: 1\n  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]"
	for want, change := range map[string]func(*appsv1.StatefulSet){
		"<nil>":                             func(*appsv1.StatefulSet) {},
		"spec.serviceName can't be changed": func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "other" },
		"spec.volumeClaimTemplates can't be changed:": func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates[0].Name = "other" },
		"spec.volumeClaimTemplates can't be changed: an API server refuses it; deleted first (simulate: --delete statefulset/shop/web), it is made anew": func(s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("2Gi")
		},
	} {
		there := aSet(t, "a:1", claims)
		there.Spec.VolumeClaimTemplates[0].Spec.VolumeMode = new(v1.PersistentVolumeFilesystem) // as an API server fills in
		now := aSet(t, "a:1", claims)
		change(now)
		w := newWorld(t, []int{1}, Input{Objects: []objects.Object{there}, Workloads: []runtime.Object{there}})
		if err := w.c.Apply(Change{Workloads: []runtime.Object{now}}); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A workload in a namespace that is not there, or whose name another namespace has, may be meant for another.
func TestNamespacesThatAreNotMeant(t *testing.T) {
	shop := aDeployment(t, "a:1", "  replicas: 1")
	in := Input{Workloads: []runtime.Object{shop}, Objects: []objects.Object{build.Namespace("shop"), build.Namespace("stage")}}
	for namespace, want := range map[string]string{
		"shop":  "",
		"stage": "note: Deployment stage/web is new; there is one of its name in namespace shop\n",
		"shp":   "note: Deployment shp/web: the cluster has no namespace shp, and refuses it without\n",
		"made":  "note: Deployment made/web is new; there is one of its name in namespace shop\n",
	} {
		now := aDeployment(t, "a:1", "  replicas: 1")
		now.Namespace = namespace
		x := Change{Workloads: []runtime.Object{now}}
		if namespace == "made" {
			x.Objects = []objects.Object{build.Namespace("made")}
		}
		got := table(newWorld(t, []int{4}, in).apply(x))
		if !strings.Contains(got, want) || want == "" && strings.Contains(got, "namespace") {
			t.Errorf("%s: got\n%s\nwant %q", namespace, got, want)
		}
	}
}
