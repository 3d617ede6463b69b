package compile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// hugeExponent finds quantities that apimachinery's own parser may take for ever over.
// The largest that it does parse stand in TestUsageCountsAsNodeInfoDoes.
func hugeExponent() *regexp.Regexp { return regexp.MustCompile(`[eE][+-]?[0-9]{4,}`) }

// FuzzPod holds that no pod makes compiling panic, and that what comes out is
// valid.
func FuzzPod(f *testing.F) {
	for _, p := range []*v1.Pod{
		build.Pod("p").Obj(),
		build.Pod("p").CPU("1500u").Memory("1.5Gi").Request("nvidia.com/gpu", "2").Sidecar("s", "cpu", "1").
			Overhead("cpu", "1").PodLevel("memory", "1e18").HostPort("10.0.0.1", "UDP", 53).Image("app").Obj(),
		build.Pod("p").NodeSelector("a", "b").Toleration("k=v:NoSchedule").
			Required(build.Names("a"), build.Labels(build.Match("x", v1.NodeSelectorOpGt, "5"))).
			Preferred(7, build.Labels(build.Match("x", "Is", "5"))).Obj(),
		neighbourly(),
		infeasible(resized(build.Pod("p").CPU("-4").Obj(), cpu("1e30"), cpu("8E"))),
	} {
		data, err := json.Marshal(p)
		if err != nil {
			f.Fatalf("marshal: want no error, got %v", err)
		}
		f.Add(data)
	}
	c, prof, huge := New(), DefaultProfile("x"), hugeExponent()
	f.Fuzz(func(t *testing.T, data []byte) {
		var p v1.Pod
		if huge.Match(data) || json.Unmarshal(data, &p) != nil {
			return // no pod
		}
		if err := Usage(&p).Validate(); err != nil {
			t.Errorf("usage of %s: want it to be valid, got %v", data, err)
		}
		w := EmptyCluster(still{"app:latest": 1 << 62})
		w.Counters().Carry(&p)
		again, wantErr := New().Class(&p, prof, w)
		class, err := c.Class(&p, prof, w)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("class of %s: want error %v, got %v", data, wantErr, err)
		}
		if err != nil || class.Rejected != nil {
			return
		}
		if err := class.Query.Validate(); err != nil {
			t.Errorf("query of %s: want it to be valid, got %v", data, err)
		}
		if definition(again) != definition(class) {
			t.Errorf("class of %s, by a compiler that knows other pods: want %v, got %v", data, again.Query, class.Query)
		}
	})
}

// neighbourly is a pod with a constraint and terms of all kinds.
func neighbourly() *v1.Pod {
	p := build.Pod("p").Label("app", "web").Obj()
	s := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Exists"}}}
	term := v1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: s, Namespaces: []string{"other"}, NamespaceSelector: s}
	required, preferred := []v1.PodAffinityTerm{term}, []v1.WeightedPodAffinityTerm{{Weight: 7, PodAffinityTerm: term}}
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
		{TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: s, MatchLabelKeys: []string{"app"}},
		{TopologyKey: v1.LabelHostname, MaxSkew: -1, WhenUnsatisfiable: v1.ScheduleAnyway},
	}
	p.Spec.Affinity = &v1.Affinity{
		PodAffinity:     &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: preferred},
		PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: preferred},
	}
	return p
}

// FuzzNode holds the same of nodes.
func FuzzNode(f *testing.F) {
	for _, n := range []*v1.Node{
		build.Node("a").Obj(),
		build.Node("a").CPU("4").Memory("1e30").Resource("nvidia.com/gpu", "-1").Label("zone", "z").
			Taint("k=v:NoSchedule").Unschedulable().Image(-5, "app", "").Obj(),
	} {
		data, err := json.Marshal(n)
		if err != nil {
			f.Fatalf("marshal: want no error, got %v", err)
		}
		f.Add(data)
	}
	huge := hugeExponent()
	f.Fuzz(func(t *testing.T, data []byte) {
		var n v1.Node
		if huge.Match(data) || json.Unmarshal(data, &n) != nil || n.Name == "" || !usable(n.Name) {
			return // no node
		}
		if err := Node(&n).Validate(); err != nil {
			t.Errorf("node of %s: want it to be valid, got %v", data, err)
		}
	})
}
