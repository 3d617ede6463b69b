package cluster

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// pdb is a budget of the namespace default.
func pdb(s *metav1.LabelSelector, allowed int32, disrupted ...string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: s}}
	b.Status.DisruptionsAllowed = allowed
	for _, name := range disrupted {
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[name] = metav1.Time{}
	}
	return b
}

func placed(name string, labels map[string]string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: labels}}
}

func nobody(string) iter.Seq2[*v1.Pod, bool] { return func(func(*v1.Pod, bool) bool) {} }

// complete goes on with a change until nothing is left, and returns the pods that are to be told.
func complete(b *Budgets, first []types.UID) []types.UID {
	for b.Changing() {
		_, _ = b.Some(math.MaxInt, 1, func(uid types.UID) error {
			first = append(first, uid)
			return nil
		})
	}
	return first
}

func TestWhichBudgetsCountAPod(t *testing.T) {
	set := func(pairs ...string) *metav1.LabelSelector { return matching(pairs...) }
	missing := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	unreadable := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Is"}}}
	for name, c := range map[string]struct {
		budgets []*policyv1.PodDisruptionBudget
		pod     *v1.Pod
		want    []uint32
	}{
		"one that selects it":             {[]*policyv1.PodDisruptionBudget{pdb(set("app", "web"), 1)}, placed("p", equal("app", "web")), []uint32{1}},
		"two, and one that does not":      {[]*policyv1.PodDisruptionBudget{pdb(set("app", "web"), 1), pdb(set("app", "db"), 1), pdb(set("tier", "a"), 1)}, placed("p", equal("app", "web", "tier", "a")), []uint32{1, 3}},
		"an empty selector":               {[]*policyv1.PodDisruptionBudget{pdb(set(), 1)}, placed("p", equal("app", "web")), nil},
		"no selector":                     {[]*policyv1.PodDisruptionBudget{pdb(nil, 1)}, placed("p", equal("app", "web")), nil},
		"one that can not be read":        {[]*policyv1.PodDisruptionBudget{pdb(unreadable, 1)}, placed("p", equal("app", "web")), nil},
		"what is not there":               {[]*policyv1.PodDisruptionBudget{pdb(missing, 1)}, placed("p", equal("app", "web")), []uint32{1}},
		"a pod without labels":            {[]*policyv1.PodDisruptionBudget{pdb(missing, 1)}, placed("p", nil), nil},
		"somebody is about to evict it":   {[]*policyv1.PodDisruptionBudget{pdb(set("app", "web"), 1, "p"), pdb(set("app", "web"), 1, "q")}, placed("p", equal("app", "web")), []uint32{2}},
		"one that is about another group": {[]*policyv1.PodDisruptionBudget{pdb(set("app", "db"), 1)}, placed("p", equal("app", "web")), nil},
	} {
		for _, podFirst := range []bool{false, true} {
			b := NewBudgets(false, func(string) iter.Seq2[*v1.Pod, bool] {
				return func(yield func(*v1.Pod, bool) bool) { _ = podFirst && yield(c.pod, true) }
			})
			for i, x := range c.budgets {
				b.Set("default", fmt.Sprint("b", i), x)
			}
			if complete(b, nil); podFirst && !slices.Equal(b.Of(c.pod), c.want) {
				t.Errorf("%s: got %v, want %v", name, b.Of(c.pod), c.want)
			}
			b.SetPod(c.pod, true)
			if !slices.Equal(b.Of(c.pod), c.want) {
				t.Errorf("%s, that comes: got %v, want %v", name, b.Of(c.pod), c.want)
			}
			elsewhere := c.pod.DeepCopy()
			elsewhere.Namespace = "elsewhere"
			if got := b.Of(elsewhere); got != nil {
				t.Errorf("%s, in another namespace: got %v, want none", name, got)
			}
		}
	}
}

// model is the same, worked out anew from all objects every time.
type model struct {
	counted bool
	budgets map[string]*policyv1.PodDisruptionBudget
	pods    map[string]*v1.Pod
	placed  map[string]bool
}

