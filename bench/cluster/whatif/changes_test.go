package whatif

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	_, named := c.lists()
	var fixed, extra []string
	for _, key := range slices.Sorted(func(yield func(string) bool) {
		for key := range named {
			if !yield(key) {
				return
			}
		}
	}) {
		kind, name, _ := strings.Cut(key, "/")
		switch {
		case kind != "Deployment" && kind != "StatefulSet":
		case strings.HasPrefix(name, "extra-"):
			extra = append(extra, key)
		default:
			fixed = append(fixed, key)
		}
	}
	pick := func(keys []string) runtime.Object { return named[keys[c.random.IntN(len(keys))]] }
	switch n := c.random.IntN(12); {
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
	case n < 9 && (len(extra) == 0 || n < 8 && len(extra) < 3):
		return c.extra()
	case n < 9:
		return deletes(pick(extra).(*appsv1.Deployment).Name)
	}
	return drains(fmt.Sprintf("node-%d", c.random.IntN(nodes)))
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
	switch w := obj.(type) {
	case *appsv1.Deployment:
		d := deployment(w.Name, *w.Spec.Replicas, w.Spec.Template.Spec.PriorityClassName)
		d.Spec.Strategy = w.Spec.Strategy
		d.Spec.Template.Spec.Containers[0].Image = w.Spec.Template.Spec.Containers[0].Image
		return d
	case *appsv1.StatefulSet:
		s := statefulSet(w.Name, *w.Spec.Replicas)
		s.Spec.UpdateStrategy = w.Spec.UpdateStrategy
		s.Spec.Template.Spec.Containers[0].Image = w.Spec.Template.Spec.Containers[0].Image
		return s
	}
	return obj
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
	}
}

// retemplate draws another image and another update strategy, at times with another number of replicas.
func (c *cluster) retemplate(there runtime.Object, scaled bool) *change {
	obj := asked(there)
	image := c.image()
	var detail string
	switch w := obj.(type) {
	case *appsv1.Deployment:
		w.Spec.Template.Spec.Containers[0].Image = image
		if c.random.IntN(4) == 0 {
			w.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
			detail = "by Recreate"
			break
		}
		bounds := [][2]string{{"25%", "25%"}, {"1", "0"}, {"0", "1"}, {"50%", "1"}, {"100%", "0"}}[c.random.IntN(5)]
		surge, gone := intstr.Parse(bounds[0]), intstr.Parse(bounds[1])
		w.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &gone}}
		detail = fmt.Sprintf("by maxSurge %s, maxUnavailable %s", bounds[0], bounds[1])
	case *appsv1.StatefulSet:
		w.Spec.Template.Spec.Containers[0].Image = image
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
	x := puts("new", deployment(fmt.Sprintf("extra-%d", c.made), n, class))
	x.detail = strings.TrimSpace(fmt.Sprintf("of %d %s", n, class))
	return x
}

func deletes(name string) *change {
	return &change{kind: "delete", name: name, flags: []string{"--delete", "deployment/" + namespace + "/" + name},
		make: func(c *cluster) bool {
			background := metav1.DeletePropagationBackground
			c.must(c.Admin.AppsV1().Deployments(namespace).Delete(c.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}))
			c.gone(name)
			return false
		}}
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
	if x.kind == "drain" {
		c.cordon(x.name, false)
		c.settle()
	}
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
