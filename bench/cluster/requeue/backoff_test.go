package requeue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// testPoppedEarly: a pod that backs off for seconds is tried at once where nothing else is
// to be done.
func testPoppedEarly(t *testing.T, s meteredRig) {
	s = s.in(t)
	s.cleanedUp()
	s.prepare(there(bare("a").Taint("k:NoSchedule").Obj()))
	s.wait(trial{pod: pod().Obj(), refused: []string{"TaintToleration"}})
	// Each try in vain doubles its backoff: 1, 2, 4, 8 seconds.
	for i, tolerated := range []string{"x", "y", "z"} {
		before := s.after("UnschedulablePodUpdate", tolerate(tolerated))
		s.until(fmt.Sprintf("it is tried for the %d. time", i+2), func(now counts) bool {
			return now.since(before).sum(attempts, label("result", "unschedulable")) == 1 && now.sum(pending, label("queue", "unschedulable")) == 1
		})
	}
	before := s.after("NodeUpdateNodeTaint", changeNode("a", `{"spec": {"taints": null}}`))
	if got := s.Bound(key); got != "a" {
		t.Errorf("got node %s, want a", got)
	}
	d := s.count().since(before)
	for event, want := range map[string]float64{"PopFromBackoffQ": 1, "BackoffComplete": 0} {
		if got := d.sum(incoming, label("queue", "active"), label("event", event)); got != want {
			t.Errorf("pods made active by %s: got %v, want %v; counted since:\n%s", event, got, want, d)
		}
	}
}

// noEntry is the namespace whose pods can't be bound by schedulers as long as it has the
// label of that name.
const noEntry = "no-entry"

// refuseBinds has the API server refuse binds in namespaces with that label, by a policy.
func (s meteredRig) refuseBinds() {
	s.T.Helper()
	fail := admissionv1.Fail
	policies := s.Admin.AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(s.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: noEntry},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: build.Selector(noEntry + "=yes"),
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}},
				}}},
			},
			MatchConditions: []admissionv1.MatchCondition{{Name: "schedulers", Expression: "request.userInfo.username in ['" +
				testbed.SchedulerUser + "', '" + testbed.CoordinatorUser + "']"}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "nobody gets in here"}},
		},
	}, metav1.CreateOptions{})
	s.Must(err)
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(s.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: noEntry},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: noEntry, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{})
	s.Must(err)
	s.Create(build.Namespace(noEntry, noEntry, "yes"))
	s.awaitEntry(false)
}