func (m *model) counts(b *policyv1.PodDisruptionBudget, p *v1.Pod) bool {
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	_, disrupted := b.Status.DisruptedPods[p.Name]
	return len(p.Labels) > 0 && err == nil && !s.Empty() && s.Matches(labels.Set(p.Labels)) && (m.counted || !disrupted)
}

// of names the budgets that count a pod.
func (m *model) of(p *v1.Pod) (names []string) {
	for name, b := range m.budgets {
		if m.counts(b, p) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (m *model) allowed(name string) int32 {
	b := m.budgets[name]
	if !m.counted {
		return b.Status.DisruptionsAllowed
	}
	expected, healthy := 0, 0
	for name, p := range m.pods {
		if m.counts(b, p) {
			expected++
			if m.placed[name] && p.DeletionTimestamp == nil {
				healthy++
			}
		}
	}
	want := expected
	if x := b.Spec.MaxUnavailable; x != nil {
		n, _ := intstr.GetScaledValueFromIntOrPercent(x, expected, true)
		want = max(0, expected-n)
	} else if x := b.Spec.MinAvailable; x != nil {
		want, _ = intstr.GetScaledValueFromIntOrPercent(x, expected, true)
	}
	return int32(max(0, healthy-want))
}

func drawBudget(t *rapid.T) *policyv1.PodDisruptionBudget {
	b := pdb(&metav1.LabelSelector{MatchLabels: drawSet(t, "selector")}, int32(rapid.IntRange(0, 3).Draw(t, "allowed")))
	if rapid.Bool().Draw(t, "disrupts") {
		b.Status.DisruptedPods = map[string]metav1.Time{rapid.SampledFrom([]string{"p0", "p1", "p2"}).Draw(t, "disrupted"): {}}
	}
	share := rapid.SampledFrom([]intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromString("50%"), intstr.FromString("100%")}).Draw(t, "share")
	switch rapid.IntRange(0, 2).Draw(t, "form") {
	case 0:
		b.Spec.MinAvailable = &share
	case 1:
		b.Spec.MaxUnavailable = &share
	}
	return b
}

// TestBudgetsFollowTheObjects changes budgets and pods at random; whoever hears what changes knows
// of each pod the budgets that count it.
func TestBudgetsFollowTheObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			counted: rapid.Bool().Draw(t, "counted"),
			budgets: map[string]*policyv1.PodDisruptionBudget{}, pods: map[string]*v1.Pod{}, placed: map[string]bool{},
		}
		b := NewBudgets(m.counted, func(string) iter.Seq2[*v1.Pod, bool] {
			return func(yield func(*v1.Pod, bool) bool) {
				for name, p := range m.pods {
					if !yield(p, m.placed[name]) {
						return
					}
				}
			}
		})
		b.most = rapid.SampledFrom([]int{1, 2, 4, 64}).Draw(t, "most")
		defer b.End()
		told := map[types.UID][]uint32{} // as tables are told
		tell := func(uid types.UID) error {
			if p := m.pods[strings.TrimPrefix(string(uid), "uid-")]; p != nil {
				told[uid] = b.Of(p)
			}
			return nil
		}
		// Changes of budgets are taken in step by step, so many after each change of anything.
		atOnce := rapid.SampledFrom([]int{1, 2, 7, math.MaxInt}).Draw(t, "at once")
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name := fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "which"))
			switch budget := "b" + name[1:]; rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				m.budgets[budget] = drawBudget(t)
				for _, uid := range b.Set("default", budget, m.budgets[budget]) {
					_ = tell(uid)
				}
			case 2:
				delete(m.budgets, budget)
				b.Set("default", budget, nil)
			case 3, 4:
				p := placed(name, drawSet(t, "labels"))
				if rapid.Bool().Draw(t, "deleted") {
					p.DeletionTimestamp = &metav1.Time{}
				}
				m.pods[name], m.placed[name] = p, rapid.Bool().Draw(t, "placed")
				b.SetPod(p, m.placed[name])
				told[p.UID] = b.Of(p)
			case 5:
				if p := m.pods[name]; p != nil {
					b.RemovePod(p)
					delete(m.pods, name)
					delete(told, p.UID)
				}
			}
			_, _ = b.Some(atOnce, 1, tell)
			checkInForce(t, b, m, told)
			if !b.Changing() {
				check(t, b, m, told)
			}
		}
		for b.Changing() {
			_, _ = b.Some(atOnce, 1, tell)
			checkInForce(t, b, m, told)
		}
		check(t, b, m, told)
		if s := b.spaces["default"]; s == nil && len(b.free) != len(b.numbered) || s != nil && len(b.numbered) != len(b.free)+len(s.budgets) {
			t.Fatalf("of %d numbers %v are free, want those that no budget has", len(b.numbered), b.free)
		}
	})
}

