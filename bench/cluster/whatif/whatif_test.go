package whatif

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

var (
	changes = flag.Int("changes", 8, "to make and to hold against simulate")
	seed    = flag.Uint64("seed", 1, "of the changes")
)

const (
	nodes     = 6 // at first
	slots     = 4 // of a node, beside its daemon
	namespace = "default"
	// quiet is for how long nothing may happen before a change counts as over: longer than a pod's backoff.
	quiet = 3 * time.Second
)

// cluster is the real one.
type cluster struct {
	*testbed.Cluster
	random  *rand.Rand
	program string
	dir     string
	made    int    // workloads, images and nodes
	why     string // a pod of a drained node stays; empty: none does
}

// outcome is what has become of a workload: pods with a node, without, and of another template than its newest.
type outcome struct{ Placed, Pending, Old int }

func TestSimulateTellsWhatBecomesOfAChange(t *testing.T) {
	t.Logf("seed %d, %d changes", *seed, *changes)
	c := &cluster{Cluster: testbed.New(t, testbed.Config{NoAudit: true}), random: rand.New(rand.NewPCG(*seed, 16)), dir: t.TempDir()}
	program, err := c.Shardsched(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.program = program
	c.Controllers("deployment", "replicaset", "statefulset", "daemonset", "job", "garbagecollector", "disruption", "kubelet")
	c.Coordinator(testbed.Scheduler{})
	c.fill()
	c.settle()
	kinds := map[string]int{}
	for i := range *changes {
		x := c.draw()
		kinds[x.kind]++
		dump, before := c.dump(i), c.outcomes()
		want, told := c.simulate(i, dump, x, before)
		stays := x.make(c)
		got := c.settle()
		if !c.agree(got, want, told) || stays != told.stays() {
			t.Errorf("change %d, %s: got %v and %t for pods that a drain leaves; simulate says %v and %t\nbefore: %v", i, x, got, stays, want,
				told.stays(), before)
		}
		c.relieve(x)
	}
	t.Logf("changes: %v", kinds)
}

// fill makes the cluster that changes are made to.
func (c *cluster) fill() {
	var all []runtime.Object
	for i := range nodes {
		all = append(all, hollowNode(fmt.Sprintf("node-%d", i), i))
	}
	all = append(all, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000},
		budget("one", nil, new(intstr.FromInt32(1))), budget("two", new(intstr.FromString("50%")), nil))
	c.CreateAll(all...)
	for _, w := range []runtime.Object{deployment("one", 5, ""), deployment("two", 4, ""), statefulSet("set", 3), daemonSet()} {
		c.put(w)
	}
}

// hollowNode has room for so many pods as there are slots, whatever their sizes: of CPU it has enough, but for the largest.
func hollowNode(name string, zone int) *v1.Node {
	return build.Node(name).CPU(fmt.Sprintf("%d100m", 2*slots)).Memory("32Gi").Pods(fmt.Sprint(slots+1)).Label(v1.LabelHostname, name).
		Zone(fmt.Sprintf("zone-%d", zone%3)).Obj()
}

func budget(app string, least, most *intstr.IntOrString) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: namespace}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	b.Spec.MinAvailable, b.Spec.MaxUnavailable = least, most
	return b
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: namespace} }

func template(app, cpu, class string) (*metav1.LabelSelector, v1.PodTemplateSpec) {
	labels := map[string]string{"app": app}
	t := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	p := build.Pod(app).CPU(cpu).Obj()
	p.Spec.Containers[0].Image = "image:1"
	t.Spec.Containers, t.Spec.PriorityClassName = p.Spec.Containers, class
	fillTemplate(&t.Spec)
	return &metav1.LabelSelector{MatchLabels: labels}, t
}

// fillTemplate adds much of what an API server fills in: none of it may be taken for a change.
func fillTemplate(s *v1.PodSpec) {
	c := &s.Containers[0]
	field := &v1.ObjectFieldSelector{FieldPath: "metadata.name"}
	c.Env = []v1.EnvVar{{Name: "NAME", ValueFrom: &v1.EnvVarSource{FieldRef: field}}}
	c.Ports = []v1.ContainerPort{{ContainerPort: 80}}
	c.LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
	c.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 81}}}
	c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
	c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
	s.Tolerations = []v1.Toleration{{Key: "a", Value: "b", Effect: v1.TaintEffectNoSchedule}}
	s.ServiceAccountName = "default"
	s.Volumes = []v1.Volume{
		{Name: "empty"},
		{Name: "map", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "m"}}}},
		{Name: "secret", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}},
		{Name: "path", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x"}}},
		{Name: "down", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{
			Items: []v1.DownwardAPIVolumeFile{{Path: "name", FieldRef: field.DeepCopy()}}}}},
		{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}}}}},
	}
}

