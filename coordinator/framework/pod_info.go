package framework

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// PodInfo is a view of a pod. What it adds to the pod is computed when first asked for. Any
// goroutine may use it.
type PodInfo struct {
	pod *v1.Pod

	readTerms sync.Once
	terms     affinityTerms
	bad       error // of terms that can not be read

	readHeld sync.Once
	held     fwk.PodResource
}

var _ fwk.PodInfo = (*PodInfo)(nil)

// affinityTerms are a pod's.
type affinityTerms struct {
	affinity, anti                   []fwk.AffinityTerm
	preferredAffinity, preferredAnti []fwk.WeightedAffinityTerm
}

// NewPodInfo views a pod. The error tells of affinity terms that can not be read; the view can be
// used all the same, without them.
func NewPodInfo(p *v1.Pod) (*PodInfo, error) {
	i := viewOf(p)
	i.read()
	return i, i.bad
}

// viewOf views a pod; terms that can not be read are left out.
func viewOf(p *v1.Pod) *PodInfo { return &PodInfo{pod: p} }

// GetPod is part of fwk.PodInfo.
func (i *PodInfo) GetPod() *v1.Pod { return i.pod }

// GetRequiredAffinityTerms is part of fwk.PodInfo.
func (i *PodInfo) GetRequiredAffinityTerms() []fwk.AffinityTerm { return i.read().affinity }

// GetRequiredAntiAffinityTerms is part of fwk.PodInfo.
func (i *PodInfo) GetRequiredAntiAffinityTerms() []fwk.AffinityTerm { return i.read().anti }

// GetPreferredAffinityTerms is part of fwk.PodInfo.
func (i *PodInfo) GetPreferredAffinityTerms() []fwk.WeightedAffinityTerm {
	return i.read().preferredAffinity
}

// GetPreferredAntiAffinityTerms is part of fwk.PodInfo.
func (i *PodInfo) GetPreferredAntiAffinityTerms() []fwk.WeightedAffinityTerm {
	return i.read().preferredAnti
}

// CalculateResource is part of fwk.PodInfo: what the pod holds of its node.
func (i *PodInfo) CalculateResource() fwk.PodResource {
	i.readHeld.Do(func() {
		requests, nonZero := compile.Held(i.pod)
		i.held = fwk.PodResource{
			Resource: NewResource(requests),
			Non0CPU:  compile.Amount(v1.ResourceCPU, nonZero[v1.ResourceCPU]),
			Non0Mem:  compile.Amount(v1.ResourceMemory, nonZero[v1.ResourceMemory]),
		}
	})
	return i.held
}

// read gives the terms.
func (i *PodInfo) read() *affinityTerms {
	i.readTerms.Do(func() {
		if i.pod.Spec.Affinity != nil {
			i.terms, i.bad = readTerms(i.pod)
		}
	})
	return &i.terms
}

func readTerms(p *v1.Pod) (t affinityTerms, bad error) {
	a := p.Spec.Affinity
	var preferred, preferredAnti []v1.WeightedPodAffinityTerm
	if a.PodAffinity != nil {
		preferred = a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if a.PodAntiAffinity != nil {
		preferredAnti = a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	var errs []error
	note := func(field string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", field, err))
		}
	}
	var err error
	t.affinity, err = fwk.GetAffinityTerms(p, fwk.GetPodAffinityTerms(a))
	note("requiredAffinityTerms", err)
	t.anti, err = fwk.GetAffinityTerms(p, fwk.GetPodAntiAffinityTerms(a))
	note("requiredAntiAffinityTerms", err)
	t.preferredAffinity, err = fwk.GetWeightedAffinityTerms(p, preferred)
	note("preferredAffinityTerms", err)
	t.preferredAnti, err = fwk.GetWeightedAffinityTerms(p, preferredAnti)
	note("preferredAntiAffinityTerms", err)
	return t, utilerrors.NewAggregate(errs)
}

// hasAffinity tells whether a pod has terms of either kind, preferred ones included.
func hasAffinity(p *v1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// hasRequiredAnti tells whether a pod has required anti-affinity.
func hasRequiredAnti(p *v1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}
