package whatif

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
)

// change is one that is made to the cluster, and asked of simulate.
type change struct {
	kind, name string
	object     runtime.Object // nil: flags say it all
	flags      []string
	make       func(*cluster) (stays bool)
	detail     string
}

func (x *change) String() string { return strings.TrimSpace(x.kind + " " + x.name + " " + x.detail) }

// draw draws a change.
func (c *cluster) draw() *change {
	all, named := c.lists()
	var fixed, extra, jobs, nodes []string
	for _, key := range slices.Sorted(maps.Keys(named)) {
		kind, name, _ := strings.Cut(key, "/")
		switch {
		case kind == "Node":
			nodes = append(nodes, name)
		case kind == "Job":
			jobs = append(jobs, key)
		case kind != "Deployment" && kind != "StatefulSet":
		case strings.HasPrefix(name, "extra-"):
			extra = append(extra, key)
		default:
			fixed = append(fixed, key)
		}
	}
	pick := func(keys []string) runtime.Object { return named[keys[c.random.IntN(len(keys))]] }
	switch n := c.random.IntN(22); {
	case n < 3:
		return c.scale(pick(fixed))
	case n < 5:
		return c.retemplate(pick(fixed), false)
	case n < 6:
		return c.retemplate(pick(fixed), true)
	case n < 7:
		d := daemonSet()
		d.Spec.Template.Spec.Containers[0].Image = c.image()
		return puts("daemon's template", d)
	case n < 9 && len(extra) < 3:
		return c.extra()
	case n < 9:
		return deletes("deployment", pick(extra).(*appsv1.Deployment).Name)
	case n < 10:
		return c.large()
	case n < 14 && len(jobs) == 0:
		return c.newJob()
	case n < 14:
		return c.changeJob(pick(jobs).(*batchv1.Job))
	case n < 16 && len(nodes) < 8:
		return c.addNodes(pick(fixed))
	}
	removed := len(nodes) > 5 && c.random.IntN(3) == 0
	for range nodes {
		if node := nodes[c.random.IntN(len(nodes))]; !races(all, node, removed) {
			if removed {
				return removes(node)
			}
			return drains(node)
		}
	}
	return c.scale(pick(fixed))
}

// races tells whether a change of a node has controllers race for room: where several lose pods at the same time, and there is not room
// enough for all, whose pods find room is chance. StatefulSets and Jobs are later than others, unless the node is gone and has nothing
// to stop.
func races(all []runtime.Object, node string, removed bool) bool {
	room, lost, losers := 0, 0, map[string]bool{}
	for _, obj := range all {
		switch obj := obj.(type) {
		case *v1.Node:
			if obj.Name != node {
				room += slots
			}
		case *v1.Pod:
			kind := metav1.GetControllerOf(obj).Kind
			switch {
			case kind == "DaemonSet":
			case obj.Spec.NodeName != node:
				room--
			case kind == "Job" || kind == "StatefulSet" && !removed:
				lost++
			default:
				lost++
				losers[obj.Labels["app"]] = true
			}
		}
	}
	return lost > room && len(losers) > 1
}

func (c *cluster) image() string {
	c.made++
	return fmt.Sprintf("image:%d", c.made+1)
}

func puts(kind string, obj runtime.Object) *change {
	return &change{kind: kind, name: obj.(metav1.Object).GetName(), object: obj, make: func(c *cluster) bool {
		c.put(obj)
		return false
	}}
}

