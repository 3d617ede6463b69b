package state

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// toldBudgets counts what tables are told of pods.
type toldBudgets struct {
	told int
	of   map[uint64][]uint32
}

func (x *toldBudgets) Changing(*scorer.Table, *pb.Delta) {}
func (x *toldBudgets) Changed(_ *scorer.Table, d *pb.Delta) {
	if p := d.GetChangePod(); p != nil {
		x.told++
		x.of[p.GetNumber()] = p.GetBudgets()
	}
}

// No turn tells more pods of their budgets than it has steps for. A budget is in force once all pods know of it; one that selects
// others then, too, and until then as it was.
func TestATurnTellsAPartOfThePodsOfABudget(t *testing.T) {
	const steps, most = 2000, 20
	w, tables := New(1), &toldBudgets{of: map[uint64][]uint32{}}
	w.Watch(tables)
	all := build.Filled(32)
	for _, n := range all.Nodes {
		if _, err := w.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range all.Pods {
		if _, err := w.SetPod(p); err != nil {
			t.Fatal(err)
		}
	}
	w.counting.AtOnce, w.counting.PerTurn = steps, steps
	var old *policyv1.PodDisruptionBudget
	for _, c := range []struct{ what, before, selects string }{{"it comes", "", "app"}, {"it selects others", "app", "app=1"}, {"it goes", "", ""}} {
		b := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: build.Selector(c.selects)},
		}
		var err error
		switch {
		case old == nil:
			err = w.budget(nil, b)
		case c.selects == "":
			err = w.budget(old, nil)
		default:
			err = w.budget(old, b)
		}
		old = b
		turns, waited := 0, 0
		for ; ; err = w.FillSome(func() bool { return false }) {
			if err != nil {
				t.Fatal(err)
			}
			if tables.told > most {
				t.Fatalf("%s: a turn tells %d pods, want %d at the most", c.what, tables.told, most)
			}
			turns, tables.told = turns+1, 0
			isBefore, is := tables.counts(w, all.Pods, c.before), tables.counts(w, all.Pods, c.selects)
			if isBefore {
				waited++
			}
			if !isBefore && !is {
				t.Fatalf("%s: after %d turns got %v told, %v of them in force; want those of %q or of %q", c.what, turns, tables.of, w.budgets.Allowed(), c.before, c.selects)
			}
			if !w.isUnderWay() {
				break
			}
		}
		if least := len(all.Pods) / 10 / most; turns < least || waited < least {
			t.Errorf("%s: got %d turns, in %d of them as it was before", c.what, turns, waited)
		}
		if !tables.counts(w, all.Pods, c.selects) {
			t.Errorf("%s: got %v told in the end, %v of them in force", c.what, tables.of, w.budgets.Allowed())
		}
	}
}

// counts tells whether the pods that know of a budget in force are those with a label; "": there is none in force.
func (x *toldBudgets) counts(w *State, pods []*v1.Pod, selects string) bool {
	inForce := w.budgets.Allowed()
	if selects == "" || len(inForce) != 1 {
		return selects == "" && len(inForce) == 0
	}
	key, value, one := strings.Cut(selects, "=")
	return !slices.ContainsFunc(pods, func(p *v1.Pod) bool {
		return slices.Contains(x.of[w.NumberOf(p.UID)], inForce[0].ID) != (!one || p.Labels[key] == value)
	})
}
