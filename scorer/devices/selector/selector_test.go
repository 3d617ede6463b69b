package selector

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/scorer/devices"
)

func TestAmountsAreQuantities(t *testing.T) {
	for _, text := range []string{
		"0", "1", "-1", "100m", "1n", "1500m", "10Gi", "1536Mi", "100Ti", "8191Pi", "-3Ki", "12E", "1e3", "12e6", "9223372036854775807",
		"1E", "-9223372036854775808", "123456789012345678901", "100u",
	} {
		q := resource.MustParse(text)
		back := Quantity(Amount(q))
		if back.Cmp(q) != 0 || back.String() != q.String() || back.Format != q.Format {
			t.Errorf("%s: got %s, %s", text, back.String(), back.Format)
		}
	}
}

func TestLargeQuantitiesAreClamped(t *testing.T) {
	largest := devices.MaxAmount(devices.DecimalSI)
	for _, text := range []string{"1e30", "1e100000", "2000000000000E"} {
		if got := Amount(resource.MustParse(text)); got.Compare(largest) != 0 {
			t.Errorf("%s: got %+v, want %+v", text, got, largest)
		}
		if got := Amount(resource.MustParse("-" + text)); got.Plus(largest).Compare(devices.Amount{}) != 0 {
			t.Errorf("-%s: got %+v", text, got)
		}
	}
}

func TestAmountsAreOrderedAsQuantities(t *testing.T) {
	quantities := rapid.Custom(func(t *rapid.T) resource.Quantity {
		suffix := rapid.SampledFrom([]string{"", "n", "u", "m", "k", "Mi", "G", "Ti", "e2"}).Draw(t, "suffix")
		return resource.MustParse(fmt.Sprint(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "n"), suffix))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := quantities.Draw(t, "a"), quantities.Draw(t, "b")
		if got, want := Amount(a).Compare(Amount(b)), a.Cmp(b); got != want {
			t.Fatalf("%s to %s: got %d, want %d", a.String(), b.String(), got, want)
		}
		if got, want := Amount(a).Ceil(), a.Value(); a.Sign() >= 0 && got != want { // below zero upstream rounds down
			t.Fatalf("%s rounded up: got %d, want %d", a.String(), got, want)
		}
		sum := a.DeepCopy()
		sum.Add(b)
		if got := Amount(a).Plus(Amount(b)); got.Compare(Amount(sum)) != 0 {
			t.Fatalf("%s and %s: got %+v, want %s", a.String(), b.String(), got, sum.String())
		}
	})
}

func TestWhatExpressionsRead(t *testing.T) {
	for expression, want := range map[string]string{
		`device.driver == "d"`:       "",
		`true`:                       "",
		`device.attributes["d"].a`:   "d/a",
		`device.attributes.d.a == 1`: "d/a",
		`has(device.attributes["d"].a) && device.attributes["e.x"]["b"] == "c"`: "d/a e.x/b",
		`device.capacity["d"].memory.compareTo(quantity("1Gi")) > 0`:            "",
		`[1, 2].exists(x, x == device.attributes["d"].a)`:                       "d/a",
		`{"k": device.attributes["d"].a}["k"] == 1`:                             "d/a",
		`device.attributes["d"].a.startsWith("x")`:                              "d/a",
		`"a" in device.attributes["d"]`:                                         "any",
		`device.attributes[device.driver].a == 1`:                               "any",
		`device.attributes["d"].?a.orValue(1) == 1`:                             "any",
		`cel.bind(d, device.attributes["d"], d.a == 1)`:                         "any",
		`device.attributes.exists(k, k == "d")`:                                 "any",
		`device.nothing`:                                                        "",
	} {
		names, known := NewCompiler().Compile(expression).Reads()
		got := strings.Join(names, " ")
		if !known {
			got = "any"
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", expression, got, want)
		}
	}
}