// asked is a workload as a manifest has it, without what the API server has filled in.
func asked(obj runtime.Object) runtime.Object {
	var fresh runtime.Object
	there := templateOf(obj)
	switch w := obj.(type) {
	case *appsv1.Deployment:
		d := deployment(w.Name, *w.Spec.Replicas, there.Spec.PriorityClassName)
		d.Spec.Strategy = w.Spec.Strategy
		fresh = d
	case *appsv1.StatefulSet:
		s := statefulSet(w.Name, *w.Spec.Replicas)
		s.Spec.UpdateStrategy = w.Spec.UpdateStrategy
		fresh = s
	case *batchv1.Job:
		j := newJob(w.Name, *w.Spec.Parallelism, *w.Spec.BackoffLimit)
		j.Spec.Suspend = w.Spec.Suspend
		fresh = j
	}
	c := &templateOf(fresh).Spec.Containers[0]
	c.Image = there.Spec.Containers[0].Image
	c.Resources.Requests[v1.ResourceCPU] = there.Spec.Containers[0].Resources.Requests[v1.ResourceCPU]
	return fresh
}

// resize gives a workload's pods another size, of which a node has enough for all its slots.
func (c *cluster) resize(obj runtime.Object) (cpu string) {
	cpu = []string{"100m", "500m", "1", "1500m", "2"}[c.random.IntN(5)]
	templateOf(obj).Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(cpu)
	return cpu
}

// scale draws another number of replicas: at times more than there is room for.
func (c *cluster) scale(there runtime.Object) *change {
	obj := asked(there)
	n := int32(c.random.IntN(9))
	if c.random.IntN(4) == 0 {
		n = int32(15 + c.random.IntN(10))
	}
	replicasOf(obj, n)
	x := puts("scale", obj)
	x.detail = fmt.Sprintf("to %d", n)
	return x
}

func replicasOf(obj runtime.Object, n int32) {
	switch w := obj.(type) {
	case *appsv1.Deployment:
		w.Spec.Replicas = &n
	case *appsv1.StatefulSet:
		w.Spec.Replicas = &n
	case *batchv1.Job:
		w.Spec.Parallelism = &n
	}
}

// retemplate draws another image, size and update strategy, at times with another number of replicas.
func (c *cluster) retemplate(there runtime.Object, scaled bool) *change {
	obj := asked(there)
	templateOf(obj).Spec.Containers[0].Image = c.image()
	detail := "of " + c.resize(obj)
	switch w := obj.(type) {
	case *appsv1.Deployment:
		if c.random.IntN(4) == 0 {
			w.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
			detail += " by Recreate"
			break
		}
		bounds := [][2]string{{"25%", "25%"}, {"1", "0"}, {"0", "1"}, {"50%", "1"}, {"100%", "0"}}[c.random.IntN(5)]
		surge, gone := intstr.Parse(bounds[0]), intstr.Parse(bounds[1])
		w.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &gone}}
		detail += fmt.Sprintf(" by maxSurge %s, maxUnavailable %s", bounds[0], bounds[1])
	case *appsv1.StatefulSet:
		partition := int32(0)
		w.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}}
	}
	kind := "template"
	if scaled {
		kind = "template and scale"
		n := int32(1 + c.random.IntN(8))
		replicasOf(obj, n)
		detail += fmt.Sprintf(" to %d", n)
	}
	x := puts(kind, obj)
	x.detail = detail
	return x
}

// extra is a new Deployment, at times one whose pods preempt others.
func (c *cluster) extra() *change {
	c.made++
	class := ""
	if c.random.IntN(2) == 0 {
		class = "high"
	}
	n := int32(1 + c.random.IntN(8))
	d := deployment(fmt.Sprintf("extra-%d", c.made), n, class)
	x := puts("new", d)
	x.detail = fmt.Sprintf("%d pods of %s %s", n, c.resize(d), class)
	return x
}

// large is a new Deployment whose pods are so large that CPU decides how many find room, or larger than any node. relieve deletes it: how
// many find room once others have moved depends on where these are.
func (c *cluster) large() *change {
	c.made++
	n, cpu := int32(1+c.random.IntN(6)), []string{"3", "4", "5", "6", "64"}[c.random.IntN(5)]
	d := deployment(fmt.Sprintf("large-%d", c.made), n, "")
	d.Spec.Template.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(cpu)
	x := puts("new, large", d)
	x.detail = fmt.Sprintf("%d pods of %s", n, cpu)
	return x
}