func deployment(name string, replicas int32, class string) *appsv1.Deployment {
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta(name)}
	d.Spec.Selector, d.Spec.Template = template(name, "1", class)
	d.Spec.Replicas = &replicas
	return d
}

func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: meta(name)}
	s.Spec.Selector, s.Spec.Template = template(name, "1", "")
	// Pods of a node that is drained end together, and not one after the other has come again.
	s.Spec.Template.Annotations = map[string]string{"hollow.shardsched.io/stops-after": "500ms"}
	s.Spec.Replicas, s.Spec.ServiceName = &replicas, name
	return s
}

func daemonSet() *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}, ObjectMeta: meta("daemon")}
	d.Spec.Selector, d.Spec.Template = template("daemon", "100m", "high")
	return d
}

// newJob has pods that work for longer than any test takes.
func newJob(name string, pods, backoffLimit int32) *batchv1.Job {
	j := &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: meta(name)}
	_, j.Spec.Template = template(name, "1", "")
	j.Spec.Template.Spec.RestartPolicy = v1.RestartPolicyNever
	j.Spec.Template.Annotations = map[string]string{testbed.WorksFor: "24h"}
	j.Spec.Parallelism, j.Spec.BackoffLimit = &pods, &backoffLimit
	return j
}

// templateOf is that of a workload's pods.
func templateOf(obj runtime.Object) *v1.PodTemplateSpec {
	switch w := obj.(type) {
	case *appsv1.Deployment:
		return &w.Spec.Template
	case *appsv1.StatefulSet:
		return &w.Spec.Template
	case *appsv1.DaemonSet:
		return &w.Spec.Template
	case *batchv1.Job:
		return &w.Spec.Template
	}
	return nil
}

// put creates a workload, or gives the one that is there the spec.
func (c *cluster) put(obj runtime.Object) {
	c.T.Helper()
	apps := c.Admin.AppsV1()
	for {
		var err error
		ctx := c.Context()
		switch w := obj.(type) {
		case *appsv1.Deployment:
			if now, e := apps.Deployments(namespace).Get(ctx, w.Name, metav1.GetOptions{}); e == nil {
				now.Spec = w.Spec
				_, err = apps.Deployments(namespace).Update(ctx, now, metav1.UpdateOptions{})
			} else {
				_, err = apps.Deployments(namespace).Create(ctx, w, metav1.CreateOptions{})
			}
		case *appsv1.StatefulSet:
			if now, e := apps.StatefulSets(namespace).Get(ctx, w.Name, metav1.GetOptions{}); e == nil {
				now.Spec = w.Spec
				_, err = apps.StatefulSets(namespace).Update(ctx, now, metav1.UpdateOptions{})
			} else {
				_, err = apps.StatefulSets(namespace).Create(ctx, w, metav1.CreateOptions{})
			}
		case *appsv1.DaemonSet:
			if now, e := apps.DaemonSets(namespace).Get(ctx, w.Name, metav1.GetOptions{}); e == nil {
				now.Spec = w.Spec
				_, err = apps.DaemonSets(namespace).Update(ctx, now, metav1.UpdateOptions{})
			} else {
				_, err = apps.DaemonSets(namespace).Create(ctx, w, metav1.CreateOptions{})
			}
		case *batchv1.Job:
			jobs := c.Admin.BatchV1().Jobs(namespace)
			if now, e := jobs.Get(ctx, w.Name, metav1.GetOptions{}); e == nil {
				now.Spec.Parallelism, now.Spec.Suspend = w.Spec.Parallelism, w.Spec.Suspend
				_, err = jobs.Update(ctx, now, metav1.UpdateOptions{})
			} else {
				_, err = jobs.Create(ctx, w, metav1.CreateOptions{})
			}
		}
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			c.T.Fatal(err)
		}
	}
}

func (c *cluster) must(err error) {
	c.T.Helper()
	if err != nil {
		c.T.Fatal(err)
	}
}

