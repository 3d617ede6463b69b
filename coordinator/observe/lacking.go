package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Lacking counts the pending pods that ask for what shardsched has not got, or bounds, in steps.
type Lacking struct {
	queue Queue
	pods  walk[*queue.Pod]
	what  map[string]*pb.LackingPods
}

// NewLacking makes a count that is to be read.
func NewLacking(q Queue) *Lacking { return &Lacking{queue: q, what: map[string]*pb.LackingPods{}} }

// Read is how it is read.
func (x *Lacking) Read() Read {
	return Read{Step: func() bool { return x.pods.some(x.queue.All(), podsAtOnce, func(p *queue.Pod) { x.add(p.Obj) }) }, End: x.pods.end}
}

func (x *Lacking) add(p *v1.Pod) {
	for _, what := range Lacks(p) {
		l := x.what[what]
		if l == nil {
			l = &pb.LackingPods{What: what}
			x.what[what] = l
		}
		name := p.Namespace + "/" + p.Name
		if l.Pods++; l.Example == "" || name < l.Example {
			l.Example = name
		}
	}
}

// Answer is what was counted, that of most pods first.
func (x *Lacking) Answer() []*pb.LackingPods {
	return slices.SortedFunc(maps.Values(x.what), func(a, b *pb.LackingPods) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.What, b.What))
	})
}

// Lacks are what a pod asks for that shardsched has not got, or more than its bounds.
func Lacks(p *v1.Pod) (list []string) {
	if p.Spec.SchedulingGroup != nil {
		list = append(list, "spec.schedulingGroup: pods are scheduled one by one")
	}
	keys, terms := map[string]bool{}, 0
	take := func(key string) {
		keys[key] = true
		terms++
	}
	for i := range p.Spec.TopologySpreadConstraints {
		take(p.Spec.TopologySpreadConstraints[i].TopologyKey)
	}
	required := func(of []v1.PodAffinityTerm) {
		for i := range of {
			take(of[i].TopologyKey)
		}
	}
	preferred := func(of []v1.WeightedPodAffinityTerm) {
		for i := range of {
			take(of[i].PodAffinityTerm.TopologyKey)
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		required(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		preferred(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		required(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		preferred(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if len(keys) > compile.OwnKeys || terms > compile.OwnTerms {
		list = append(list, fmt.Sprintf("more than %d topology keys, or %d spread constraints and pod affinity terms: "+
			"an error of each attempt, if nodes have the keys", compile.OwnKeys, compile.OwnTerms))
	}
	if len(p.Spec.ResourceClaims) > devices.MaxClaims {
		list = append(list, fmt.Sprintf("more than %d resource claims: no node takes it", devices.MaxClaims))
	}
	return list
}
