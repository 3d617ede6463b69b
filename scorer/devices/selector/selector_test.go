package selector

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

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
	if second := s.Judge(content("model=a", "uuid=x")); first.Steps == 0 || second != first {
		t.Errorf("got %+v and %+v, want one cost", first, second)
	}
}

func TestMemoryOfJudgementsIsBounded(t *testing.T) {
	c := NewCompiler()
	s := c.Compile(`"model" in device.attributes["gpu.example.com"]`)
	for i := range MaxJudgements + 10 {
		s.Judge(content(fmt.Sprintf("uuid=%dx", i)))
	}
	if n := c.judgements.Load(); n != 9 {
		t.Errorf("got %d judgements kept, want 9", n)
	}
}

func TestMemoryOfExpressionsIsBounded(t *testing.T) {
	c := NewCompiler()
	first := c.Compile("1 == 0")
	if first.Judge(content()).Match || c.kept.Len() != 1 {
		t.Fatalf("got %d expressions kept, want one that does not match", c.kept.Len())
	}
	for i := range MaxExpressions {
		c.Compile(fmt.Sprintf("%d == 1", i)).Judge(content())
	}
	if _, kept := c.peek("1 == 0"); c.kept.Len() != MaxExpressions || kept || first.(*selector).last.Load().program != nil {
		t.Errorf("got %d expressions kept, want %d, the last used", c.kept.Len(), MaxExpressions)
	}
	if first.Judge(content()).Match { // compiled once more
		t.Error("1 == 0 matches")
	}
	long := strings.Repeat(" ", maxCompiledBytes/textBytes/4)
	for i := range 8 {
		c.Compile(fmt.Sprintf("%d == 1%s", i, long)).Judge(content())
	}
	if c.kept.Len() > 4 || c.kept.Bytes() > maxCompiledBytes {
		t.Errorf("got %d long expressions of %d bytes kept, want at most %d bytes", c.kept.Len(), c.kept.Bytes(), maxCompiledBytes)
	}
}

func TestLongExpressionsAreCompiledBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCompiler()
		long, short := c.Compile(strings.Repeat(" ", 100)+"true"), c.Compile("true")
		if ready, bytes := short.Ready(4); !ready || bytes != 4 {
			t.Errorf("a short one: got %t, %d bytes compiled", ready, bytes)
		}
		if ready, bytes := short.Ready(4); !ready || bytes != 0 {
			t.Errorf("a short one, once more: got %t, %d bytes compiled", ready, bytes)
		}
		if ready, _ := long.Ready(4); ready {
			t.Error("a long one is compiled at once")
		}
		synctest.Wait()
		if ready, _ := long.Ready(4); !ready {
			t.Error("a long one is never compiled")
		}
		for i := range 3 * MaxExpressions { // the last that was asked for comes first, and all that is kept is bounded
			c.Compile(fmt.Sprintf("%d == 1", i)).Ready(0)
		}
		c.mu.Lock()
		wanted := len(c.wanted)
		c.mu.Unlock()
		if wanted > MaxExpressions {
			t.Errorf("%d expressions wait to be compiled, want at most %d", wanted, MaxExpressions)
		}
		synctest.Wait()
		if ready, _ := c.Compile(fmt.Sprintf("%d == 1", 3*MaxExpressions-1)).Ready(0); !ready {
			t.Error("the last that was asked for is not compiled")
		}
	})
}

func TestAnEvaluationEndsWithTheBudgetOfItsSearch(t *testing.T) {
	const numbers = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32]"
	s := NewCompiler().Compile(numbers + ".all(x," + numbers + ".all(y," + numbers + ".all(z, x+y+z > 0)))") // costs over 100,000
	if j := s.Judge(content()); j.Steps <= devices.DefaultBudget || j.Steps > 2*devices.DefaultBudget {
		t.Errorf("got %+v, want just over %d steps", j, devices.DefaultBudget)
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
