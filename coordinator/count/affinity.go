package count

import (
	"encoding/binary"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/shardsched/shardsched/coordinator/selector"
)

// Affinity is what a pod says about being near to other pods, read as upstream reads it.
type Affinity struct {
	// Required and Anti are the required terms of affinity and anti-affinity.
	Required, Anti []AffinityTerm
	// Preferred are the preferred terms of both; those of anti-affinity have a weight
	// below zero.
	Preferred []AffinityTerm
	// HasPreferred tells whether the pod has preferred terms, readable or not.
	HasPreferred bool
	// Err tells which lists can not be read. They are empty then; the others count.
	Err error
}

// AffinityTerm is one term.
type AffinityTerm struct {
	// Names are the namespaces that the term names, sorted; the pod's own where it says
	// nothing about namespaces.
	Names []string
	// Namespaces is the namespaceSelector: Nothing where there is none.
	Namespaces  *selector.Selector
	Selector    *selector.Selector
	TopologyKey string
	// Weight is that of a preferred term.
	Weight int64
}

// HasAffinity tells whether a pod has terms at all.
func HasAffinity(p *v1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// ReadAffinity reads a pod's terms.
func ReadAffinity(p *v1.Pod) *Affinity {
	out := &Affinity{}
	lists := affinityLists(p)
	var errs []error
	read := func(name string, list []v1.WeightedPodAffinityTerm, sign int64) []AffinityTerm {
		terms, err := readTerms(p.Namespace, list, sign)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return terms
	}
	out.Required = read("requiredAffinityTerms", lists[0], 0)
	out.Anti = read("requiredAntiAffinityTerms", lists[1], 0)
	out.Preferred = read("preferredAffinityTerms", lists[2], 1)
	out.Preferred = append(out.Preferred, read("preferredAntiAffinityTerms", lists[3], -1)...)
	out.HasPreferred = len(lists[2])+len(lists[3]) > 0
	out.Err = utilerrors.NewAggregate(errs)
	return out
}

// affinityLists are the required affinity, the required anti-affinity, the preferred
// affinity and the preferred anti-affinity.
func affinityLists(p *v1.Pod) (out [4][]v1.WeightedPodAffinityTerm) {
	a := p.Spec.Affinity
	if a == nil {
		return out
	}
	if a := a.PodAffinity; a != nil {
		out[0], out[2] = weightless(a.RequiredDuringSchedulingIgnoredDuringExecution), a.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if a := a.PodAntiAffinity; a != nil {
		out[1], out[3] = weightless(a.RequiredDuringSchedulingIgnoredDuringExecution), a.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return out
}

func weightless(list []v1.PodAffinityTerm) []v1.WeightedPodAffinityTerm {
	out := make([]v1.WeightedPodAffinityTerm, len(list))
	for i := range list {
		out[i].PodAffinityTerm = list[i]
	}
	return out
}

// maxWeight is the most that a preferred term weighs.
//
// Differs from upstream: a weight below 0 counts as 0 and one above 100 as 100; no API
// server lets either through.
const maxWeight = 100

func readTerms(namespace string, list []v1.WeightedPodAffinityTerm, sign int64) ([]AffinityTerm, error) {
	var out []AffinityTerm
	for i := range list {
		t := &list[i].PodAffinityTerm
		s, err := selector.New(t.LabelSelector)
		if err != nil {
			return nil, err
		}
		namespaces, err := selector.New(t.NamespaceSelector)
		if err != nil {
			return nil, err
		}
		names := slices.Clone(t.Namespaces)
		if len(names) == 0 && t.NamespaceSelector == nil {
			names = []string{namespace}
		}
		slices.Sort(names)
		out = append(out, AffinityTerm{
			Names:       slices.Compact(names),
			Namespaces:  namespaces,
			Selector:    s,
			TopologyKey: t.TopologyKey,
			Weight:      sign * int64(min(max(list[i].Weight, 0), maxWeight)),
		})
	}
	return out, nil
}

// AppendAffinity writes everything that ReadAffinity reads of a pod: pods with equal bytes
// have equal affinities.
func AppendAffinity(into []byte, p *v1.Pod) []byte {
	if !HasAffinity(p) {
		return append(into, 0)
	}
	into = selector.AppendText(append(into, 1), p.Namespace)
	if a := p.Spec.Affinity.PodAffinity; a != nil {
		into = appendTerms(into, a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	} else {
		into = append(into, 0, 0)
	}
	if a := p.Spec.Affinity.PodAntiAffinity; a != nil {
		return appendTerms(into, a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return append(into, 0, 0)
}

func appendTerms(into []byte, required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) []byte {
	into = binary.AppendUvarint(into, uint64(len(required)))
	for i := range required {
		into = appendTerm(into, &required[i])
	}
	into = binary.AppendUvarint(into, uint64(len(preferred)))
	for i := range preferred {
		into = binary.AppendVarint(into, int64(preferred[i].Weight))
		into = appendTerm(into, &preferred[i].PodAffinityTerm)
	}
	return into
}

func appendTerm(into []byte, t *v1.PodAffinityTerm) []byte {
	into = selector.AppendText(into, t.TopologyKey)
	into = binary.AppendUvarint(into, uint64(len(t.Namespaces)))
	for _, name := range t.Namespaces {
		into = selector.AppendText(into, name)
	}
	return selector.Append(selector.Append(into, t.NamespaceSelector), t.LabelSelector)
}
