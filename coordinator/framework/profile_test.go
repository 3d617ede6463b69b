package framework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/metrics"
	"github.com/shardsched/shardsched/scorer/scan"
)

func factoryOf(p fwk.Plugin) PluginFactory {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }
}

// profileOf has plugins in the multi-point.
func profileOf(names ...string) ProfileConfig {
	c := ProfileConfig{Name: "p"}
	for _, n := range names {
		c.Plugins.MultiPoint.Enabled = append(c.Plugins.MultiPoint.Enabled, configv1.Plugin{Name: n})
	}
	return c
}

func TestBuiltInPluginsTakePartInTheOrder(t *testing.T) {
	r := Registry{
		"PrioritySort": BuiltIn("PrioritySort", nil, QueueSort), "NodeName": BuiltIn("NodeName", nil, Filter),
		"DefaultBinder": BuiltIn("DefaultBinder", factoryOf(binder{"DefaultBinder"}), Bind),
		"T":             factoryOf(tally{plugin: "T"}), "ImageLocality": BuiltIn("ImageLocality", nil, Score),
	}
	p, err := NewProfile(t.Context(), profileOf("PrioritySort", "NodeName", "T", "ImageLocality", "DefaultBinder"), r, &Environment{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "Filter", p.Plugins(Filter), []string{"NodeName", "T"})
	equal(t, "Score", p.Plugins(Score), []string{"T", "ImageLocality"})
	equal(t, "Bind", p.Plugins(Bind), []string{"DefaultBinder"})
	for at, want := range map[Point][2]bool{Filter: {true, true}, Bind: {true, false}, QueueSort: {false, false}, Reserve: {false, false}} {
		if p.Runs(at) != want[0] || p.OutOfTree(at) != want[1] {
			t.Errorf("%v: runs %v, guests %v, want %v", at, p.Runs(at), p.OutOfTree(at), want)
		}
	}
	if p.Less() != nil {
		t.Error("the queue is sorted here, want by the built-in plugin")
	}
	if e := p.Events(); len(e) != 1 || e[0].Name() != "T" {
		t.Errorf("waiting for events: %v, want T alone", e)
	}
	if s := p.NewCycle(newPod("a")).Bind(t.Context(), "n"); s != nil {
		t.Errorf("Bind: %v", s)
	}
	if _, err := NewProfile(t.Context(), profileOf("PrioritySort", "NodeName"), r, &Environment{}); err == nil ||
		err.Error() != `at least one bind plugin is needed for profile with scheduler name "p"` {
		t.Errorf("without a binder: got %v", err)
	}
}

func TestANegativeWeightIsRefused(t *testing.T) {
	c := profileOf("T", "Sort", "Bind")
	w := int32(-1)
	c.Plugins.MultiPoint.Enabled[0].Weight = &w
	_, err := NewProfile(t.Context(), c, Registry{"T": factoryOf(tally{plugin: "T"}), "Sort": factoryOf(sorter{"Sort"}), "Bind": factoryOf(binder{"Bind"})}, &Environment{})
	if want := `score plugins: weight -1 of plugin "T": must not be negative`; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// closes is a plugin that tells when it is closed.
type closes struct {
	plugin
	log *log
	err error
}

func (c closes) Close() error {
	c.log.add("%s", c.Name())
	return c.err
}

func TestPluginsAreClosedAlsoWhenAProfileIsNone(t *testing.T) {
	var l log
	r := Registry{"A": factoryOf(closes{"A", &l, nil}), "B": BuiltIn("B", factoryOf(closes{"B", &l, errors.New("stuck")}), Reserve)}
	_, err := NewProfile(t.Context(), profileOf("A", "B"), r, &Environment{})
	if err == nil || !strings.Contains(err.Error(), "only one queue sort plugin required") || !strings.Contains(err.Error(), "B failed to close: stuck") {
		t.Errorf("got %v", err)
	}
	equal(t, "closed", l.take(), []string{"A", "B"})
}

// gate is a PreEnqueue plugin.
type gate struct {
	plugin
	shut bool
	log  *log
}

func (g gate) PreEnqueue(context.Context, *v1.Pod) *fwk.Status {
	g.log.add("%s", g.Name())
	if g.shut {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "shut")
	}
	return nil
}

func TestThePluginThatHeldAPodBackIsAskedFirst(t *testing.T) {
	var l log
	p := newProfile(t, &Environment{}, gate{"A", false, &l}, gate{"B", false, &l}, gate{"C", true, &l}, gate{"D", false, &l})
	for gated, want := range map[string][]string{"": {"A", "B", "C"}, "B": {"B", "A", "C"}, "C": {"C"}, "gone": {"A", "B", "C"}} {
		by, s := p.PreEnqueue(t.Context(), newPod("a"), gated)
		if by != "C" || s.Message() != "shut" {
			t.Errorf("gated by %q: got %q: %v", gated, by, s)
		}
		equal(t, "asked, gated by "+gated, l.take(), want)
	}
}

// judge runs built-in plugins for a guest's sake.
type judge struct{ log *log }

func (j judge) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	j.log.add("built-in filter %s with %d", node.Node().Name, len(node.GetPods()))
	if node.Node().Name == "n1" {
		return fwk.NewStatus(fwk.Unschedulable, "full").WithPlugin("NodeResourcesFit")
	}
	return nil
}
func (j judge) Move(_ context.Context, _ fwk.CycleState, _ *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo, added bool) *fwk.Status {
	j.log.add("built-in move %s %v", other.GetPod().Name, added)
	return nil
}
func (j judge) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) ([][]fwk.PluginScore, *fwk.Status) {
	out := make([][]fwk.PluginScore, len(nodes))
	for i := range nodes {
		out[i] = []fwk.PluginScore{{Name: "ImageLocality", Score: 10}}
	}
	return out, nil
}

