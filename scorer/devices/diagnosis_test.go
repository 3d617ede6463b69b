package devices_test

import (
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/shardsched/shardsched/internal/testkit/claims"
	"github.com/shardsched/shardsched/scorer/devices"
	"github.com/shardsched/shardsched/scorer/devices/selector"
)

// patient is a budget that the searches of drawn scenes end within, but for a few.
const patient = 1 << 14

// TestDiagnosesAreTrue draws scenes. Where no devices are found, the diagnosis names the first request that can't be met, and
// each device of the node is either had or has a cause; and where that is taken away, it is the cause no more.
func TestDiagnosesAreTrue(t *testing.T) {
	compiler := selector.NewCompiler()
	var s devices.Searcher
	seen := map[devices.CauseKind]int{}
	mended := map[devices.CauseKind]int{}
	for seed := range uint64(6000) {
		scene := claims.Draw(seed)
		for _, node := range scene.Nodes {
			turned := scene.Turn(compiler)
			pools, use, err := turned.Gather(node)
			if err != nil {
				continue
			}
			found := s.Search(pools, use, turned.Demand, patient)
			verdict := found.Verdict
			d := s.Diagnose(pools, use, turned.Demand, patient)
			if d.Verdict != verdict {
				t.Fatalf("seed %d, node %s: got verdict %d, want %d", seed, node.Name, d.Verdict, verdict)
			}
			if again := s.Diagnose(pools, use, turned.Demand, patient); !reflect.DeepEqual(d, again) {
				t.Fatalf("seed %d, node %s: got %+v, then %+v", seed, node.Name, d, again)
			}
			if verdict == devices.Allocated || verdict == devices.Fatal {
				if len(d.Lacks) > 0 && !d.CutOff {
					t.Fatalf("seed %d, node %s: got %+v, want no lack", seed, node.Name, d)
				}
				continue
			}
			checkFirst(t, &s, seed, scene.Features, pools, use, turned.Demand, &d)
			for i := range d.Lacks {
				checkCounts(t, seed, turned.Demand, &d, &d.Lacks[i])
				for _, c := range d.Lacks[i].Causes {
					seen[c.Kind]++
				}
			}
			mend(t, &s, seed, scene, node, pools, &d, mended)
		}
	}
	for kind := devices.CauseMatch; kind <= devices.CauseInvalid; kind++ {
		if seen[kind] == 0 {
			t.Errorf("no diagnosis has cause %d", kind)
		}
	}
	if mended[devices.CauseInUse] < 20 || mended[devices.CauseTaint] < 20 {
		t.Errorf("got %v causes mended, want 20 of devices in use and of taints", mended)
	}
}

// upTo is a demand that ends before a request, or after it.
func upTo(demand *devices.Demand, features devices.Features, claim, request int32) *devices.Demand {
	list := slices.Clone(demand.Claims()[:claim+1])
	list[claim].Requests = list[claim].Requests[:request]
	return devices.NewDemand(list, features)
}

// checkFirst holds that all requests before the one of a diagnosis can be met, and not with it.
func checkFirst(t *testing.T, s *devices.Searcher, seed uint64, features devices.Features, pools *devices.Pools, use *devices.Use,
	demand *devices.Demand, d *devices.Diagnosis) {
	t.Helper()
	if len(d.Lacks) != len(demand.Claims()[d.Claim].Requests[d.Request].Alternatives) {
		t.Fatalf("seed %d: got %+v, want a lack for each alternative", seed, d)
	}
	without := s.Search(pools, use, upTo(demand, features, d.Claim, d.Request), patient).Verdict
	with := s.Search(pools, use, upTo(demand, features, d.Claim, d.Request+1), patient).Verdict
	met := without == devices.Allocated || without == devices.Fatal // no single term names the nodes of what is found
	if !met || with == devices.Allocated {
		t.Fatalf("seed %d: got claim %d, request %d for the first; without it the verdict is %d, with it %d", seed, d.Claim, d.Request, without, with)
	}
}

