package scripted

import (
	"context"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// SortName is the name of Sort.
const SortName = "Sort"

// Sort orders the queue by priority, script/order and the time in which pods came.
type Sort struct{}

var _ fwk.QueueSortPlugin = Sort{}

// NewSort makes one.
func NewSort(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return Sort{}, nil }

// Name is the plugin's name.
func (Sort) Name() string { return SortName }

// Less is part of fwk.QueueSortPlugin.
func (Sort) Less(a, b fwk.QueuedPodInfo) bool {
	pa, pb := a.GetPodInfo().GetPod(), b.GetPodInfo().GetPod()
	if x, y := priority(pa), priority(pb); x != y {
		return x > y
	}
	if x, y := order(pa), order(pb); x != y {
		return x < y
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

func order(p *v1.Pod) int {
	n, _ := strconv.Atoi(p.Annotations[Prefix+"order"])
	return n
}