// checkInForce checks what holds while changes of budgets are under way: those in force are known of all pods that they count,
// and of no others. It holds for pods without too many.
func checkInForce(t *rapid.T, b *Budgets, m *model, told map[types.UID][]uint32) {
	checkCounted(t, b, told, false)
	s := b.spaces["default"]
	if s == nil || b.most < 64 {
		return
	}
	inForce, numbers := &model{counted: m.counted, budgets: map[string]*policyv1.PodDisruptionBudget{}, pods: m.pods, placed: m.placed}, map[string]uint32{}
	for name, x := range s.budgets {
		if x.since > s.told {
			x = x.before
		}
		if x != nil {
			inForce.budgets[name], numbers[name] = x.object, x.number
		}
	}
	allowed := map[uint32]int32{}
	for _, x := range b.Allowed() {
		allowed[x.ID] = x.Allowed
	}
	for _, p := range m.pods {
		var want []uint32
		for _, name := range inForce.of(p) {
			want = append(want, numbers[name])
			if got, ok := allowed[numbers[name]]; !ok || got != inForce.allowed(name) {
				t.Fatalf("%s: got %d allowed, %v, want %d", name, got, ok, inForce.allowed(name))
			}
		}
		slices.Sort(want)
		got := slices.DeleteFunc(slices.Clone(told[p.UID]), func(id uint32) bool {
			_, ok := allowed[id]
			return !ok
		})
		if !slices.Equal(got, want) {
			t.Fatalf("%s with %v: got it told %v of those in force, want %v", p.Name, p.Labels, got, want)
		}
	}
}

// checkCounted checks that all pods that are told of a budget are said to be counted by it, where anything is said.
func checkCounted(t *rapid.T, b *Budgets, told map[types.UID][]uint32, all bool) {
	for _, x := range b.Allowed() {
		pods, ok := b.CountedBy(x.ID, 1<<10)
		if !ok && all && x.ID != noEviction {
			t.Fatalf("budget %d: nobody knows its pods", x.ID)
		}
		for uid, of := range told {
			if ok && slices.Contains(of, x.ID) && !slices.Contains(pods, uid) {
				t.Fatalf("budget %d: got %v counted, want %s too", x.ID, pods, uid)
			}
		}
	}
}

func check(t *rapid.T, b *Budgets, m *model, told map[types.UID][]uint32) {
	used, numbers := map[uint32]int32{}, map[string]uint32{}
	for name := range m.budgets {
		numbers[name] = b.spaces["default"].budgets[name].number
	}
	if len(m.budgets) > b.most {
		used[noEviction] = 0
	}
	for _, p := range m.pods {
		var want []uint32
		all := (&model{counted: true, budgets: m.budgets}).of(p) // disrupted or not
		for _, name := range m.of(p) {
			want = append(want, numbers[name])
			if m.counted || len(all) <= b.most {
				used[numbers[name]] = m.allowed(name)
			}
		}
		if len(all) > b.most {
			want = []uint32{noEviction}
		}
		slices.Sort(want)
		if got := told[p.UID]; !slices.Equal(got, want) {
			t.Fatalf("%s with %v: got it told %v, want %v", p.Name, p.Labels, got, want)
		}
		if got := b.Of(p); !slices.Equal(got, want) {
			t.Fatalf("%s with %v: got %v, want %v", p.Name, p.Labels, got, want)
		}
	}
	got := map[uint32]int32{}
	list := b.Allowed()
	for i, x := range list {
		got[x.ID] = x.Allowed
		if i > 0 && list[i-1].ID >= x.ID {
			t.Fatalf("got %v, want it ascending", list)
		}
	}
	checkCounted(t, b, told, true)
	// One that counts no pod, but disrupts some, may be told or not.
	for id := range got {
		if _, ok := used[id]; !ok && !m.counted {
			delete(got, id)
		}
	}
	if !maps.Equal(got, used) {
		t.Fatalf("allowed: got %v, want %v", got, used)
	}
}