// nominates keeps nominations of one node.
type nominates struct {
	noNominator
	node string
	pods []fwk.PodInfo
}

func (n nominates) NominatedPodsForNode(node string) []fwk.PodInfo {
	if node == n.node {
		return n.pods
	}
	return nil
}

func TestAHandleRunsBuiltInPluginsToo(t *testing.T) {
	var l log
	s := NewSnapshot(newCluster(2))
	s.Begin()
	defer s.End()
	info, _ := NewPodInfo(newPod("nominee"))
	env := &Environment{
		Snapshot: s, BuiltIn: func(string) BuiltInRunner { return judge{&l} },
		Nominator: nominates{node: "n0", pods: []fwk.PodInfo{info}},
	}
	p := newProfile(t, env, tally{plugin: "T"})
	h, c := p.Handle(), p.NewCycle(newPod("a"))
	c.PreFilter(t.Context())
	nodes := views(t, s)
	if st := h.RunFilterPluginsWithNominatedPods(t.Context(), c.State(), c.Pod(), nodes[0]); st != nil {
		t.Errorf("n0: %v", st)
	}
	equal(t, "calls", l.take(), []string{"built-in move nominee true", "built-in filter n0 with 1", "built-in filter n0 with 0"})
	if st := h.RunFilterPlugins(t.Context(), c.State(), c.Pod(), nodes[1]); st.Plugin() != "NodeResourcesFit" {
		t.Errorf("n1: %v", st)
	}
	l.take()
	if st := c.Filter(t.Context(), nodes[1]); st != nil || len(l.take()) != 0 {
		t.Errorf("a cycle asked the built-in plugins: %v", st)
	}
	scores, st := h.RunScorePlugins(t.Context(), c.State(), c.Pod(), nodes)
	if st != nil || fmt.Sprint(scores) != "[{n0 [{ImageLocality 10} {T 2}] 12 0} {n1 [{ImageLocality 10} {T 2}] 12 0}]" {
		t.Errorf("scores: %v, %v", scores, st)
	}
	if st := h.RunPreFilterExtensionRemovePod(t.Context(), c.State(), c.Pod(), info, nodes[0]); st != nil {
		t.Errorf("RemovePod: %v", st)
	}
	equal(t, "calls", l.take(), []string{"built-in move nominee false"})
}

