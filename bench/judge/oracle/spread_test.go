package oracle

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// spread gives a pod constraints.
func spread(p *v1.Pod, list ...v1.TopologySpreadConstraint) *v1.Pod {
	p.Spec.TopologySpreadConstraints = list
	return p
}

func by(key string, when v1.UnsatisfiableConstraintAction, change ...func(*v1.TopologySpreadConstraint)) v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: selectWeb()}
	for _, f := range change {
		f(&c)
	}
	return c
}

func TestSpreadHard(t *testing.T) {
	const zone, hard = v1.LabelTopologyZone, v1.DoNotSchedule
	tainted := node("b", "south").Taint("broken:NoSchedule").Obj()
	hold(t, []verdict{
		{name: "a zone that is ahead, and a node in none", objects: append(three(), web("x", "a")), pod: spread(web("p", ""), by(zone, hard)), want: `
			a PodTopologySpread: node(s) didn't match pod topology spread constraints
			b fits
			c PodTopologySpread: node(s) didn't match pod topology spread constraints (missing required label) (for good)
		`},
		{name: "a pod that goes does not count", objects: append(three(), terminating(web("x", "a"))), pod: spread(web("p", ""), by(zone, hard)), want: `
			a fits
			b fits
			c PodTopologySpread: node(s) didn't match pod topology spread constraints (missing required label) (for good)
		`},
		{name: "too few domains", objects: append(three()[:2], web("x", "a")), pod: spread(web("p", ""), by(zone, hard, func(c *v1.TopologySpreadConstraint) { c.MinDomains = ptr.To[int32](3) })), want: `
			a PodTopologySpread: node(s) didn't match pod topology spread constraints
			b fits
		`},
		{name: "an empty selector counts nobody, but the pod itself", objects: append(three()[:2], web("x", "a"), web("y", "a")), pod: spread(web("p", ""), by(zone, hard, func(c *v1.TopologySpreadConstraint) { c.LabelSelector = &metav1.LabelSelector{} })), want: `
			a fits
			b fits
		`},
		{name: "no selector, not even that", objects: append(three()[:2], web("x", "a"), web("y", "a")), pod: spread(web("p", ""), by(zone, hard, func(c *v1.TopologySpreadConstraint) { c.LabelSelector = nil })), want: `
			a fits
			b fits
		`},
		{name: "a tainted node makes the minimum", objects: []Object{node("a", "north").Obj(), tainted, web("x", "a")}, pod: spread(web("p", ""), by(zone, hard)), want: `
			a PodTopologySpread: node(s) didn't match pod topology spread constraints
			b TaintToleration: node(s) had untolerated taint(s) (for good)
		`},
		{name: "unless taints are honoured", objects: []Object{node("a", "north").Obj(), tainted, web("x", "a")}, pod: spread(web("p", ""), by(zone, hard, func(c *v1.TopologySpreadConstraint) { c.NodeTaintsPolicy = ptr.To(v1.NodeInclusionPolicyHonor) })), want: `
			a fits
			b TaintToleration: node(s) had untolerated taint(s) (for good)
		`},
		{name: "a node that the selector leaves out makes no minimum", objects: []Object{node("a", "north").Label("disk", "ssd").Obj(), node("b", "south").Obj(), web("x", "a")},
			pod: spread(build.Pod("p").Label("app", "web").NodeSelector("disk", "ssd").Obj(), by(zone, hard)), want: `
			a fits
			b NodeAffinity: node(s) didn't match Pod's node affinity/selector (for good)
		`},
		{name: "unless affinity is ignored", objects: []Object{node("a", "north").Label("disk", "ssd").Obj(), node("b", "south").Obj(), web("x", "a")},
			pod: spread(build.Pod("p").Label("app", "web").NodeSelector("disk", "ssd").Obj(), by(zone, hard, func(c *v1.TopologySpreadConstraint) { c.NodeAffinityPolicy = ptr.To(v1.NodeInclusionPolicyIgnore) })), want: `
			a PodTopologySpread: node(s) didn't match pod topology spread constraints
			b NodeAffinity: node(s) didn't match Pod's node affinity/selector (for good)
		`},
		{name: "a label told by its key alone", objects: append(three()[:2], build.Pod("x").Label("app", "web").Label("v", "1").Node("a").Obj()),
			pod: spread(build.Pod("p").Label("app", "web").Label("v", "2").Obj(), by(zone, hard, func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"v"} })), want: `
			a fits
			b fits
		`},
	})
}

func TestSpreadSoft(t *testing.T) {
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: appsv1.ReplicaSetSpec{Selector: selectWeb()}}
	owned := web("p", "")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: ptr.To(true)}}
	hold(t, []verdict{
		{name: "a node in no zone is left out of it", plugin: "PodTopologySpread", objects: append(three(), web("x", "a"), web("y", "a")), pod: spread(web("p", ""), by(v1.LabelTopologyZone, v1.ScheduleAnyway)), want: `
			a 3 0
			b 0 100
			c 0 0
		`},
		{name: "by default not, and only with a service", plugin: "PodTopologySpread", objects: append(three(), web("x", "a"), web("y", "a"), service), pod: web("p", ""), want: `
			a 12 16
			b 6 66
			c 2 100
		`},
		{name: "or an owner", plugin: "PodTopologySpread", objects: append(three(), web("x", "a"), web("y", "a"), set), pod: owned, want: `
			a 12 16
			b 6 66
			c 2 100
		`},
		{name: "without either there is nothing", plugin: "PodTopologySpread", objects: append(three(), web("x", "a"), web("y", "a")), pod: owned, want: `
			a 0 0
			b 0 0
			c 0 0
		`},
		{name: "a list of defaults may be hard", config: `profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List,
			defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}}]}]`,
			objects: append(three(), web("x", "a"), service), pod: web("p", ""), want: `
			a PodTopologySpread: node(s) didn't match pod topology spread constraints
			b fits
			c PodTopologySpread: node(s) didn't match pod topology spread constraints (missing required label) (for good)
		`},
	})
}
