package workload

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
)

// defaultRange is a LimitRange with its own defaults: a container's default limit is its max, and its default request is that limit, or
// else its min.
func defaultRange(r *v1.LimitRange) *v1.LimitRange {
	r = r.DeepCopy()
	for i := range r.Spec.Limits {
		item := &r.Spec.Limits[i]
		if item.Type == v1.LimitTypeContainer {
			fill(&item.Default, item.Max)
			fill(&item.DefaultRequest, item.Default)
			fill(&item.DefaultRequest, item.Min)
		}
	}
	return r
}

// fill copies to list what it lacks of from.
func fill(list *v1.ResourceList, from v1.ResourceList) {
	for name, q := range from {
		if _, has := (*list)[name]; has {
			continue
		}
		if *list == nil {
			*list = v1.ResourceList{}
		}
		(*list)[name] = q.DeepCopy()
	}
}

// fillContainers gives a pod's containers a range's default requests and limits.
func fillContainers(p *v1.Pod, r *v1.LimitRange) {
	for _, item := range r.Spec.Limits {
		if item.Type != v1.LimitTypeContainer {
			continue
		}
		for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				fill(&list[i].Resources.Limits, item.Default)
				fill(&list[i].Resources.Requests, item.DefaultRequest)
			}
		}
	}
}

// checkRange holds a pod, and each of its containers, against a range's bounds.
func checkRange(p *v1.Pod, r *v1.LimitRange) (refused []Remark) {
	spec := field.NewPath("spec")
	for _, item := range r.Spec.Limits {
		switch item.Type {
		case v1.LimitTypeContainer:
			refused = append(refused, checkContainers(p.Spec.InitContainers, spec.Child("initContainers"), r, item)...)
			refused = append(refused, checkContainers(p.Spec.Containers, spec.Child("containers"), r, item)...)
		case v1.LimitTypePod:
			o := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
			b := bounds{r, item, spec, resourcehelper.PodRequests(p, o), resourcehelper.PodLimits(p, o)}
			refused = append(refused, b.all()...)
		}
	}
	return refused
}

func checkContainers(list []v1.Container, at *field.Path, r *v1.LimitRange, item v1.LimitRangeItem) (refused []Remark) {
	for i, c := range list {
		b := bounds{r, item, at.Index(i).Child("resources"), c.Resources.Requests, c.Resources.Limits}
		refused = append(refused, b.all()...)
	}
	return refused
}

// bounds are an item of a range and what is held against it.
type bounds struct {
	r                *v1.LimitRange
	item             v1.LimitRangeItem
	at               *field.Path
	requests, limits v1.ResourceList
}

func (b bounds) all() []Remark { return slices.Concat(b.least(), b.most(), b.ratio()) }

func (b bounds) refuse(list, name, format string, args ...any) Remark {
	return Remark{b.at.Child(list).Key(name), fmt.Sprintf("LimitRange %s: ", b.r.Name) + fmt.Sprintf(format, args...)}
}

// least wants a request of min or more, and no limit below it.
func (b bounds) least() (refused []Remark) {
	for _, name := range sorted(b.item.Min) {
		least := b.item.Min[name]
		request, has := b.requests[name]
		limit, limited := b.limits[name]
		switch {
		case !has:
			refused = append(refused, b.refuse("requests", string(name), "there is none, and at least %s is wanted", &least))
		case request.Cmp(least) < 0:
			refused = append(refused, b.refuse("requests", string(name), "%s is less than %s", &request, &least))
		case limited && limit.Cmp(least) < 0:
			refused = append(refused, b.refuse("limits", string(name), "%s is less than %s", &limit, &least))
		}
	}
	return refused
}

// most wants a limit of max or less, and no request above it.
func (b bounds) most() (refused []Remark) {
	for _, name := range sorted(b.item.Max) {
		most := b.item.Max[name]
		request := b.requests[name]
		limit, limited := b.limits[name]
		switch {
		case !limited:
			refused = append(refused, b.refuse("limits", string(name), "there is none, and at most %s is allowed", &most))
		case limit.Cmp(most) > 0:
			refused = append(refused, b.refuse("limits", string(name), "%s is more than %s", &limit, &most))
		case request.Cmp(most) > 0:
			refused = append(refused, b.refuse("requests", string(name), "%s is more than %s", &request, &most))
		}
	}
	return refused
}

// mostRequested wants a request of max or less, for claims, which have no limits.
func (b bounds) mostRequested() (refused []Remark) {
	for _, name := range sorted(b.item.Max) {
		most := b.item.Max[name]
		if request, has := b.requests[name]; !has || request.Cmp(most) > 0 {
			refused = append(refused, b.refuse("requests", string(name), "%s is more than %s", &request, &most))
		}
	}
	return refused
}

// ratio wants a limit of so many times the request at the most.
func (b bounds) ratio() (refused []Remark) {
	for _, name := range sorted(b.item.MaxLimitRequestRatio) {
		most := b.item.MaxLimitRequestRatio[name]
		request, limit := b.requests[name], b.limits[name]
		switch {
		case request.IsZero():
			refused = append(refused, b.refuse("requests", string(name), "there is none, and the limit may be %s times as much", &most))
		case limit.IsZero():
			refused = append(refused, b.refuse("limits", string(name), "there is none, and at most %s times the request is allowed", &most))
		case limit.AsApproximateFloat64() > request.AsApproximateFloat64()*most.AsApproximateFloat64():
			refused = append(refused, b.refuse("limits", string(name), "%s is more than %s times the request, %s", &limit, &most, &request))
		}
	}
	return refused
}

func sorted(list v1.ResourceList) []v1.ResourceName { return slices.Sorted(maps.Keys(list)) }
