package plugins

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/cluster/plugins/scripted"
	"github.com/shardsched/shardsched/cmd/shardsched-plugins/load"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// side is one of the two schedulers, for a test.
type side struct {
	*testbed.Cluster
	// name is the scheduler's, its profiles' and its namespace's.
	name string
	run  *testbed.SchedulerProcess

	pods []string // those of the story, in the order of their creation
}

const theirs, ours = "theirs", "ours"

// Profiles of a side: its name is that of the scripted plugins', the others follow it.
const (
	gangProfile  = "-gang"
	quotaProfile = "-quota"
	loadProfile  = "-load"
)

// configuration is that of a side.
func configuration(name string) string {
	return strings.ReplaceAll(`
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
profiles:
- schedulerName: SIDE
  plugins:
    queueSort: {disabled: [{name: "*"}], enabled: [{name: Sort}]}
    multiPoint: {enabled: [{name: A, weight: 100}, {name: B, weight: 10}]}
    bind: {enabled: [{name: A}, {name: B}]}
- schedulerName: SIDE-gang
  plugins:
    queueSort: {disabled: [{name: "*"}], enabled: [{name: Sort}]}
    multiPoint: {enabled: [{name: Gang}]}
  pluginConfig:
  - {name: Gang, args: {permitTimeout: 1500ms}}
- schedulerName: SIDE-quota
  plugins:
    queueSort: {disabled: [{name: "*"}], enabled: [{name: Sort}]}
    multiPoint: {enabled: [{name: NamespaceQuota}]}
  pluginConfig:
  - {name: NamespaceQuota, args: {quotas: [{namespace: SIDE, max: {cpu: "3"}}]}}
- schedulerName: SIDE-load
  plugins:
    queueSort: {disabled: [{name: "*"}], enabled: [{name: Sort}]}
    multiPoint: {enabled: [{name: LoadAware, weight: 100}]}
`, "SIDE", name)
}

// pair is both, on one API server.
type pair struct {
	*testbed.Cluster
	theirs, ours *side
	dynamic      dynamic.Interface
}

func newPair(t *testing.T) *pair {
	c := testbed.New(t, testbed.Config{NoAudit: true})
	p := &pair{Cluster: c}
	var err error
	if p.dynamic, err = dynamic.NewForConfig(jsonConfig(c)); err != nil {
		t.Fatal(err)
	}
	p.makeWidgets()
	for _, ns := range []string{theirs, ours} {
		c.Create(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		o := build.Node(n).CPU("64").Memory("256Gi").Pods("1000").Label("name", n).Obj()
		if percent := map[string]string{"n1": "90", "n2": "20"}[n]; percent != "" {
			o.Annotations = map[string]string{load.CPU: percent}
		}
		c.Create(o)
	}
	p.theirs = &side{Cluster: c, name: theirs, run: c.Upstream(testbed.Scheduler{Name: theirs, Config: configuration(theirs), Program: testbed.PluginsTheirs})}
	p.ours = &side{Cluster: c, name: ours, run: c.Coordinator(testbed.Scheduler{Name: ours, Config: configuration(ours), Program: testbed.PluginsOurs})}
	return p
}

var (
	crds    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets = schema.GroupVersionResource{Group: "script.shardsched.io", Version: "v1", Resource: "widgets"}
)

// makeWidgets makes the custom resource that plugins wait for, and lets schedulers read it.
func (p *pair) makeWidgets() {
	p.T.Helper()
	ctx := p.Context()
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.script.shardsched.io"},
		"spec": map[string]any{
			"group": widgets.Group, "scope": "Cluster",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{
				"name": widgets.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	if _, err := p.dynamic.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		p.T.Fatal(err)
	}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := p.dynamic.Resource(widgets).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	if err != nil {
		p.T.Fatalf("widgets are not served: %v", err)
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{widgets.Group}, Resources: []string{"widgets"}, Verbs: []string{"get", "list", "watch"}}},
	}
	if _, err := p.Admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		p.T.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: testbed.SchedulerUser},
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: testbed.CoordinatorUser},
		},
	}
	if _, err := p.Admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		p.T.Fatal(err)
	}
}