// content is a device of gpu.example.com with attributes such as model=a, numa=1, fast=true, version=v1.2.3, odd=?.
func content(words ...string) *devices.Content {
	c := &devices.Content{Driver: "gpu.example.com"}
	for _, w := range words {
		name, text, _ := strings.Cut(w, "=")
		v := devices.Value{Kind: devices.ValueString, Text: text}
		switch {
		case text == "?":
			v = devices.Value{}
		case text == "true":
			v = devices.Value{Kind: devices.ValueBool, Int: 1}
		case strings.HasPrefix(text, "v"):
			v = devices.Value{Kind: devices.ValueVersion, Text: text[1:]}
		case len(text) == 1 && text[0] <= '9':
			v = devices.Value{Kind: devices.ValueInt, Int: int64(text[0] - '0')}
		}
		c.Attributes = append(c.Attributes, devices.Attribute{Name: name, Value: v})
	}
	slices.SortFunc(c.Attributes, func(a, b devices.Attribute) int { return strings.Compare(a.Name, b.Name) })
	return c
}

func TestJudgements(t *testing.T) {
	const own = `device.attributes["gpu.example.com"]`
	for _, c := range []struct {
		expression string
		content    *devices.Content
		want       string
	}{
		{own + `.model == "a"`, content("model=a"), "match"},
		{own + `.model == "a"`, content("model=b"), "no"},
		{own + `.model == "a"`, content(), "CEL runtime error: no such key: model"},
		{`device.attributes["other"].?model.hasValue()`, content("model=a"), "no"},
		{own + `.version.isGreaterThan(semver("1.0.0"))`, content("version=v1.2.3"), "match"},
		{own + `.fast`, content("fast=true"), "match"},
		{own + `.numa`, content("numa=1"), "CEL runtime error: " +
			"CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool"},
		{`true`, content("odd=?"), "CEL runtime error: attribute odd: unsupported attribute value"},
		{`true`, content("version=v1"), "CEL runtime error: attribute version: parse semantic version: No Major.Minor.Patch elements found"},
		{`true`, content("a=v1", "b=?"), "CEL runtime error: attribute a: parse semantic version: No Major.Minor.Patch elements found"},
		{`device.driver`, content(), "CEL compile error: must evaluate to bool or the unknown type, not string"},
		{`device.allowMultipleAllocations`, content(), "no"},
	} {
		selector := NewCompiler().Compile(c.expression)
		for range 2 { // judged, and remembered
			j := selector.Judge(c.content)
			got := j.Error
			if got == "" {
				got = map[bool]string{true: "match", false: "no"}[j.Match]
			}
			if got != c.want {
				t.Errorf("%s on %v: got %q, want %q", c.expression, c.content.Attributes, got, c.want)
			}
		}
	}
}

func TestCostsAreThoseOfAnEvaluation(t *testing.T) {
	s := NewCompiler().Compile(`device.attributes["gpu.example.com"].model == "a"`)
	first := s.Judge(content("model=a"))
	if second := s.Judge(content("model=a", "uuid=x")); first.Cost == 0 || second != first {
		t.Errorf("got %+v and %+v, want one cost", first, second)
	}
}

func TestMemoryOfJudgementsIsBounded(t *testing.T) {
	s := NewCompiler().Compile(`"model" in device.attributes["gpu.example.com"]`).(*selector)
	for i := range MaxJudgements + 10 {
		s.Judge(content(fmt.Sprintf("uuid=%dx", i)))
	}
	if n := len(s.byContent); n != 10 {
		t.Errorf("got %d judgements kept, want 10", n)
	}
}

func TestMemoryOfExpressionsIsBounded(t *testing.T) {
	c := NewCompiler()
	before := c.Compile("1 == 0")
	if c.Compile("1 == 0") != before {
		t.Error("an expression was compiled twice")
	}
	for i := range MaxExpressions {
		c.Compile(fmt.Sprintf("%d == 1", i))
	}
	if c.kept.Len() > MaxExpressions || c.Compile("1 == 0") == before {
		t.Errorf("got %d expressions kept, want at most %d, the last used", c.kept.Len(), MaxExpressions)
	}
}

func TestGoroutinesShareACompiler(t *testing.T) {
	c := NewCompiler()
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for i := range 50 {
				s := c.Compile(`device.attributes["gpu.example.com"].model == "a"`)
				if j := s.Judge(content("model=a", fmt.Sprintf("uuid=%d", i%7))); !j.Match {
					t.Errorf("got %+v, want a match", j)
				}
			}
		})
	}
	wait.Wait()
}