func TestWhatAHandleLacks(t *testing.T) {
	p := newProfile(t, &Environment{})
	h := p.Handle()
	if h.ClientSet() != nil || h.KubeConfig() != nil || h.SharedInformerFactory() != nil || h.SharedDRAManager() != nil || h.SharedCSIManager() != nil ||
		h.APIDispatcher() != nil || h.APICacher() != nil || h.SignPod(t.Context(), newPod("a")) != nil || len(h.Extenders()) != 0 || h.GetWaitingPod("a") != nil || h.GetPodInPreBind("a") != nil {
		t.Error("a handle gives what there is not")
	}
	h.EventRecorder().Eventf(newPod("a"), nil, "Normal", "Reason", "Action", "note")
	if _, err := h.PodGroupManager().PodGroupStates().Get("x", "g"); err == nil {
		t.Error("there is a pod group")
	}
	if _, err := h.SnapshotSharedLister().NodeInfos().Get("n"); err == nil {
		t.Error("there is a node")
	}
	if h.ProfileName() != "p" {
		t.Errorf("profile: %s", h.ProfileName())
	}
	done := make([]bool, 100)
	h.Parallelizer().Until(t.Context(), len(done), func(i int) { done[i] = true }, "test")
	for i, d := range done {
		if !d {
			t.Errorf("piece %d was not done", i)
		}
	}
}

