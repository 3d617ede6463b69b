package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"
)

// TestExpand reads objects and prints the pods of the workloads among them. With
// "full" all that controllers add is shown, else names and nodes.
func TestExpand(t *testing.T) {
	datadriven.Walk(t, "testdata/expand", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var all []runtime.Object
			var nodes []*v1.Node
			for _, text := range strings.Split(d.Input, "\n---\n") {
				obj, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
				if err != nil {
					return err.Error()
				}
				all = append(all, obj)
				if n, ok := obj.(*v1.Node); ok {
					nodes = append(nodes, n)
				}
			}
			x := New(nodes, all)
			var b strings.Builder
			for _, obj := range all {
				errs := Validate(obj)
				for _, e := range append(errs, Oddities(obj)...) {
					fmt.Fprintf(&b, "%s\n", e)
				}
				if len(errs) > 0 {
					continue
				}
				made := x.Expand(obj)
				for _, rs := range made.ReplicaSets {
					describeReplicaSet(&b, rs, d.HasArg("full"))
				}
				for _, p := range made.Pods {
					describe(&b, p, d.HasArg("full"))
				}
				for _, c := range made.Claims {
					describeClaim(&b, c, d.HasArg("full"))
				}
			}
			if b.Len() == 0 {
				return "no pods\n"
			}
			return b.String()
		})
	})
}

func describeReplicaSet(b *strings.Builder, rs *appsv1.ReplicaSet, full bool) {
	fmt.Fprintf(b, "replicaset %s/%s\n", rs.Namespace, rs.Name)
	if full {
		fmt.Fprintf(b, "  %d of %s, owned by %s %s (%s), uid %s\n", *rs.Spec.Replicas, metav1.FormatLabelSelector(rs.Spec.Selector),
			rs.OwnerReferences[0].Kind, rs.OwnerReferences[0].Name, rs.OwnerReferences[0].UID, rs.UID)
	}
}

func describeClaim(b *strings.Builder, c *v1.PersistentVolumeClaim, full bool) {
	fmt.Fprintf(b, "claim %s/%s\n", c.Namespace, c.Name)
	for _, by := range c.OwnerReferences {
		fmt.Fprintf(b, "  owned by %s %s\n", by.Kind, by.Name)
	}
	if full {
		fmt.Fprintf(b, "  labels %s\n", labels.FormatLabels(c.Labels))
	}
}

func describe(b *strings.Builder, p *v1.Pod, full bool) {
	fmt.Fprintf(b, "%s/%s", p.Namespace, p.Name)
	if node := TargetNode(p); node != "" {
		fmt.Fprintf(b, " for %s", node)
	}
	b.WriteByte('\n')
	if !full {
		return
	}
	ref := p.OwnerReferences[0]
	fmt.Fprintf(b, "  generateName %q, owned by %s %s %s (%s, controller %v)\n", p.GenerateName, ref.APIVersion, ref.Kind, ref.Name, ref.UID, *ref.Controller)
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		fmt.Fprintf(b, "  label %s=%s\n", key, p.Labels[key])
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		fmt.Fprintf(b, "  annotation %s=%s\n", key, p.Annotations[key])
	}
	if p.Spec.Hostname != "" {
		fmt.Fprintf(b, "  hostname %s.%s\n", p.Spec.Hostname, p.Spec.Subdomain)
	}
	for _, v := range p.Spec.Volumes {
		claim := "no claim"
		if v.PersistentVolumeClaim != nil {
			claim = v.PersistentVolumeClaim.ClaimName
		}
		fmt.Fprintf(b, "  volume %s: %s\n", v.Name, claim)
	}
	for _, x := range p.Spec.Tolerations {
		fmt.Fprintf(b, "  tolerates %s %s:%s\n", x.Key, x.Operator, x.Effect)
	}
	for _, e := range p.Spec.Containers[0].Env {
		fmt.Fprintf(b, "  env %s from %s\n", e.Name, e.ValueFrom.FieldRef.FieldPath)
	}
}

// TestEndingsAreUnique holds that no two pods of one owner share a name.
func TestEndingsAreUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEndings(rapid.String().Draw(t, "owner"))
		i := rapid.IntRange(0, endingCount-1).Draw(t, "i")
		j := rapid.IntRange(0, endingCount-1).Draw(t, "j")
		if i != j && e.at(i) == e.at(j) {
			t.Fatalf("got %s for both %d and %d, want two", e.at(i), i, j)
		}
		if got := e.at(i); len(got) != endingLength || strings.Trim(got, letters) != "" {
			t.Fatalf("got ending %q, want %d of %s", got, endingLength, letters)
		}
	})
}

func TestPriorities(t *testing.T) {
	never := v1.PreemptNever
	class := func(name string, value int32, global bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: global, PreemptionPolicy: &never}
	}
	p := NewPriorities([]*schedulingv1.PriorityClass{class("high", 1000, false), class("base", 7, true), class("base2", 5, true)})
	set := int32(3)
	tests := []struct {
		name  string
		class string
		has   *int32
		want  int32
		known bool
	}{
		{"a class of the input", "high", nil, 1000, true},
		{"a system class", "system-node-critical", nil, 2_000_001_000, true},
		{"the other system class", "system-cluster-critical", nil, 2_000_000_000, true},
		{"no class takes the lowest default", "", nil, 5, true},
		{"an unknown class is 0", "gone", nil, 0, false},
		{"a priority that is set stays", "gone", &set, 3, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{PriorityClassName: test.class, Priority: test.has}}
			known := p.Resolve(pod)
			if known != test.known || *pod.Spec.Priority != test.want {
				t.Errorf("got %d, %v, want %d, %v", *pod.Spec.Priority, known, test.want, test.known)
			}
			if test.class == "high" && *pod.Spec.PreemptionPolicy != never {
				t.Errorf("got preemption policy %s, want %s", *pod.Spec.PreemptionPolicy, never)
			}
		})
	}
}

func TestUIDsAreStable(t *testing.T) {
	if got, want := UID("Pod", "default", "a"), UID("Pod", "default", "a"); got != want {
		t.Errorf("got %s and %s for one name", got, want)
	}
	if a, b := UID("Pod", "x", "y"), UID("Pod", "y", "x"); a == b {
		t.Errorf("got %s for two names", a)
	}
}
