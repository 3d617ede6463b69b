package rig

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// Case is a pod in a cluster, and where it goes.
type Case struct {
	// Name is a sentence.
	Name string
	// Profile is the pod's; empty: default-scheduler.
	Profile string
	// Cluster has the nodes and, after them, the pods that are on them.
	Cluster []runtime.Object
	// Pods are created one after the other, each when the one before has been decided.
	// Want is about the last one; the others must find a node.
	Pods []*v1.Pod
	// Want is its node, or the nodes that are equally good, with blanks between; empty: it
	// finds none.
	Want string
	// Message is what its condition says then, word for word, but for what plugins say that
	// look for a way out afterwards, such as preemption.
	Message string
	// After is what these say, word for word; empty: nothing.
	After string
}

// Run runs cases, each as a subtest on an empty cluster.
func (r *Rig) Run(t *testing.T, cases []Case) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { r.With(t).run(c) })
	}
}

func (r *Rig) run(c Case) {
	r.T.Helper()
	r.Create(c.Cluster...)
	if last := lastNode(c.Cluster); last != "" {
		r.Settle(last)
	}
	for i, p := range c.Pods {
		if c.Profile != "" {
			p.Spec.SchedulerName = c.Profile
		}
		r.Create(p)
		if key := p.Namespace + "/" + p.Name; i < len(c.Pods)-1 {
			r.Bound(key)
		} else {
			r.judge(key, c)
		}
	}
}

// judge compares what becomes of a pod with what the case wants.
func (r *Rig) judge(key string, c Case) {
	r.T.Helper()
	p := r.Until("are decided", IsDecided, key)[0]
	message := ""
	if condition := testbed.ScheduledCondition(p); p.Spec.NodeName == "" && condition != nil {
		message = condition.Reason + ": " + condition.Message
	}
	said, _ := strings.CutSuffix(message, " "+c.After)
	switch {
	case c.Want == "" && p.Spec.NodeName != "":
		r.T.Errorf("%s: got node %s, want none: %s", key, p.Spec.NodeName, c.Message)
	case c.Want == "" && said != "Unschedulable: "+c.Message || c.After != "" && said == message:
		r.T.Errorf("%s:\n got %s\nwant Unschedulable: %s %s", key, message, c.Message, c.After)
	case c.Want != "" && !slices.Contains(strings.Fields(c.Want), p.Spec.NodeName):
		r.T.Errorf("%s: got node %q %s, want %s", key, p.Spec.NodeName, message, c.Want)
	}
}

// lastNode is the name of the node that is created last.
func lastNode(objects []runtime.Object) string {
	for _, o := range slices.Backward(objects) {
		if n, ok := o.(*v1.Node); ok {
			return n.Name
		}
	}
	return ""
}

// IsDecided tells whether a pod has a node, or a scheduler's word that it gets none.
func IsDecided(p *v1.Pod) bool {
	if p == nil {
		return false
	}
	c := testbed.ScheduledCondition(p)
	return p.Spec.NodeName != "" || c != nil && c.Status == v1.ConditionFalse && c.Reason != v1.PodReasonSchedulingGated
}