// awaitEntry waits until the API server lets pods of the namespace be bound, or not: it hears of the policy, and of the namespace's
// label, a moment after they are written.
func (s meteredRig) awaitEntry(yes bool) {
	s.T.Helper()
	as, err := s.CoordinatorClient()
	s.Must(err)
	s.Await(fmt.Sprintf("binds are let in: %t", yes), func(ctx context.Context) (string, bool) {
		err := as.CoreV1().Pods(noEntry).Bind(ctx, bindingOf(noEntry, "nobody", "a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return fmt.Sprint(err), (err == nil || apierrors.IsNotFound(err)) == yes
	})
}

// open lets pods of the namespace be bound, or not.
func (s meteredRig) open(yes bool) {
	s.T.Helper()
	n, err := s.Admin.CoreV1().Namespaces().Get(s.Context(), noEntry, metav1.GetOptions{})
	s.Must(err)
	n.Labels[noEntry] = map[bool]string{true: "no", false: "yes"}[yes]
	_, err = s.Admin.CoreV1().Namespaces().Update(s.Context(), n, metav1.UpdateOptions{})
	s.Must(err)
	s.awaitEntry(yes)
}

func bindingOf(namespace, name, node string) *v1.Binding {
	return &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Target: v1.ObjectReference{Kind: "Node", Name: node}}
}

// refused tells whether a pod's condition says that its bind was refused.
func refused(p *v1.Pod) bool {
	if p == nil || testbed.IsBound(p) {
		return false
	}
	c := testbed.ScheduledCondition(p)
	return c != nil && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonSchedulerError && strings.Contains(c.Message, "nobody gets in here")
}

// request is what a scheduler asked the API server for about one pod.
type request struct {
	at   time.Time
	code int32
}

// requests are those to write, by what they say: the verb, the resource and the pod.
func (s meteredRig) requests() map[string][]request {
	s.T.Helper()
	all := map[string][]request{}
	for _, e := range s.Audited() {
		if r := e.ObjectRef; r != nil && r.Resource == "pods" && testbed.IsScheduler(e.User.Username) && e.ResponseStatus != nil {
			what := fmt.Sprintf("%s %s %s/%s", e.Verb, r.Subresource, r.Namespace, r.Name)
			all[what] = append(all[what], request{e.RequestReceivedTimestamp.Time, e.ResponseStatus.Code})
		}
	}
	for _, list := range all {
		slices.SortFunc(list, func(a, b request) int { return a.at.Compare(b.at) })
	}
	return all
}

// wantBackoff checks that each bind of a pod came no earlier after the refusal before than
// its backoff allows: the n-th refusal has it wait for 2^(n−1) seconds, one less by the
// rounding of both ends to whole seconds, and 10 at the most.
func (s meteredRig) wantBackoff(key string, binds []request) {
	s.T.Helper()
	for i := 1; i < len(binds); i++ {
		least := min(time.Second<<(i-1), 10*time.Second) - time.Second
		if got := binds[i].at.Sub(binds[i-1].at); got < least {
			s.T.Errorf("%s: bind %d came %v after refusal %d, want no less than %v", key, i+1, got, i, least)
		}
	}
}

// testRefusedBinds has the API server refuse the binds of pods.
func testRefusedBinds(t *testing.T, s meteredRig) {
	s = s.in(t)
	s.cleanedUp()
	s.open(false)
	s.prepare(there(small("a").Obj(), small("b").CPU("1").Label("side", "b").Obj()))
	before := s.count()
	in := func(name string) *build.PodBuilder { return build.Pod(name).Namespace(noEntry) }
	s.Create(
		in("again").CPU("100m").Obj(), in("gone").CPU("100m").Obj(), in("taken").CPU("100m").Obj(), in("replaced").CPU("100m").Obj(),
		in("big").CPU("1").NodeSelector("side", "b").Obj(),
	)
	s.Until("are refused", refused, noEntry+"/again", noEntry+"/gone", noEntry+"/taken", noEntry+"/replaced", noEntry+"/big")
	s.wantFailedEvent("again")

	// What they were to take is free again: this one needs all of the node.
	s.Delete(noEntry + "/big")
	s.Create(build.Pod("all").CPU("1").NodeSelector("side", "b").Obj())
	if got := s.Bound("default/all"); got != "b" {
		t.Errorf("a pod that needs the room of one that was refused: got node %s, want b", got)
	}
	s.Delete(noEntry + "/gone")
	s.Must(s.Admin.CoreV1().Pods(noEntry).Bind(s.Context(), bindingOf(noEntry, "taken", "b"), metav1.CreateOptions{}))
	takenAt := time.Now()
	s.Delete(noEntry + "/replaced")
	s.Create(in("replaced").CPU("200m").Obj())
	s.Until("are refused", refused, noEntry+"/replaced")

	// Whatever happens, an error's backoff is waited out.
	s.Create(bare("c").CPU("0").Obj())
	s.Await("it is refused twice", func(context.Context) (string, bool) {
		n := len(s.requests()["create binding "+noEntry+"/again"])
		return fmt.Sprint(n, " binds"), n >= 2
	})
	s.open(true)
	s.Bound(noEntry + "/again")
	s.Bound(noEntry + "/replaced")
	now := s.until("nothing is pending", func(now counts) bool { return now.sum(pending) == 0 })
	d := now.since(before)
	inBackoff := label("queue", "backoff")
	rejected := d.sum(incoming, inBackoff) - d.sum(incoming, inBackoff, label("event", "ScheduleAttemptFailure"))
	if early := d.sum(incoming, label("event", "PopFromBackoffQ")); early > rejected || d.sum(attempts, label("result", "error")) < 6 {
		t.Errorf("got %v pods popped early, want none but the %v that no node had room for, and at least six errors; counted since:\n%s", early, rejected, d)
	}
	s.judgeRequests(takenAt)
}

func (s meteredRig) judgeRequests(takenAt time.Time) {
	s.T.Helper()
	requests := s.requests()
	again := requests["create binding "+noEntry+"/again"]
	for i, r := range again {
		if want := i == len(again)-1; (r.code == http.StatusCreated) != want {
			s.T.Errorf("bind %d of %d: got code %d, want it to succeed: %t", i+1, len(again), r.code, want)
		}
	}
	s.wantBackoff(noEntry+"/again", again)
	if got := requests["create binding "+noEntry+"/gone"]; len(got) > 2 {
		s.T.Errorf("binds of a pod that was deleted after its first: got %v, want no more than another", got)
	}
	for _, r := range requests["patch status "+noEntry+"/taken"] {
		if r.at.After(takenAt) && r.code == http.StatusOK {
			s.T.Errorf("the condition of a pod that another had bound was written %v later", r.at.Sub(takenAt))
		}
	}
	if c := testbed.ScheduledCondition(s.Pods.Get(noEntry + "/taken")); c.Status != v1.ConditionTrue {
		s.T.Errorf("condition of a pod that another has bound: got %s %s, want True", c.Status, c.Message)
	}
}

// wantFailedEvent checks what people are told about a bind that is refused.
func (s meteredRig) wantFailedEvent(name string) {
	s.T.Helper()
	s.Await("the event FailedScheduling is there", func(ctx context.Context) (string, bool) {
		list, err := s.Admin.EventsV1().Events(noEntry).List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=" + name})
		s.Must(err)
		got := map[string]bool{}
		for _, e := range list.Items {
			got[fmt.Sprintf("%s %s %s %s", e.Type, e.Reason, e.Action, e.Note)] = true
			if e.Type == v1.EventTypeWarning && e.Reason == "FailedScheduling" && e.Action == "Scheduling" && strings.Contains(e.Note, "nobody gets in here") {
				return "", true
			}
		}
		text, _ := json.Marshal(slices.Sorted(maps.Keys(got)))
		return string(text), false
	})
}

// testBoundByAnother has another bind pods while the scheduler does: whoever comes first, no
// pod is ever said not to be scheduled after it was.
func testBoundByAnother(t *testing.T, s meteredRig) {
	s = s.in(t)
	s.cleanedUp()
	s.prepare(there(small("a").CPU("100").Obj(), bare("b").Unschedulable().Obj()))
	var keys []string
	for i := range 60 {
		name := fmt.Sprintf("race-%02d", i)
		keys = append(keys, "default/"+name)
		s.Create(build.Pod(name).CPU("100m").Obj())
		err := s.Admin.CoreV1().Pods("default").Bind(s.Context(), bindingOf("default", name, "b"), metav1.CreateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	won := map[string]int{}
	for _, p := range s.Until("are bound", testbed.IsBound, keys...) {
		won[p.Spec.NodeName]++
	}
	t.Logf("bound by the scheduler: %d, by another: %d", won["a"], won["b"])
	s.until("nothing is pending", func(now counts) bool { return now.sum(pending) == 0 })
	// What is told of a later pod is told after what may be told of these.
	s.Create(build.Pod("last").CPU("200").Obj())
	s.Unschedulable("default/last")
	for _, k := range keys {
		p := s.Pods.Get(k)
		if c := testbed.ScheduledCondition(p); !rig.Upstream() && (c == nil || c.Status != v1.ConditionTrue) {
			t.Errorf("%s: got %s, want it scheduled", k, testbed.Describe(p))
		}
	}
}

// testReplaced deletes and makes a pod under one name again and again, as a StatefulSet does,
// while it waits.
func testReplaced(t *testing.T, s meteredRig) {
	s = s.in(t)
	s.cleanedUp()
	s.prepare(there(small("a").Obj()))
	for range 5 {
		s.Create(build.Pod("web-0").CPU("8").Obj())
		s.Unschedulable("default/web-0")
		s.Must(s.Admin.CoreV1().Pods("default").Delete(s.Context(), "web-0", now()))
	}
	for range 5 {
		s.Create(build.Pod("web-0").CPU("8").Obj())
		s.Must(s.Admin.CoreV1().Pods("default").Delete(s.Context(), "web-0", now()))
	}
	s.Create(build.Pod("web-0").CPU("2").Obj())
	if got := s.Bound("default/web-0"); got != "a" {
		t.Errorf("got node %s, want a", got)
	}
	s.until("nothing is pending", func(now counts) bool { return now.sum(pending) == 0 })
	s.Create(build.Pod("last").CPU("8").Obj())
	s.Unschedulable("default/last")
	if c := testbed.ScheduledCondition(s.Pods.Get("default/web-0")); c.Status != v1.ConditionTrue {
		t.Errorf("condition: got %s %q, want True, for what was said of those before is not about this one", c.Status, c.Message)
	}
}
