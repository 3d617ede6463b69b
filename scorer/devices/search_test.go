package devices_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/internal/testkit/claims"
	"github.com/shardsched/shardsched/scorer/devices"
	"github.com/shardsched/shardsched/scorer/devices/selector"
)

// scene reads a cluster of one node, and claims.
func scene(t testing.TB, cluster, ask string) (*claims.Turned, *devices.Pools, *devices.Use) {
	t.Helper()
	s, err := claims.Read("node n1\nclass any\n" + cluster)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ask(ask); err != nil {
		t.Fatal(err)
	}
	turned := s.Turn(selector.NewCompiler())
	pools, use, err := turned.Gather(s.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	return turned, pools, use
}

// list is a pool of so many devices with words such as "uuid=%d".
func list(n int, words string) string {
	var b strings.Builder
	b.WriteString("pool a\nslice s1 on=n1\n")
	for i := range n {
		fmt.Fprintf(&b, "dev d%03d %s\n", i, strings.ReplaceAll(words, "%d", fmt.Sprint(i)))
	}
	return b.String()
}

// Two requests that together want more pairs of equal numbers than there are: nothing helps but to try all.
const hopeless = "claim c\nrequest r1 any 16\nrequest r2 any 2\nmatch u r2\n"

func TestASearchEndsAtItsBudget(t *testing.T) {
	turned, pools, use := scene(t, list(40, "u=%d"), hopeless)
	for _, budget := range []int64{1, 1000, 100_000} {
		var s devices.Searcher
		first := s.Search(pools, use, turned.Demand, budget)
		second := s.Search(pools, use, turned.Demand, budget)
		if first.Verdict != devices.Fatal || !first.Exhausted || first.Steps <= budget || first.Steps > budget+200 {
			t.Errorf("budget %d: got %+v, want it used up", budget, first)
		}
		if !reflect.DeepEqual(first, second) {
			t.Errorf("budget %d: got %+v, then %+v", budget, first, second)
		}
		want := fmt.Sprintf("fatal: timed out trying to allocate devices: more than %d steps\n", budget)
		if got := turned.Answer(pools, first); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestEvaluationsCost(t *testing.T) {
	turned, pools, use := scene(t, list(3, "u=%d"), "claim c\nrequest r any\nwhere device.attributes[\"gpu.example.com\"].u == 2\n")
	var s devices.Searcher
	if got := s.Search(pools, use, turned.Demand, devices.DefaultBudget).Steps; got < 300 {
		t.Errorf("got %d steps, want three evaluations", got)
	}
	if got := s.Search(pools, use, turned.Demand, 250); !got.Exhausted {
		t.Errorf("got %+v, want no budget for three evaluations", got)
	}
}

func TestEqualDevicesFailOnce(t *testing.T) {
	const ask = `claim c
request r1 any 10
request r2 any
where device.attributes["gpu.example.com"].model == "y"
`
	for _, words := range []string{"model=x", "model=x uuid=u%d"} { // the second differ in what nobody reads
		turned, pools, use := scene(t, list(40, words), ask)
		var s devices.Searcher
		got := s.Search(pools, use, turned.Demand, devices.DefaultBudget)
		if got.Verdict != devices.None || got.Steps > 50_000 {
			t.Errorf("%s: got %+v, want none before long", words, got)
		}
	}
}

func TestASearcherForgets(t *testing.T) {
	var kept devices.Searcher
	compiler := selector.NewCompiler()
	for seed := range uint64(3000) {
		drawn := claims.Draw(seed)
		turned := drawn.Turn(compiler)
		for _, node := range drawn.Nodes {
			pools, use, err := turned.Gather(node)
			if err != nil {
				t.Fatal(err)
			}
			var fresh devices.Searcher
			got, want := kept.Search(pools, use, turned.Demand, 20_000), fresh.Search(pools, use, turned.Demand, 20_000)
			if a, b := turned.Answer(pools, got), turned.Answer(pools, want); a != b || got.Steps != want.Steps {
				t.Fatalf("seed %d, node %s: got %swant %s(%d and %d steps)", seed, node.Name, a, b, got.Steps, want.Steps)
			}
		}
	}
}

func TestSearchesAllocateNothing(t *testing.T) {
	turned, pools, use := scene(t, list(20, "model=x memory:8Gi multi")+"used a/d000\n",
		`claim c
request r1 any 3 memory:1Gi
first r2
or s1 any 30
or s2 any 2
where device.attributes["gpu.example.com"].model == "x"
match model
`)
	var s devices.Searcher
	s.Search(pools, use, turned.Demand, devices.DefaultBudget)
	if n := testing.AllocsPerRun(100, func() {
		if s.Search(pools, use, turned.Demand, devices.DefaultBudget).Verdict != devices.Allocated {
			t.Error("want an allocation")
		}
	}); n != 0 {
		t.Errorf("got %v allocations a search, want none", n)
	}
}

func TestNumbersAreFoundByName(t *testing.T) {
	_, pools, _ := scene(t, `node n2
pool b
slice s1 on=n1
dev x
dev a
pool a
slice s0 on=all
counters set m:1
slice s2 on=n1
dev x
slice s3 on=n2
dev y
dev z -set/m:1
`, "")
	for name, want := range map[string]int32{"a/x": 0, "b/x": 1, "b/a": 2, "a/z": 3, "a/y": -1, "c/x": -1, "a/a": -1} {
		pool, device, _ := strings.Cut(name, "/")
		got, ok := pools.Number(claims.Driver, pool, device)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
	if pools.Devices() != 3 || pools.Numbers() != 4 {
		t.Errorf("got %d devices, %d numbers, want 3 and 4", pools.Devices(), pools.Numbers())
	}
}

func TestASliceIsUnreadableWhereItsFirstDeviceIs(t *testing.T) {
	s, err := claims.Read("node n1\npool a\nslice s1 on=each\ndev d1 on=unreadable\ndev d2 on=n1\n")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Turn(selector.NewCompiler()).Gather(s.Nodes[0])
	const want = "gather pool information: failed to perform node selection for device d1 in slice s1: failed to parse node selector "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s…", err, want)
	}
}

func TestWithoutOthersAPoolIsWhatTheNodeReaches(t *testing.T) {
	one := &devices.Slice{Name: "s1", Driver: "d", Pool: "a", Count: 2, Reach: devices.Reach{Kind: devices.ReachThisNode}}
	two := &devices.Slice{Name: "s2", Driver: "d", Pool: "a", Count: 2}
	for want, shared := range map[devices.PoolState][]*devices.Slice{devices.PoolIncomplete: nil, devices.PoolReady: {two}} {
		pools, err := devices.Gather(devices.Inventory{Local: []*devices.Slice{one}, Shared: shared}, nil, devices.DefaultFeatures())
		if err != nil || pools.Pools() != 1 {
			t.Fatalf("got %+v, %v", pools, err)
		}
		if _, _, state, _ := pools.Pool(0); state != want {
			t.Errorf("got state %d, want %d", state, want)
		}
	}
}

func TestWhatADemandReads(t *testing.T) {
	for ask, want := range map[string]string{
		"request r any": "",
		"request r any\nmatch numa\ndistinct nic.example.com/link":                                              "gpu.example.com/numa nic.example.com/link",
		"first r\nor s any\nwhere device.attributes[\"gpu.example.com\"].model == \"x\"\nor t any\nmatch model": "gpu.example.com/model",
		"request r any unknown": "",
		"request r any\nwhere \"x\" in device.attributes[\"gpu\"]": "any",
	} {
		turned, _, _ := scene(t, "", "claim c\n"+ask+"\n")
		names, known := turned.Demand.Reads()
		got := strings.Join(names, " ")
		if !known {
			got = "any"
		}
		if got != want || len(turned.Demand.Claims()) != 1 {
			t.Errorf("%s: got %q, want %q", ask, got, want)
		}
	}
}

func BenchmarkGather(b *testing.B) {
	for name, words := range map[string]string{"plain": "model=x memory:1Gi", "tainted": "model=x !k=v:NoSchedule"} {
		s, err := claims.Read("node n1\n" + list(10, words))
		if err != nil {
			b.Fatal(err)
		}
		turned := s.Turn(selector.NewCompiler())
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := turned.Gather(s.Nodes[0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSearch(b *testing.B) {
	turned, pools, use := scene(b, list(40, "u=%d"), hopeless)
	b.Run("budget", func(b *testing.B) {
		var s devices.Searcher
		for b.Loop() {
			if !s.Search(pools, use, turned.Demand, devices.DefaultBudget).Exhausted {
				b.Fatal("want the budget used up")
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/devices.DefaultBudget, "ns/step")
	})
	for name, ask := range map[string]string{
		"one": "request r any", "none": "request r any 11", "hopeless": "request r1 any 5\nrequest r2 any 6",
	} {
		turned, pools, use := scene(b, list(10, "model=x"), "claim c\n"+ask+"\n")
		var s devices.Searcher
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Search(pools, use, turned.Demand, devices.DefaultBudget)
			}
		})
	}
}
