package shadow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/bench/judge/oracle/conformance"
	recorder "github.com/shardsched/shardsched/coordinator/record"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

var seed = flag.Uint64("seed", 1, "of what comes, changes and goes")

// user is whom the shadow acts as: the account of deploy/rbac/shadow.yaml.
const user = "system:serviceaccount:shardsched:shardsched-shadow"

// policy keeps all that the shadow asks for, what kube-scheduler does, and what anybody else writes.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + user + `", "` + testbed.SchedulerUser + `"]
- level: None
  users: ["system:apiserver"]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
`

// rig is a bed with kube-scheduler, and the shadow's account.
type rig struct {
	*testbed.Cluster
	program, kubeconfig string
	granted             sets.Set[string]
}

func newRig(t *testing.T) *rig {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, file, policy)
	r := &rig{Cluster: testbed.New(t, testbed.Config{APIServerArgs: []string{"--audit-policy-file=" + file}})}
	var err error
	if r.program, err = r.Shardsched(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Controllers("persistentvolume", "provisioner", "kubelet")
	r.account(t)
	return r
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// account makes what deploy/rbac/shadow.yaml has, and a kubeconfig with a token of the account.
func (r *rig) account(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/rbac/shadow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var account v1.ServiceAccount
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	for i, into := range []any{&account, &role, &binding} {
		if err := yaml.UnmarshalStrict(bytes.Split(text, []byte("\n---\n"))[i], into); err != nil {
			t.Fatal(err)
		}
	}
	r.granted = sets.New[string]()
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				r.granted.Insert(strings.TrimSuffix(verb+" "+resource+"."+rule.APIGroups[0], "."))
			}
		}
	}
	ctx, how := t.Context(), metav1.CreateOptions{}
	_, namespaced := r.Admin.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: account.Namespace}}, how)
	accounts := r.Admin.CoreV1().ServiceAccounts(account.Namespace)
	_, made := accounts.Create(ctx, &account, how)
	_, ruled := r.Admin.RbacV1().ClusterRoles().Create(ctx, &role, how)
	_, bound := r.Admin.RbacV1().ClusterRoleBindings().Create(ctx, &binding, how)
	token, err := accounts.CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, how)
	if err := errors.Join(namespaced, made, ruled, bound, err); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(r.AdminKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.AuthInfos = map[string]*clientapi.AuthInfo{"shadow": {Token: token.Status.Token}}
	config.Contexts[config.CurrentContext].AuthInfo = "shadow"
	r.kubeconfig = filepath.Join(t.TempDir(), "shadow.kubeconfig")
	if err := clientcmd.WriteToFile(*config, r.kubeconfig); err != nil {
		t.Fatal(err)
	}
}

// shadowed is a running shadow.
type shadowed struct {
	*process.Process
	address string // of /report.json and /metrics
}

// shadow starts one by a configuration file, and returns when it watches.
func (r *rig) shadow(t *testing.T, name, config string, args ...string) *shadowed {
	t.Helper()
	file, address := filepath.Join(t.TempDir(), "kube-scheduler.yaml"), process.MustFreeAddress(t)
	write(t, file, "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+config)
	p, err := r.Run(name, r.program, append([]string{"shadow", "--kubeconfig", r.kubeconfig, "--config", file, "--http-listen", address}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Line(r.Context(), "watching "); err != nil {
		t.Fatalf("%v; its last lines:\n%s", err, strings.Join(p.Tail(20), "\n"))
	}
	return &shadowed{p, address}
}

// report is as much of a report as the tests look at.
type report struct {
	When struct {
		Over bool
	}
	Cluster struct {
		Nodes int
	}
	Agreement struct {
		Judged  int
		Classes []struct {
			Class string
			Pods  int
		}
		Regret    []struct{ From, To, Pods int }
		LookedAt  float64
		NotJudged []struct {
			What string
			Pods int
		}
		Disagreements []disagreement
	}
}

type disagreement struct {
	Class, Namespace, Pod, Theirs, Ours, Why string
	Regret                                   int64
	Explanation                              string
}

// of counts the decisions of classes.
func (r *report) of(classes ...string) (n int) {
	for _, c := range r.Agreement.Classes {
		if slices.Contains(classes, c.Class) {
			n += c.Pods
		}
	}
	return n
}

// agreeing are the classes of decisions that ours could have made.
var agreeing = []string{"same", "tie", "neither"}

func (s *shadowed) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	return text, err
}

func (s *shadowed) report(ctx context.Context) (*report, error) {
	text, err := s.get(ctx, "/report.json")
	if err != nil {
		return nil, err
	}
	out := &report{}
	return out, json.Unmarshal(text, out)
}

// untilJudged waits until so many decisions that gave a pod a node have been judged, or counted as those that can't be.
func (r *rig) untilJudged(t *testing.T, s *shadowed, want int) *report {
	t.Helper()
	ctx := r.Context()
	for {
		got, err := s.report(ctx)
		if err != nil {
			t.Fatalf("%v; the shadow's last lines:\n%s", err, strings.Join(s.Tail(20), "\n"))
		}
		n := got.of("same", "tie", "lower", "refused", "only_theirs")
		for _, c := range got.Agreement.NotJudged {
			n += c.Pods
		}
		if n >= want {
			return got
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%d of %d decisions judged: %+v", n, want, got.Agreement)
		}
	}
}

// binds counts the pods that kube-scheduler has bound up to now.
func (r *rig) binds() (n int) {
	for _, e := range r.Audited() {
		if o := e.ObjectRef; e.User.Username == testbed.SchedulerUser && o != nil && o.Subresource == "binding" && e.ResponseStatus.Code == http.StatusCreated {
			n++
		}
	}
	return n
}

// TestAgreement runs a shadow beside a kube-scheduler that looks at all nodes: they agree on every pod.
func TestAgreement(t *testing.T) {
	r := newRig(t)
	t.Logf("seed %d", *seed)
	c := newCrowd(r.Cluster, "p", *seed)
	c.fill()
	const config = "percentageOfNodesToScore: 100\n"
	c.Upstream(testbed.Scheduler{Config: config})
	dir := t.TempDir()
	record := filepath.Join(dir, "mirror.record")
	s := r.shadow(t, "shadow", config, "--record", record, "--report", filepath.Join(dir, "report.html"), "--report", filepath.Join(dir, "report.json"))
	c.crowdPool()
	c.run()
	binds := r.binds()
	got := r.untilJudged(t, s, binds)
	for _, d := range got.Agreement.Disagreements {
		t.Errorf("%s: pod %s: theirs %s, ours %s, regret %d: %s\n%s", d.Class, d.Pod, d.Theirs, d.Ours, d.Regret, d.Why, d.Explanation)
	}
	if n := got.Agreement.Judged - got.of(agreeing...); n > 0 {
		t.Errorf("%d disagreements, want none", n)
	}
	t.Logf("%d binds: %+v, not judged %+v", binds, got.Agreement.Classes, got.Agreement.NotJudged)
	metrics, err := s.get(t.Context(), "/metrics")
	if err != nil || !bytes.Contains(metrics, []byte("shardsched_shadow_")) {
		t.Errorf("/metrics: got %v, want metrics of a shadow", err)
	}
	r.end(t, s)
	last := r.read(t, filepath.Join(dir, "report.json"))
	if !last.When.Over || last.Agreement.Judged < got.Agreement.Judged {
		t.Errorf("the last report is over: %v, with %d judged; want that, with %d or more", last.When.Over, last.Agreement.Judged, got.Agreement.Judged)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "report.html")); err != nil || !bytes.Contains(page, []byte("</html>")) {
		t.Errorf("report.html: %v, want a page", err)
	}
	flight := judge(t, record, config)
	if flight.Judgements < got.Agreement.Judged {
		t.Errorf("%d judgements in the record, want one for each of %d decisions, or more", flight.Judgements, got.Agreement.Judged)
	}
	r.wantReads(t)
}

// TestDisagreements runs a shadow beside a kube-scheduler that fills nodes up where the shadow's configuration spreads: upstream's plugins
// judge each disagreement as ours do. A shadow that has nothing to see ends by --for, and leaves everything as it is.
func TestDisagreements(t *testing.T) {
	r := newRig(t)
	c := newCrowd(r.Cluster, "q", *seed)
	c.fill()
	theirs := c.Upstream(testbed.Scheduler{Config: `percentageOfNodesToScore: 100
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}}
`})
	const config = "percentageOfNodesToScore: 100\n"
	dir := t.TempDir()
	record := filepath.Join(dir, "mirror.record")
	s := r.shadow(t, "shadow", config, "--record", record)
	var all []runtime.Object
	var keys []string
	for i := range 80 {
		name := fmt.Sprintf("q%02d", i)
		all = append(all, build.Pod(name).CPU("500m").Memory("1Gi").Obj())
		keys = append(keys, "default/"+name)
	}
	c.CreateAll(all...)
	c.Until("are bound", testbed.IsBound, keys...)
	got := r.untilJudged(t, s, r.binds())
	r.end(t, s)
	if got.of("lower") < len(keys)/2 || got.of("lower") != len(got.Agreement.Disagreements) {
		t.Errorf("got %+v with %d told, want half of %d pods on a node with a lower score, each told", got.Agreement.Classes,
			len(got.Agreement.Disagreements), len(keys))
	}
	if flight := judge(t, record, config); flight.Worse < got.of("lower") {
		t.Errorf("upstream's plugins have a better node for %d judgements, want it for each of %d disagreements", flight.Worse, got.of("lower"))
	}
	regrets := judgements(t, record)
	for _, d := range got.Agreement.Disagreements {
		if want := regrets[d.Namespace+"/"+d.Pod+" on "+d.Theirs]; !slices.Contains(want, d.Regret) {
			t.Errorf("pod %s on %s: a regret of %d, and upstream has judged %v", d.Pod, d.Theirs, d.Regret, want)
		}
	}

	theirs.Terminate() // it renews its Lease
	<-theirs.Done()
	c.Until("run", func(p *v1.Pod) bool { return p != nil && p.Status.Phase == v1.PodRunning }, keys...) // a kubelet's last word
	before := r.versions(t)
	report := filepath.Join(dir, "report.json")
	quiet := r.shadow(t, "quiet", config, "--for", "1s", "--report", report)
	r.over(t, quiet)
	if last := r.read(t, report); !last.When.Over || last.Cluster.Nodes != nodes {
		t.Errorf("got %+v, want the last report, of %d nodes", last, nodes)
	}
	if after := r.versions(t); !maps.Equal(before, after) {
		t.Errorf("a shadow that has ended leaves another cluster:\n%v\nwant\n%v", after, before)
	}
	r.wantReads(t)
}

// judgements are the regrets that a record has of pods on the nodes that kube-scheduler has chosen.
func judgements(t *testing.T, file string) map[string][]int64 {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := map[string][]int64{}
	for records := recorder.NewReader(in); ; {
		next, err := records.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if j := next.GetJudgement(); j.GetPasses() {
			at := j.GetDecision().GetPod() + " on " + j.GetNode()
			out[at] = append(out[at], j.GetDecision().GetScore()-j.GetScore())
		}
	}
}

// versions are the resource versions of what a scheduler could write.
func (r *rig) versions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "nodes"}, {Version: "v1", Resource: "events"},
		{Version: "v1", Resource: "persistentvolumes"}, {Version: "v1", Resource: "persistentvolumeclaims"},
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, {Group: "storage.k8s.io", Version: "v1", Resource: "volumeattachments"},
	} {
		client, err := metadata.NewForConfig(metadata.ConfigFor(r.AdminREST))
		if err != nil {
			t.Fatal(err)
		}
		list, err := client.Resource(resource).List(r.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if o.Namespace == metav1.NamespaceSystem && resource.Resource == "leases" && o.Name != "kube-scheduler" {
				continue // the API server's own
			}
			out[resource.Resource+" "+o.Namespace+"/"+o.Name] = o.ResourceVersion
		}
	}
	return out
}

// end has a shadow end, and waits for that.
func (r *rig) end(t *testing.T, s *shadowed) {
	t.Helper()
	s.Terminate()
	r.over(t, s)
}

// over waits until a shadow has ended with a report.
func (r *rig) over(t *testing.T, s *shadowed) {
	t.Helper()
	select {
	case <-s.Done():
	case <-r.Context().Done():
		t.Fatalf("the shadow goes on; its last lines:\n%s", strings.Join(s.Tail(20), "\n"))
	}
	var exit *exec.ExitError
	if err := s.Err(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 2) {
		t.Errorf("the shadow ended with %v, want exit code 0 or 2; its last lines:\n%s", err, strings.Join(s.Tail(20), "\n"))
	}
}

func (r *rig) read(t *testing.T, file string) *report {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := &report{}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// judge holds each judgement of a record against upstream's own plugins.
func judge(t *testing.T, file, config string) *conformance.FlightResult {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + config
	flight := &conformance.Flight{Config: []byte(text), Record: in, Most: 10}
	result, err := flight.Replay(klog.NewContext(t.Context(), klog.Logger{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range result.Differences {
		t.Errorf("%v", d)
	}
	if result.Ended != "" {
		t.Errorf("the record ends before its time: %s", result.Ended)
	}
	t.Logf("by upstream's plugins: %d judgements, %d of a node that is not the best", result.Judgements, result.Worse)
	return result
}

// wantReads holds what the shadow has asked for against its role, both ways: nothing else, and all of it.
func (r *rig) wantReads(t *testing.T) {
	t.Helper()
	used, reviews := sets.New[string](), 0
	for _, e := range r.Audited() {
		switch o := e.ObjectRef; {
		case e.User.Username != user:
		case e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden:
			t.Errorf("refused: %s", testbed.AuditLine(e))
		case o == nil: // discovery
			if e.Verb != "get" {
				t.Errorf("got %s %s, want get", e.Verb, e.RequestURI)
			}
		case isReview(e):
			reviews++
		default:
			used.Insert(strings.TrimSuffix(e.Verb+" "+o.Resource+"."+o.APIGroup, "."))
		}
	}
	if reviews == 0 || reviews%2 != 0 {
		t.Errorf("%d access reviews, want two of each shadow", reviews)
	}
	if more := used.Difference(r.granted); len(more) > 0 {
		t.Errorf("asked for, and not granted: %q", sets.List(more))
	}
	for permission := range r.granted.Difference(used) {
		// A watch begins with a list where the API server can do that; older ones are asked for lists.
		if resource, list := strings.CutPrefix(permission, "list "); !list || !used.Has("watch "+resource) {
			t.Errorf("granted, and not asked for: %s", permission)
		}
	}
}

// isReview tells whether it was asked what the asker may do.
func isReview(e auditv1.Event) bool {
	return e.Verb == "create" && e.ObjectRef.Resource == "selfsubjectaccessreviews"
}