// TestPodsWithTooManyBudgetsAreHeldAgainstFew has pods that 4,000 budgets select: labels that come are held against no more
// of those than it takes to see that there are too many, and so are those that are there when budgets change.
func TestPodsWithTooManyBudgetsAreHeldAgainstFew(t *testing.T) {
	const budgets, pods = 4000, 50
	b := NewBudgets(false, nobody)
	defer b.End()
	for i := range budgets {
		b.Set("default", fmt.Sprint("b", i), pdb(matching("app", "web"), 1))
	}
	b.Set("default", "db", pdb(matching("app", "db"), 1))
	complete(b, nil)
	b.SetPod(placed("db", equal("app", "db")), true)
	s, before := b.spaces["default"], b.Allowed()
	s.looks = 0
	for i := range pods {
		b.SetPod(placed(fmt.Sprint("p", i), equal("app", "web")), true)
		b.SetPod(placed(fmt.Sprint("p", i), equal("app", "web", "i", fmt.Sprint(i))), true)
		b.SetPod(placed(fmt.Sprint("db", i), equal("app", "db")), false)
	}
	if most := (pods + 2) * 2 * (maxBudgets + 3); s.looks > most {
		t.Errorf("%d sets of labels take %d looks, want %d at the most", pods+2, s.looks, most)
	}
	if after := b.Allowed(); len(after) != 2 || &after[0] != &before[0] {
		t.Errorf("got %v allowed, worked out anew, want that of before, %v", after, before)
	}
	b.Set("default", "db2", pdb(matching("app", "db"), 1))
	steps := 0
	for b.Changing() {
		n, _ := b.Some(math.MaxInt, 1, func(types.UID) error { return nil })
		steps += n
	}
	if most := 4 * pods * maxBudgets; steps > most {
		t.Errorf("another budget takes %d steps, want %d at the most", steps, most)
	}
	for i := maxBudgets; i < budgets; i++ {
		b.Set("default", fmt.Sprint("b", i), nil)
	}
	complete(b, nil)
	if got := b.Of(placed("p1", nil)); len(got) != maxBudgets || got[0] == noEviction || len(b.Allowed()) != maxBudgets+3 {
		t.Errorf("got %v of a pod, and %d budgets, want %d, and these, two and the one for too many", got, len(b.Allowed()), maxBudgets)
	}
}

// TestABudgetIsHeldAgainstLabelsForWhatItTakes has 300 budgets that each set of labels is held against, and another
// one that no pod is counted by: a turn of 3,000 steps looks at few sets of labels.
func TestABudgetIsHeldAgainstLabelsForWhatItTakes(t *testing.T) {
	const budgets, pods, most = 300, 100, 3000
	b := NewBudgets(false, nobody)
	defer b.End()
	others := matching("app", "web")
	others.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "other", Operator: metav1.LabelSelectorOpDoesNotExist}}
	for i := range budgets {
		b.Set("default", fmt.Sprint("b", i), pdb(others, 1))
	}
	complete(b, nil)
	for i := range pods {
		b.SetPod(placed(fmt.Sprint("p", i), equal("app", "web", "other", "x", "i", fmt.Sprint(i))), true)
	}
	b.Set("default", "more", pdb(matching("nobody", "this"), 1))
	turns := 0
	for b.Changing() {
		turns++
		steps, _ := b.Some(most, 1, func(types.UID) error { return nil })
		if steps > most+budgets*3 {
			t.Fatalf("got a turn of %d steps, want some %d", steps, most)
		}
	}
	if least := budgets * pods / most; turns < least {
		t.Errorf("got %d turns, want %d at least", turns, least)
	}
}