func TestAHandleGivesCSINodes(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	if err := factory.Storage().V1().CSINodes().Informer().GetStore().Add(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	nodes := newProfile(t, &Environment{Informers: factory}).Handle().SharedCSIManager().CSINodes()
	if n, err := nodes.Get("n"); err != nil || n.Name != "n" {
		t.Errorf("got %v, %v", n, err)
	}
	if list, err := nodes.List(); err != nil || len(list) != 1 {
		t.Errorf("got %v, %v", list, err)
	}
}

func TestWhatIsMeasured(t *testing.T) {
	set := metrics.NewSet(nil)
	clock := newClock()
	s := NewSnapshot(newCluster(30))
	s.Begin()
	defer s.End()
	p := newProfile(t, &Environment{Snapshot: s, Clock: clock, Meter: NewMeter(set)}, tally{plugin: "T", refuse: "n3"}, waits{"W", time.Minute})
	c := p.NewCycle(newPod("a"))
	c.PreFilter(t.Context())
	c.FilterNodes(t.Context(), views(t, s))
	c.Score(t.Context(), views(t, s))
	c.Permit(t.Context(), "n0")
	clock.Step(time.Minute)
	c.WaitOnPermit(t.Context())
	for series, want := range map[[4]string]uint64{
		{"scheduler_framework_extension_point_duration_seconds", "PreFilter", "Success", "p"}: 1,
		{"scheduler_framework_extension_point_duration_seconds", "Filter", "Success", "p"}:    1,
		{"scheduler_framework_extension_point_duration_seconds", "Permit", "Wait", "p"}:       1,
		{"scheduler_plugin_execution_duration_seconds", "T", "Filter", "Success"}:             29,
		{"scheduler_plugin_execution_duration_seconds", "T", "Filter", "Unschedulable"}:       1,
		{"scheduler_plugin_execution_duration_seconds", "T", "Score", "Success"}:              30,
	} {
		if got := set.Histogram(series[0], series[1:]...).Count(); got != want {
			t.Errorf("%v: got %d, want %d", series, got, want)
		}
	}
	if got := set.Histogram("scheduler_permit_wait_duration_seconds", "Unschedulable").Count(); got != 1 {
		t.Errorf("waits: got %d, want 1", got)
	}
	if s := c.Bind(t.Context(), "n0"); s != nil {
		t.Error(s)
	}
}

func TestArgsAreDecoded(t *testing.T) {
	type args struct {
		X int `json:"x"`
	}
	made, err := Args(args{3})
	if err != nil {
		t.Fatal(err)
	}
	for what, obj := range map[string]runtime.Object{
		"what Args makes": made,
		"JSON":            &runtime.Unknown{Raw: []byte(`{"x":3}`)},
		"YAML":            &runtime.Unknown{Raw: []byte("x: 3"), ContentType: runtime.ContentTypeYAML},
	} {
		var a args
		if err := DecodeInto(obj, &a); err != nil || a.X != 3 {
			t.Errorf("%s: got %v, %v", what, a, err)
		}
	}
	var a args
	if err := DecodeInto(nil, &a); err != nil {
		t.Errorf("nothing: %v", err)
	}
	if err := DecodeInto(&v1.Pod{}, &a); err == nil || err.Error() != "want args of type runtime.Unknown, got *v1.Pod" {
		t.Errorf("a pod: got %v", err)
	}
	if err := DecodeInto(&runtime.Unknown{Raw: []byte("x"), ContentType: "text/html"}, &a); err == nil || err.Error() != "not supported content type text/html" {
		t.Errorf("HTML: got %v", err)
	}
}

func FuzzDecodeInto(f *testing.F) {
	f.Add([]byte(`{"x":1}`), true)
	f.Add([]byte("x: [1, {y: 2}]"), false)
	f.Fuzz(func(t *testing.T, raw []byte, asJSON bool) {
		args := &runtime.Unknown{Raw: raw}
		if !asJSON {
			args.ContentType = runtime.ContentTypeYAML
		}
		var into map[string]any
		if err := DecodeInto(args, &into); err == nil && asJSON && raw != nil && !json.Valid(raw) {
			t.Errorf("%q is no JSON, and was taken", raw)
		}
	})
}

func TestRegistries(t *testing.T) {
	r := Registry{}
	if err := r.Register("A", nil); err != nil {
		t.Error(err)
	}
	for _, err := range []error{r.Register("A", nil), r.Merge(Registry{"A": nil})} {
		if fmt.Sprint(err) != "a plugin named A already exists" {
			t.Errorf("twice: got %v", err)
		}
	}
	if err := r.Merge(Registry{"B": nil}); err != nil || len(r) != 2 {
		t.Errorf("merging: %v, %v", err, r)
	}
	if err := r.Unregister("A"); err != nil {
		t.Error(err)
	}
	if err := r.Unregister("A"); fmt.Sprint(err) != "no plugin named A exists" {
		t.Errorf("gone: got %v", err)
	}
}

type panickingSorter struct{ plugin }

func (panickingSorter) Less(a, _ fwk.QueuedPodInfo) bool { panic("of " + a.GetPodInfo().GetPod().Name) }

func TestAQueueSortThatPanicsPutsNeitherFirst(t *testing.T) {
	var told []string
	env := &Environment{Met: func(plugin, point string, why *scan.Panic) { told = append(told, plugin+" at "+point+": "+why.Error()) }}
	r := Registry{"Sort": factoryOf(panickingSorter{"Sort"}), "Bind": factoryOf(binder{"Bind"})}
	p, err := NewProfile(t.Context(), profileOf("Sort", "Bind"), r, env)
	if err != nil {
		t.Fatal(err)
	}
	less := p.Less()
	of := func(name string) fwk.QueuedPodInfo {
		info, err := NewPodInfo(newPod(name))
		if err != nil {
			t.Fatal(err)
		}
		return &QueuedPodInfo{PodInfo: info}
	}
	if less(of("a"), of("b")) || less(of("b"), of("a")) {
		t.Error("one of two pods is first")
	}
	equal(t, "told", told, []string{"Sort at QueueSort: panic: of a", "Sort at QueueSort: panic: of b"})
}

func TestAPieceThatPanicsEndsAllAndItsCallerPanics(t *testing.T) {
	var begun atomic.Int32
	defer func() {
		p, ok := recover().(*scan.Panic)
		if !ok || p.Value != "piece" || !strings.Contains(string(p.Stack), "profile_test.go") {
			t.Errorf("got %v, want the panic of the piece with its stack", p)
		}
		if n := begun.Load(); n == 0 || n == 1000 {
			t.Errorf("%d pieces of 1000 were begun, want the others left out", n)
		}
	}()
	parallelizer(2).Until(t.Context(), 1000, func(int) {
		begun.Add(1)
		panic("piece")
	}, "")
}

// TestWorkWithoutAContextIsDone: the library takes a context of nil.
func TestWorkWithoutAContextIsDone(t *testing.T) {
	var none context.Context
	var done atomic.Int32
	parallelizer(2).Until(none, 10, func(int) { done.Add(1) }, "")
	if n := done.Load(); n != 10 {
		t.Errorf("%d pieces were done, want 10", n)
	}
}