// lists are what a dump holds, and what outcomes are read from.
func (c *cluster) lists() (all []runtime.Object, named map[string]runtime.Object) {
	c.T.Helper()
	ctx, core, apps, every := c.Context(), c.Admin.CoreV1(), c.Admin.AppsV1(), metav1.ListOptions{}
	named = map[string]runtime.Object{}
	add := func(kind, version string, obj runtime.Object) {
		obj.GetObjectKind().SetGroupVersionKind(schemaOf(version, kind))
		all = append(all, obj)
		named[kind+"/"+obj.(metav1.Object).GetName()] = obj
	}
	nodes, err := core.Nodes().List(ctx, every)
	c.must(err)
	for i := range nodes.Items {
		add("Node", "v1", &nodes.Items[i])
	}
	pods, err := core.Pods(namespace).List(ctx, every)
	c.must(err)
	for i := range pods.Items {
		add("Pod", "v1", &pods.Items[i])
	}
	deployments, err := apps.Deployments(namespace).List(ctx, every)
	c.must(err)
	for i := range deployments.Items {
		add("Deployment", "apps/v1", &deployments.Items[i])
	}
	sets, err := apps.ReplicaSets(namespace).List(ctx, every)
	c.must(err)
	for i := range sets.Items {
		add("ReplicaSet", "apps/v1", &sets.Items[i])
	}
	stateful, err := apps.StatefulSets(namespace).List(ctx, every)
	c.must(err)
	for i := range stateful.Items {
		add("StatefulSet", "apps/v1", &stateful.Items[i])
	}
	daemons, err := apps.DaemonSets(namespace).List(ctx, every)
	c.must(err)
	for i := range daemons.Items {
		add("DaemonSet", "apps/v1", &daemons.Items[i])
	}
	jobs, err := c.Admin.BatchV1().Jobs(namespace).List(ctx, every)
	c.must(err)
	for i := range jobs.Items {
		add("Job", "batch/v1", &jobs.Items[i])
	}
	budgets, err := c.Admin.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, every)
	c.must(err)
	for i := range budgets.Items {
		add("PodDisruptionBudget", "policy/v1", &budgets.Items[i])
	}
	classes, err := c.Admin.SchedulingV1().PriorityClasses().List(ctx, every)
	c.must(err)
	for i := range classes.Items {
		add("PriorityClass", "scheduling.k8s.io/v1", &classes.Items[i])
	}
	return all, named
}

// dump writes what `kubectl get -o json` would.
func (c *cluster) dump(i int) string {
	all, _ := c.lists()
	return c.write(fmt.Sprintf("cluster-%d.json", i), map[string]any{"apiVersion": "v1", "kind": "List", "items": all})
}

func (c *cluster) write(name string, content any) string {
	c.T.Helper()
	text, err := json.Marshal(content)
	c.must(err)
	file := filepath.Join(c.dir, name)
	c.must(os.WriteFile(file, text, 0o600))
	return file
}

// outcomes are the workloads', by their label app. Those that have no pods are left out.
func (c *cluster) outcomes() map[string]outcome {
	all, named := c.lists()
	return outcomesOf(all, named)
}

func outcomesOf(all []runtime.Object, named map[string]runtime.Object) map[string]outcome {
	out := map[string]outcome{}
	for _, obj := range all {
		p, ok := obj.(*v1.Pod)
		if !ok || p.Status.Phase == v1.PodFailed {
			continue
		}
		app := p.Labels["app"]
		o := out[app]
		if p.Spec.NodeName != "" {
			o.Placed++
		} else {
			o.Pending++
		}
		if image := imageOf(named, app); image != "" && p.Spec.Containers[0].Image != image {
			o.Old++
		}
		out[app] = o
	}
	return out
}

// imageOf is that of a workload's template.
func imageOf(named map[string]runtime.Object, app string) string {
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		if t := templateOf(named[kind+"/"+app]); t != nil {
			return t.Spec.Containers[0].Image
		}
	}
	return ""
}