// widget makes a Widget.
func (s *side) widget(d dynamic.Interface, name string) {
	s.T.Helper()
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "script.shardsched.io/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
	}}
	_, err := d.Resource(widgets).Create(s.Context(), w, metav1.CreateOptions{})
	s.must(err)
}

func (s *side) must(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// key is a pod's.
func (s *side) key(pod string) string { return s.name + "/" + pod }

// says are a pod's annotations, without their prefix: key, value, key, value …
func says(p *build.PodBuilder, of ...string) *build.PodBuilder {
	o := p.Obj()
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	for i := 0; i < len(of); i += 2 {
		o.Annotations[scripted.Prefix+of[i]] = of[i+1]
	}
	return p
}

// create makes a pod of the side's profile with this suffix.
func (s *side) create(p *build.PodBuilder, profile string) {
	s.T.Helper()
	o := p.Obj()
	o.Namespace, o.Spec.SchedulerName = s.name, s.name+profile
	for i := range o.Spec.Containers {
		// The server wants that of what is not CPU or memory.
		o.Spec.Containers[i].Resources.Limits = o.Spec.Containers[i].Resources.Requests
	}
	s.pods = append(s.pods, o.Name)
	s.Create(o)
}

// pod makes a pod with annotations.
func (s *side) pod(name string, of ...string) {
	s.T.Helper()
	s.create(says(build.Pod(name), of...), "")
}

// patch changes annotations, and a label with them: that is an event for the queue.
func (s *side) patch(pod string, of ...string) {
	s.T.Helper()
	var annotations []string
	for i := 0; i < len(of); i += 2 {
		annotations = append(annotations, fmt.Sprintf("%q: %q", scripted.Prefix+of[i], of[i+1]))
	}
	text := fmt.Sprintf(`{"metadata": {"annotations": {%s}}}`, strings.Join(annotations, ", "))
	_, err := s.Admin.CoreV1().Pods(s.name).Patch(s.Context(), pod, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	s.must(err)
}

// label sets a pod's label.
func (s *side) label(pod, value string) {
	s.T.Helper()
	text := fmt.Sprintf(`{"metadata": {"labels": {"script": %q}}}`, value)
	_, err := s.Admin.CoreV1().Pods(s.name).Patch(s.Context(), pod, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	s.must(err)
}

// saw waits until the plugin has been called for a pod: point, plugin and whatever follows.
func (s *side) saw(pod, call string) {
	s.T.Helper()
	_, err := s.run.Line(s.Context(), "script "+s.key(pod)+" "+call)
	s.must(err)
}

// bound waits until pods are bound and PostBind is over.
func (s *side) bound(pods ...string) {
	s.T.Helper()
	for _, p := range pods {
		s.Bound(s.key(p))
		s.saw(p, "PostBind B ")
	}
}

// refused waits until a scheduler has said of pods that they get no node for now.
func (s *side) refused(pods ...string) {
	s.T.Helper()
	keys := make([]string, len(pods))
	for i, p := range pods {
		keys[i] = s.key(p)
	}
	s.Until("are decided", func(p *v1.Pod) bool {
		if p == nil {
			return false
		}
		c := testbed.ScheduledCondition(p)
		return p.Spec.NodeName != "" || c != nil && c.Status == v1.ConditionFalse && c.Reason != v1.PodReasonSchedulingGated
	}, keys...)
}

// reason waits for a pod's condition to have a reason.
func (s *side) reason(pod, reason string) {
	s.T.Helper()
	s.Until("have the reason "+reason, func(p *v1.Pod) bool {
		if p == nil {
			return false
		}
		c := testbed.ScheduledCondition(p)
		return c != nil && c.Reason == reason
	}, s.key(pod))
}

// delete deletes a pod at once.
func (s *side) delete(pod string) {
	s.T.Helper()
	s.Delete(s.key(pod))
}

// calls are the calls for a pod. Those that go on at the same time for several nodes are sorted.
func (s *side) calls(pod string) []string {
	prefix := "script " + s.key(pod) + " "
	var out []string
	for _, line := range s.run.Tail(math.MaxInt) {
		if call, ok := strings.CutPrefix(line, prefix); ok {
			out = append(out, call)
		}
	}
	for i := 0; i < len(out); {
		end := i + 1
		for end < len(out) && abreast(out[i]) != "" && abreast(out[end]) == abreast(out[i]) {
			end++
		}
		slices.SortStableFunc(out[i:end], func(a, b string) int { return cmp.Compare(within(a), within(b)) })
		i = end
	}
	return out
}

// abreast names what goes on at the same time as a call, in no order; empty: nothing.
func abreast(call string) string {
	switch point(call) {
	case "Filter", "AddPod", "RemovePod":
		return "Filter"
	case "Score", "NormalizeScore", "PreEnqueue":
		return point(call)
	}
	return ""
}

// within is what calls that go on at the same time are sorted by: the node or, of those without
// one, the plugin. The calls for one have an order.
func within(call string) string {
	f := strings.Fields(call)
	if strings.TrimSuffix(f[2], ":") == "-" {
		return f[1]
	}
	return f[2]
}

func point(call string) string { return strings.Fields(call)[0] }

// events are what schedulers told of each pod, without counting.
func (s *side) events(ctx context.Context) (map[string][]string, error) {
	list, err := s.Admin.EventsV1().Events(s.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, e := range list.Items {
		line := s.eventLine(&e)
		if of := e.Regarding.Name; !slices.Contains(out[of], line) {
			out[of] = append(out[of], line)
		}
	}
	for of := range out {
		slices.Sort(out[of])
	}
	return out, nil
}

func (s *side) eventLine(e *eventsv1.Event) string {
	return strings.ReplaceAll(fmt.Sprintf("%s %s %s by %s: %s", e.Type, e.Reason, e.Action, e.ReportingController, e.Note), s.name, "SIDE")
}

// outcome is all that can be seen of the story's pods, a line each.
func (s *side) outcome(ctx context.Context) ([]string, error) {
	events, err := s.events(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range s.pods {
		add := func(what, line string) {
			out = append(out, name+": "+what+": "+uid.ReplaceAllString(s.neutral(line), "UID"))
		}
		for _, call := range s.calls(name) {
			add("call", call)
		}
		p := s.Pods.Get(s.key(name))
		if p == nil {
			add("pod", "is gone")
			continue
		}
		for _, e := range events[name] {
			add("event", e)
		}
		add("pod", fmt.Sprintf("node %q, nominated %q", p.Spec.NodeName, p.Status.NominatedNodeName))
		if c := testbed.ScheduledCondition(p); c != nil && p.Spec.NodeName == "" { // upstream may write a failure late
			add("condition", fmt.Sprintf("%s %s %q", c.Status, c.Reason, c.Message))
		}
	}
	return out, nil
}

// neutral says the same of both sides. Statuses of nodes are sorted anew.
func (s *side) neutral(line string) string {
	other := theirs
	if s.name == theirs {
		other = ours
	}
	line = strings.NewReplacer("-"+s.name, "-SIDE", s.name+"/", "SIDE/", "-"+other, "-OTHER").Replace(line)
	before, rest, listed := strings.Cut(line, " - [")
	if listed {
		list, after, _ := strings.Cut(rest, "]")
		statuses := strings.Split(list, "; ")
		slices.Sort(statuses)
		line = before + " - [" + strings.Join(statuses, "; ") + "]" + after
	}
	return line
}

var uid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