// newJob is a new Job, of which at times no pod may fail.
func (c *cluster) newJob() *change {
	c.made++
	j := newJob(fmt.Sprintf("job-%d", c.made), int32(1+c.random.IntN(6)), int32([]int{0, 1, 6}[c.random.IntN(3)]))
	x := puts("new job", j)
	x.detail = fmt.Sprintf("%d pods of %s, of which %d may fail", *j.Spec.Parallelism, c.resize(j), *j.Spec.BackoffLimit)
	return x
}

// changeJob draws another number of pods for a Job, suspends or resumes it, or deletes it.
func (c *cluster) changeJob(there *batchv1.Job) *change {
	j := asked(there).(*batchv1.Job)
	switch c.random.IntN(4) {
	case 0:
		return deletes("job", j.Name)
	case 1:
		j.Spec.Suspend = new(!*there.Spec.Suspend)
		x := puts("suspended job", j)
		x.detail = fmt.Sprint(*j.Spec.Suspend)
		return x
	}
	n := int32(c.random.IntN(8))
	replicasOf(j, n)
	x := puts("scaled job", j)
	x.detail = fmt.Sprintf("to %d", n)
	return x
}

func deletes(kind, name string) *change {
	return &change{kind: "delete " + kind, name: name, flags: []string{"--delete", kind + "/" + namespace + "/" + name},
		make: func(c *cluster) bool {
			c.delete(kind, name)
			return false
		}}
}

// delete deletes a workload with its pods.
func (c *cluster) delete(kind, name string) {
	background := metav1.DeletePropagationBackground
	how := metav1.DeleteOptions{PropagationPolicy: &background}
	if kind == "job" {
		c.must(c.Admin.BatchV1().Jobs(namespace).Delete(c.Context(), name, how))
	} else {
		c.must(c.Admin.AppsV1().Deployments(namespace).Delete(c.Context(), name, how))
	}
	c.gone(name)
}

// addNodes adds one or two nodes, and scales a workload, mostly to more than there was room for.
func (c *cluster) addNodes(there runtime.Object) *change {
	c.made++
	base, count := fmt.Sprintf("more-%d", c.made), 1+c.random.IntN(2)
	model := hollowNode(base, c.random.IntN(3))
	model.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	x := c.scale(there)
	scale := x.make
	x.kind = fmt.Sprintf("%d nodes and scale", count)
	x.flags = []string{"--add-nodes", fmt.Sprintf("%d=%s", count, c.write(base+".json", model))}
	x.make = func(c *cluster) bool {
		for i := range count {
			n := model.DeepCopy()
			n.Name = fmt.Sprintf("%s-%d", base, i+1)
			n.Labels[v1.LabelHostname] = n.Name
			c.Create(n)
		}
		c.settle()
		return scale(c)
	}
	return x
}

func removes(node string) *change {
	return &change{kind: "remove", name: node, flags: []string{"--remove-node", node}, make: func(c *cluster) bool {
		c.must(c.Admin.CoreV1().Nodes().Delete(c.Context(), node, metav1.DeleteOptions{}))
		c.collect(node)
		return false
	}}
}

