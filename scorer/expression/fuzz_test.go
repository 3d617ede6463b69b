package expression

import (
	"testing"
)

// FuzzExpression holds residuals of any text to what the whole comes to.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{
		"node.labels['zone'] in pod.annotations['zones'].split(',')", "pod.labels['tier'] == 'a' ? node.pods < 3 : node.unschedulable",
		"node.taints.all(t, pod.tolerations.exists(o, o.key == t.key))", "100.0 * (node.free['cpu'] / node.allocatable['cpu'])",
		"{'a': 1}.exists(k, k == node.labels['zone'])", "pod.labels[?'zone'].optMap(v, v + 'x').orValue(node.name) == 'nx'",
		"[1, 2].sum() > 2 && !(node.name.find('[a-z]') == 'n')", "cel.bind(x, pod.labels, x.all(k, k in node.labels))", "quantity('1.5e3Ki').sign() == 1",
		"timestamp('2020-01-01T00:00:00Z') < timestamp(pod.annotations['zone'])", "'%s'.format([pod.labels]) == node.name",
	} {
		f.Add(text, "a", "7")
	}
	f.Fuzz(func(t *testing.T, text, a, b string) {
		p := &Pod{Name: a, Labels: map[string]string{"zone": a, "tier": b}, Annotations: map[string]string{"zones": a + "," + b, "zone": b}, Priority: 3,
			Tolerations: []Toleration{{Key: a}}, Requests: map[string]Quantity{"cpu": Whole(1)}}
		n := &fakeNode{name: "n", labels: map[string]string{"zone": "a", "disk": b}, annotations: map[string]string{}, taints: [][3]string{{a, b, "NoSchedule"}},
			allocatable: map[string]int64{"cpu": 4000}, requested: map[string]int64{"cpu": 1000}, pods: 2}
		for _, kind := range []Kind{Filter, Score} {
			tmpl, err := Compile(text, kind)
			if err != nil {
				continue
			}
			r, err := tmpl.Residual(tmpl.Ask(p))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			got := r.Eval(n)
			if again := r.Eval(n); again != got {
				t.Fatalf("%s: got %+v, then %+v", text, got, again)
			}
			if there := overWire(t, tmpl, r).Eval(n); there != got {
				t.Fatalf("%s: got %+v, over the wire %+v", text, got, there)
			}
			if want := direct(t, text, kind, p, n); got.Failed == "" && !same(got, want) {
				t.Fatalf("%s: got %+v, the whole expression comes to %+v", text, got, want)
			}
		}
	})
}

// FuzzQuantity holds that what is read is written so that it is read as the same.
func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"1", "1500m", "1.5", "4Gi", "2e3", "-1n", "9E", "0.0000000001", "+5u", "1e-9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := ParseQuantity(s)
		if err != nil {
			return
		}
		again, err := ParseQuantity(q.String())
		if err != nil || again != q {
			t.Fatalf("%q is %s, which is %s, %v", s, q, again, err)
		}
	})
}
