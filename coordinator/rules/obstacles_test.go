package rules

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/census"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// A pod may ask for so much that to hold it against every node would hold up the loop: it is told in less.
func TestPodsThatAskForVeryMuchAreNotHeldAgainstNodes(t *testing.T) {
	prof := DefaultProfile(v1.DefaultSchedulerName)
	terms := func(terms, values int) *v1.Pod {
		p := build.Pod("p").CPU("1").Obj()
		required := &v1.NodeSelector{}
		for range terms {
			r := v1.NodeSelectorRequirement{Key: "disk", Operator: v1.NodeSelectorOpIn}
			for i := range values {
				r.Values = append(r.Values, fmt.Sprint("v", i))
			}
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{r}})
		}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
		return p
	}
	resources, tolerations, selector := build.Pod("r"), build.Pod("t").CPU("1").Obj(), build.Pod("s").CPU("1").Obj()
	selector.Spec.NodeSelector = map[string]string{}
	for i := range census.MaxDemandParts + 1 {
		resources = resources.Request(fmt.Sprint("example.com/r", i), "1")
		tolerations.Spec.Tolerations = append(tolerations.Spec.Tolerations, v1.Toleration{Key: fmt.Sprint("k", i), Operator: v1.TolerationOpExists})
		selector.Spec.NodeSelector[fmt.Sprint("k", i)] = "v"
	}
	for name, c := range map[string]struct {
		pod     *v1.Pod
		watched bool
	}{
		"one term":         {terms(1, 1), true},
		"names many nodes": {terms(1, 1000), true},
		"many terms":       {terms(census.MaxDemandParts, 1), false},
		"very many values": {terms(1, 100*census.MaxDemandParts), false},
		"many resources":   {resources.Obj(), false},
		"many tolerations": {tolerations, false},
		"many labels":      {selector, false},
	} {
		asked := Asked{Pod: c.pod, Profile: prof, Nodes: census.New(), Reasons: []string{"Insufficient cpu"}}
		Watch(asked.Nodes, c.pod, prof)
		asked.Nodes.Add(build.Node("n").CPU("1").Obj())
		if watched := asked.demand() != nil; watched != c.watched {
			t.Errorf("%s: held against nodes: %v, want %v", name, watched, c.watched)
		}
		if got := fitWants(&asked); len(got) != 1 || got[0].Cause == "" {
			t.Errorf("%s: got %v, want a cause", name, got)
		}
		if got := affinityWants(&asked); len(got) != 1 || got[0].Cause == "" || len(got[0].Cause) > 2*maxNamed*maxWord {
			t.Errorf("%s: got %v, want a short cause", name, got)
		}
	}
}

// Of a requirement that names more values than a census counts it is not told how many nodes meet it.
func TestARequirementOfVeryManyValuesIsNotCounted(t *testing.T) {
	r := v1.NodeSelectorRequirement{Key: "disk", Operator: v1.NodeSelectorOpIn}
	for i := range census.MaxNamed + 1 {
		r.Values = append(r.Values, fmt.Sprint("v", i))
	}
	c := census.New()
	c.WatchLabel(r.Key, r.Values...)
	c.Add(build.Node("n").Label(r.Key, r.Values[census.MaxNamed]).Obj())
	if n, known := meeting(c, &r); known {
		t.Errorf("got %d nodes, want that it is not known", n)
	}
	r.Values = r.Values[:census.MaxNamed]
	if n, known := meeting(c, &r); !known || n != 0 {
		t.Errorf("one value less: got %d nodes, %v; want none", n, known)
	}
}
