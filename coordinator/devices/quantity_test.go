package devices

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

func TestQuantitiesKeepTheirValue(t *testing.T) {
	for _, text := range []string{"0", "1", "1500m", "1n", "999999999n", "-1", "-1500m", "1Gi", "0.5Gi", "9223372036854775807", "-9223372036854775808", "1e3", "18E", "7Ei"} {
		q := resource.MustParse(text)
		m := amountOf(&q)
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		back := quantityOf(m)
		if back.Cmp(q) != 0 || back.Format != q.Format || back.String() != q.String() {
			t.Errorf("%s comes back as %s %s", text, back.String(), back.Format)
		}
	}
}

func TestQuantitiesOfAnySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		scale := resource.Scale(rapid.IntRange(-9, 0).Draw(t, "scale"))
		q := *resource.NewScaledQuantity(n, scale)
		m := amountOf(&q)
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		if back := quantityOf(m); back.Cmp(q) != 0 {
			t.Fatalf("%s comes back as %s", q.String(), back.String())
		}
		more := q.DeepCopy()
		more.Add(resource.MustParse("1n"))
		if a, b := amountOf(&more), m; a.High < b.High || a.High == b.High && a.Low <= b.Low {
			t.Fatalf("%s and a billionth is %v, and %v without", q.String(), a, b)
		}
	})
}

func TestQuantitiesBeyondTheLargest(t *testing.T) {
	q := resource.MustParse("9E")
	for range 40 {
		q.Add(q)
	}
	m := amountOf(&q)
	if m.High != 1<<36 || m.Low != 0 {
		t.Errorf("%v", m)
	}
	q.Neg()
	if m = amountOf(&q); m.High != -1<<36 || m.Low != 0 {
		t.Errorf("%v", m)
	}
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
}
