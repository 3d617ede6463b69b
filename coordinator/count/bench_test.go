package count

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/selector"
)

// workloads brings counters of ten thousand workloads of one namespace into use, each
// spread by its label, and each with pods that repel each other.
func workloads(r *Registry) {
	for i := range 10000 {
		r.Spread("default", selector.Equal(map[string]string{"app": fmt.Sprint("app-", i)}))
		r.Carry(repelling(i))
	}
}

// member is a pod of a workload; each has a label of its own.
func member(workload, i int) *v1.Pod {
	p := &v1.Pod{}
	p.Namespace, p.Name = "default", fmt.Sprintf("app-%d-%d", workload, i)
	p.Labels = map[string]string{
		"app": fmt.Sprint("app-", workload), "pod-template-hash": "5d4f6b7c8", "team": "a",
		"statefulset.kubernetes.io/pod-name": p.Name, "apps.kubernetes.io/pod-index": fmt.Sprint(i),
	}
	return p
}

func repelling(workload int) *v1.Pod {
	p := member(workload, 0)
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey:   v1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("app-", workload)}},
		}},
	}}
	return p
}

// BenchmarkContributions is what every pod costs that is placed or seen.
func BenchmarkContributions(b *testing.B) {
	for _, bench := range []struct {
		name string
		pod  func(i int) *v1.Pod
	}{
		{"nothing counts it", func(int) *v1.Pod {
			return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Labels: map[string]string{"app": "x"}}}
		}},
		{"one of many workloads", func(int) *v1.Pod { return member(7, 0) }},
		{"each with a label of its own", func(i int) *v1.Pod { return member(7, i) }},
		{"with a term", func(int) *v1.Pod { return repelling(7) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := New()
			workloads(r)
			pods := make([]*v1.Pod, 1000)
			for i := range pods {
				pods[i] = bench.pod(i)
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				r.Contributions(pods[i%len(pods)])
				i++
			}
		})
	}
}

// BenchmarkMatching is what every pod costs that is to be scheduled.
func BenchmarkMatching(b *testing.B) {
	r, l := New(), &land{labels: map[string]map[string]string{"default": {"kubernetes.io/metadata.name": "default"}}}
	workloads(r)
	pods := make([]*v1.Pod, 1000)
	for i := range pods {
		pods[i] = member(7, i)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if m := r.Matching(pods[i%len(pods)], l); m == nil || len(m.Terms) != 1 {
			b.Fatalf("want one term, got %v", m)
		}
		i++
	}
}

// BenchmarkAmongManyWorkloads is a pod of a workload that none was seen of before.
func BenchmarkAmongManyWorkloads(b *testing.B) {
	r := New()
	workloads(r)
	pods := make([]*v1.Pod, 10000)
	for i := range pods {
		pods[i] = member(i, 0)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		r.Contributions(pods[i%len(pods)])
		i++
	}
}