// settle waits until nothing happens any more, and returns what has become of all workloads.
func (c *cluster) settle() map[string]outcome {
	c.T.Helper()
	deadline := c.Context()
	last, since := "", time.Now()
	for {
		all, named := c.lists()
		now := ""
		moving := false
		for _, obj := range all {
			m := obj.(metav1.Object)
			now += string(m.GetUID()) + m.GetResourceVersion() + " "
			moving = moving || isMoving(obj)
		}
		if now != last || moving {
			last, since = now, time.Now()
		}
		if time.Since(since) > quiet {
			return outcomesOf(all, named)
		}
		select {
		case <-deadline.Done():
			c.T.Fatalf("the cluster does not come to rest: %v", outcomesOf(all, named))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// isMoving tells whether an object is about to change.
func isMoving(obj runtime.Object) bool {
	switch obj := obj.(type) {
	case *v1.Pod:
		return obj.DeletionTimestamp != nil || obj.Spec.NodeName != "" && obj.Status.Phase != v1.PodRunning ||
			obj.Spec.NodeName == "" && !testbed.IsUnschedulable(obj)
	case *appsv1.Deployment:
		return obj.Status.ObservedGeneration < obj.Generation
	case *appsv1.ReplicaSet:
		return obj.Status.ObservedGeneration < obj.Generation || obj.Status.Replicas != *obj.Spec.Replicas
	case *appsv1.StatefulSet:
		return obj.Status.ObservedGeneration < obj.Generation
	case *appsv1.DaemonSet:
		return obj.Status.ObservedGeneration < obj.Generation
	case *batchv1.Job:
		if *obj.Spec.Suspend || hasFailed(obj) {
			return obj.Status.Active > 0
		}
		return obj.Status.Active != *obj.Spec.Parallelism
	}
	return false
}

func hasFailed(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobFailed })
}

// pair is a number before and after.
type pair struct{ Before, After int }

// answer is what is looked at of simulate's.
type answer struct {
	Change, Others []struct {
		Name            string
		What            string
		Placed, Pending pair
		Rollout         *struct{ Old int }
		Pods            []struct{ Node string }
	}
	Drains []struct {
		Left []struct{ Pod, Why string }
	}
	Preempted []struct{ Pods []string }
}

// agree tells whether a change has come to what simulate says. Where pods are pushed out, whose they are is chance: of pods that began in
// the same second any may be, and in a cluster the status of budgets lags behind the scheduler. Of workloads without a priority the pods
// with a node are compared in sum then.
func (c *cluster) agree(got, want map[string]outcome, told *answer) bool {
	if maps.Equal(got, want) {
		return true
	}
	out := 0
	for _, p := range told.Preempted {
		out += len(p.Pods)
	}
	if out == 0 {
		return false
	}
	c.T.Logf("%d pods are pushed out: got %v; simulate says %v", out, got, want)
	_, named := c.lists()
	return maps.Equal(inSum(got, named), inSum(want, named))
}

// inSum has the pods with a node of all workloads without a priority in one sum.
func inSum(all map[string]outcome, named map[string]runtime.Object) map[string]outcome {
	sum := map[string]outcome{}
	for app, o := range all {
		priority := false
		for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet", "Job"} {
			t := templateOf(named[kind+"/"+app])
			priority = priority || t != nil && t.Spec.PriorityClassName != ""
		}
		if priority {
			sum[app] = o
		} else {
			sum[""] = outcome{Placed: sum[""].Placed + o.Placed}
		}
	}
	return sum
}

func (a *answer) stays() bool {
	for _, d := range a.Drains {
		if len(d.Left) > 0 {
			return true
		}
	}
	return false
}

// simulate asks what becomes of the workloads: those that it does not tell of stay as they are.
func (c *cluster) simulate(i int, dump string, x *change, before map[string]outcome) (map[string]outcome, *answer) {
	c.T.Helper()
	args := append([]string{"simulate", "-f", dump, "-o", "json"}, x.flags...)
	if x.object != nil {
		args = append(args, "-f", c.write(fmt.Sprintf("change-%d.json", i), x.object))
	}
	ctx, cancel := context.WithTimeout(c.T.Context(), testbed.Patience)
	defer cancel()
	run := exec.CommandContext(ctx, c.program, args...)
	var errs bytes.Buffer
	run.Stderr = &errs
	out, err := run.Output()
	if failed := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &failed) || failed.ExitCode() != 2) {
		c.T.Fatalf("%v: %v\n%s", args, err, errs.String())
	}
	var a answer
	c.must(json.Unmarshal(out, &a))
	want := maps.Clone(before)
	for _, w := range slices.Concat(a.Change, a.Others) {
		o := outcome{Placed: w.Placed.After, Pending: w.Pending.After}
		if w.Rollout != nil {
			o.Old = w.Rollout.Old
		}
		if want[w.Name] = o; o.Placed+o.Pending == 0 {
			delete(want, w.Name)
		}
	}
	return want, &a
}

func schemaOf(version, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(version, kind)
}