// checkCounts holds that a lack counts each device once.
func checkCounts(t *testing.T, seed uint64, demand *devices.Demand, d *devices.Diagnosis, l *devices.Lack) {
	t.Helper()
	n := int(l.Found)
	for _, c := range l.Causes {
		if c.Kind != devices.CauseIncomplete && c.Kind != devices.CauseInvalid {
			n += c.Devices
		}
	}
	if l.InClass > 0 {
		n += l.Devices - l.InClass
	}
	if n != l.Devices && !l.Limit {
		t.Fatalf("seed %d: got %+v, of which %d devices have a cause or are had, want %d", seed, l, n, l.Devices)
	}
	if l.Found >= l.Wanted && l.Wanted > 0 {
		t.Fatalf("seed %d: got %d of %d devices for a request that is not met", seed, l.Found, l.Wanted)
	}
	distinct := slices.ContainsFunc(demand.Claims()[d.Claim].Constraints, func(c devices.Constraint) bool { return c.Distinct != "" })
	if slices.ContainsFunc(l.Causes, func(c devices.CauseCount) bool { return c.Kind == devices.CauseTogether }) && !distinct {
		t.Fatalf("seed %d: got %+v, want another cause than that a device can't be had together with others", seed, l)
	}
}

// mend takes the causes of some devices away, and holds that they are so no more.
func mend(t *testing.T, s *devices.Searcher, seed uint64, scene *claims.Scene, node *v1.Node, pools *devices.Pools, d *devices.Diagnosis, mended map[devices.CauseKind]int) {
	t.Helper()
	request := &scene.Claims[d.Claim].Spec.Devices.Requests[d.Request]
	if request.Exactly == nil || len(d.Lacks) == 0 {
		return
	}
	for _, m := range d.Lacks[0].Nearest {
		other := *scene
		was := request.Exactly.Tolerations
		if m.Device < 0 {
			continue
		}
		_, _, x := pools.Device(m.Device)
		device := x.Name
		driver, name, _, _ := pools.Pool(m.Pool)
		switch m.Cause.Kind {
		case devices.CauseInUse:
			other.Used = slices.DeleteFunc(slices.Clone(scene.Used), func(u claims.Used) bool {
				return u.Driver == driver && u.Pool == name && u.Device == device
			})
		case devices.CauseTaint:
			request.Exactly.Tolerations = append(slices.Clone(was), resourceapi.DeviceToleration{
				Key: m.Cause.Taint.Key, Operator: resourceapi.DeviceTolerationOpExists,
			})
		default:
			continue
		}
		turned := other.Turn(selector.NewCompiler())
		again, use, err := turned.Gather(node)
		request.Exactly.Tolerations = was
		if err != nil {
			t.Fatal(err)
		}
		after := s.Diagnose(again, use, turned.Demand, patient)
		for _, l := range after.Lacks {
			for _, x := range l.Nearest {
				if after.Claim == d.Claim && after.Request == d.Request && x.Device == m.Device && x.Cause == m.Cause {
					t.Fatalf("seed %d: got the cause %+v of device %s after it was taken away", seed, x.Cause, device)
				}
			}
		}
		mended[m.Cause.Kind]++
	}
}

// TestAnOrdinarySearchIsNotWatched: a diagnosis leaves nothing behind in its searcher.
func TestAnOrdinarySearchIsNotWatched(t *testing.T) {
	turned, pools, use := scene(t, list(3, "u=%d"), "claim c\nrequest r any 4\n")
	var s devices.Searcher
	if d := s.Diagnose(pools, use, turned.Demand, patient); len(d.Lacks) != 1 || d.Lacks[0].Found != 3 {
		t.Fatalf("got %+v, want 3 of 4 devices", d)
	}
	turned, pools, use = scene(t, list(3, "u=%d"), "claim c\nrequest r any 3\n")
	if got := s.Search(pools, use, turned.Demand, patient); got.Verdict != devices.Allocated || len(got.Claims[0].Results) != 3 {
		t.Errorf("got %+v, want 3 devices", got)
	}
}

func TestADiagnosisEndsAtItsBudget(t *testing.T) {
	turned, pools, use := scene(t, list(40, "u=%d"), hopeless)
	var s devices.Searcher
	for _, budget := range []int64{1, 100, 1000, 10_000} {
		d := s.Diagnose(pools, use, turned.Demand, budget)
		if !d.CutOff || d.Steps > 2*budget+10_000 {
			t.Errorf("budget %d: got %+v, want it cut off after its budget", budget, d)
		}
	}
}
