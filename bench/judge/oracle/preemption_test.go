package oracle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

func started(p *build.PodBuilder, at int64) *v1.Pod {
	pod := p.Obj()
	pod.Status.StartTime = &metav1.Time{Time: time.Unix(at, 0)}
	return pod
}

// budget protects pods by a label, of which so many may go.
func budget(name, key, value string, allowed int32) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	b.Spec.MinAvailable = ptr.To(intstr.FromInt32(1))
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	b.Status.DisruptionsAllowed = allowed
	return b
}

func preempt(t *testing.T, o *Oracle, pod *v1.Pod) (*Preemption, string) {
	t.Helper()
	p, err := o.Preempt(t.Context(), judge(t, o, pod))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, node := range p.Nodes() {
		out = append(out, fmt.Sprintf("%s %v %d", node, p.Candidates[node].Victims, p.Candidates[node].Violations))
	}
	return p, strings.Join(out, "\n")
}

func TestPreemptTellsAllCandidates(t *testing.T) {
	o := newTest(t, "",
		build.Node("a").CPU("2").Memory("4Gi").Pods("10").Obj(), build.Node("b").CPU("2").Memory("4Gi").Pods("10").Obj(),
		build.Node("c").CPU("500m").Memory("4Gi").Pods("10").Obj(), build.Node("d").CPU("2").Memory("4Gi").Pods("10").Obj(),
		started(build.Pod("a-old").CPU("1").Priority(1).Node("a"), 100), started(build.Pod("a-new").CPU("1").Priority(1).Node("a"), 200),
		started(build.Pod("b-kept").CPU("1").Priority(1).Label("app", "x").Node("b"), 300), started(build.Pod("b-important").CPU("1").Priority(50).Node("b"), 300),
		started(build.Pod("d").CPU("2").Priority(100).Node("d"), 100),
		budget("x", "app", "x", 0),
	)
	p, got := preempt(t, o, build.Pod("p").CPU("2").Priority(100).Obj())
	want := "a [default/a-old default/a-new] 0\nb [default/b-important default/b-kept] 1"
	if got != want || p.Message != "" || p.Best().Node != "a" {
		t.Errorf("got %s, message %q, best %v, want %s and a", got, p.Message, p.Best(), want)
	}
	p, got = preempt(t, o, build.Pod("p").CPU("1").Priority(60).Obj())
	want = "a [default/a-new] 0\nb [default/b-important] 0"
	if got != want || p.Best().Node != "a" {
		t.Errorf("got %s, best %v, want %s and a", got, p.Best(), want)
	}
}

func TestPreemptWordsWhyNot(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pod   *v1.Pod
		want  string
		clear bool
	}{
		{"never", func() *v1.Pod {
			p := build.Pod("p").CPU("2").Priority(9).Obj()
			p.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
			return p
		}(), "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.", false},
		{"nobody is less important", build.Pod("p").CPU("500m").Priority(1).Obj(),
			"no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.", true},
		{"no room even so", build.Pod("p").CPU("2").Priority(9).Obj(),
			"no new claims to deallocate, preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 Preemption is not helpful for scheduling.", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newTest(t, "", build.Node("a").CPU("2").Memory("4Gi").Pods("10").Obj(), build.Node("b").CPU("2").Memory("4Gi").Pods("10").Unschedulable().Obj(),
				build.Pod("a").CPU("500m").Priority(1).Node("a").Obj(), build.Pod("important").CPU("1500m").Priority(10).Node("a").Obj())
			if err := o.Set(tt.pod); err != nil {
				t.Fatal(err)
			}
			p, got := preempt(t, o, tt.pod)
			if got != "" || p.Message != tt.want || p.Clears != tt.clear {
				t.Errorf("got %s, %q, clears %t, want no candidates, %q, %t", got, p.Message, p.Clears, tt.want, tt.clear)
			}
		})
	}
}