func TestAStatusAloneConcernsNoPod(t *testing.T) {
	p := placed("p", equal("app", "web"))
	b := NewBudgets(false, nobody)
	b.Set("default", "b", pdb(matching("app", "web"), 1))
	complete(b, nil)
	b.SetPod(p, true)
	if got := complete(b, b.Set("default", "b", pdb(matching("app", "web"), 0))); len(got) > 0 {
		t.Errorf("another status: got %v concerned, want none", got)
	}
	if got := b.Allowed(); len(got) != 1 || got[0].Allowed != 0 {
		t.Errorf("another status: got %v, want none allowed", got)
	}
	if got := complete(b, b.Set("default", "b", pdb(matching("app", "web"), 0, "q"))); len(got) > 0 {
		t.Errorf("another pod disrupted: got %v concerned, want none", got)
	}
	if got := complete(b, b.Set("default", "b", pdb(matching("app", "web"), 0, "p"))); !slices.Equal(got, []types.UID{"uid-p"}) {
		t.Errorf("disrupted: got %v concerned, want uid-p", got)
	}
}

// What a cluster without a disruption controller allows.
func TestTheStatusIsCountedWhereNobodyKeepsIt(t *testing.T) {
	number, percent := intstr.FromInt32, intstr.FromString
	for name, c := range map[string]struct {
		min, max          *intstr.IntOrString
		placed, pending   int
		deleted, unready  int
		want              int32
		disruptionsBefore int32
	}{
		"two of three must stay":              {min: new(number(2)), placed: 3, want: 1},
		"more than there are must stay":       {min: new(number(5)), placed: 3, want: 0},
		"half of three, rounded up":           {min: new(percent("50%")), placed: 3, want: 1},
		"pods that wait are expected":         {min: new(percent("50%")), placed: 3, pending: 3, want: 0},
		"a number stays one":                  {min: new(number(2)), placed: 3, pending: 3, want: 1},
		"one may be missing":                  {max: new(number(1)), placed: 3, want: 1},
		"one is missing":                      {max: new(number(1)), placed: 3, pending: 1, want: 0},
		"half of three, rounded up, may go":   {max: new(percent("50%")), placed: 3, want: 2},
		"all may go":                          {max: new(percent("100%")), placed: 3, want: 3},
		"one is going":                        {min: new(number(2)), placed: 2, deleted: 1, want: 0},
		"one is not ready":                    {min: new(number(2)), placed: 2, unready: 1, want: 0},
		"a spec that says nothing":            {placed: 3, want: 0},
		"what its status says does not count": {min: new(number(3)), placed: 3, disruptionsBefore: 3, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBudgets(true, nobody)
			x := pdb(matching("app", "web"), c.disruptionsBefore)
			x.Spec.MinAvailable, x.Spec.MaxUnavailable = c.min, c.max
			b.Set("default", "b", x)
			complete(b, nil)
			n := 0
			add := func(count int, hasNode bool, change func(*v1.Pod)) {
				for range count {
					p := placed(fmt.Sprint("p", n), equal("app", "web"))
					change(p)
					b.SetPod(p, hasNode)
					n++
				}
			}
			add(c.placed, true, func(*v1.Pod) {})
			add(c.pending, false, func(*v1.Pod) {})
			add(c.deleted, true, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
			add(c.unready, true, func(p *v1.Pod) {
				p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}}
			})
			if got := b.Allowed(); len(got) != 1 || got[0].Allowed != c.want {
				t.Errorf("got %v, want %d allowed", got, c.want)
			}
		})
	}
}

// BenchmarkBudgetsPass is a pod that comes and goes where no budget is.
func BenchmarkBudgetsPass(b *testing.B) {
	budgets := NewBudgets(false, nobody)
	budgets.Set("elsewhere", "b", pdb(matching("app", "web"), 1))
	complete(budgets, nil)
	p := placed("p", equal("app", "web", "pod-template-hash", "5d4f"))
	b.ReportAllocs()
	for b.Loop() {
		budgets.SetPod(p, true)
		budgets.Of(p)
		budgets.RemovePod(p)
	}
}