// collect does with the pods of a node that is gone what the pod garbage collector does 40 s later: they have failed, and are deleted at
// once. The collector itself would have the test need half of a kubelet.
func (c *cluster) collect(node string) {
	all, _ := c.lists()
	var g errgroup.Group
	for _, obj := range all {
		p, ok := obj.(*v1.Pod)
		if !ok || p.Spec.NodeName != node {
			continue
		}
		g.Go(func() error {
			pods := c.Admin.CoreV1().Pods(namespace)
			patch := []byte(`{"status": {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]}}`)
			if _, err := pods.Patch(c.T.Context(), p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
				return err
			}
			err := pods.Delete(c.T.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
	c.must(g.Wait())
}

// gone waits until a workload has no pods any more.
func (c *cluster) gone(app string) {
	for {
		if _, any := c.outcomes()[app]; !any {
			return
		}
		select {
		case <-c.T.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func drains(node string) *change {
	return &change{kind: "drain", name: node, flags: []string{"--drain", node}, make: func(c *cluster) bool {
		c.cordon(node, true)
		return c.drain(node)
	}}
}

// cordon changes whether a node takes pods.
func (c *cluster) cordon(node string, to bool) {
	c.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := c.Admin.CoreV1().Nodes().Get(c.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Spec.Unschedulable = to
		_, err = c.Admin.CoreV1().Nodes().Update(c.Context(), n, metav1.UpdateOptions{})
		return err
	}))
}

// drain evicts a node's pods as kubectl does, side by side, until none is left or the cluster is at rest and nobody may go.
func (c *cluster) drain(node string) (stays bool) {
	for {
		left, evicted := 0, atomic.Int32{}
		all, _ := c.lists()
		var g errgroup.Group
		for _, obj := range all {
			p, ok := obj.(*v1.Pod)
			if !ok || p.Spec.NodeName != node || p.Labels["app"] == "daemon" {
				continue
			}
			if left++; p.DeletionTimestamp != nil {
				continue
			}
			g.Go(func() error {
				err := c.Admin.PolicyV1().Evictions(namespace).Evict(c.T.Context(), &policyv1.Eviction{ObjectMeta: meta(p.Name)})
				switch {
				case err == nil:
					evicted.Add(1)
				case !apierrors.IsTooManyRequests(err) && !apierrors.IsNotFound(err):
					return err
				}
				return nil
			})
		}
		c.must(g.Wait())
		switch {
		case left == 0:
			return false
		case evicted.Load() == 0:
			c.settle()
			if !c.canGo(node) && c.why != "" {
				c.T.Logf("drain of %s: %s", node, c.why)
				return true
			}
		}
	}
}

// canGo tells whether a pod of the node may be evicted now.
func (c *cluster) canGo(node string) bool {
	c.why = ""
	all, _ := c.lists()
	for _, obj := range all {
		p, ok := obj.(*v1.Pod)
		if !ok || p.Spec.NodeName != node || p.Labels["app"] == "daemon" {
			continue
		}
		err := c.Admin.PolicyV1().Evictions(namespace).Evict(c.Context(), &policyv1.Eviction{ObjectMeta: meta(p.Name),
			DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}})
		if err == nil {
			return true
		}
		c.why = fmt.Sprintf("%s: %v", p.Name, err)
	}
	return false
}

// relieve makes room after a change that left pods pending, so that the next one does not depend on which of them is tried first.
func (c *cluster) relieve(x *change) {
	switch {
	case x.kind == "drain":
		c.cordon(x.name, false)
		c.settle()
	case x.kind == "new, large":
		c.delete("deployment", x.name)
		c.settle()
	}
	c.forgetJobs()
	for {
		_, named := c.lists()
		out := c.outcomes()
		pending := ""
		for app, o := range out {
			if o.Pending > 0 && app > pending {
				pending = app
			}
		}
		if pending == "" {
			break
		}
		for _, kind := range []string{"Deployment", "StatefulSet"} {
			if there := named[kind+"/"+pending]; there != nil {
				obj := asked(there)
				n := int32(out[pending].Placed)
				if kind == "StatefulSet" || out[pending].Old > 0 {
					n = 0 // others wait for the pod that pends, or a rollout is stuck
				}
				replicasOf(obj, n)
				c.put(obj)
			}
		}
		c.settle()
	}
}

// forgetJobs deletes Jobs that have lost pods, for each one more is made later than the one before, and those whose pods pend.
func (c *cluster) forgetJobs() {
	all, _ := c.lists()
	out := c.outcomes()
	for _, obj := range all {
		if j, ok := obj.(*batchv1.Job); ok && (j.Status.Failed > 0 || hasFailed(j) || out[j.Name].Pending > 0) {
			c.delete("job", j.Name)
			c.settle()
		}
	}
}
