package surfaces

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// mark stands in everything that nobody may read in a log: what follows it tells what it was.
const mark = "s3cr3t-"

// secretive marks the values of a pod that people keep secrets in.
func secretive(p *v1.Pod) *v1.Pod {
	p.Spec.SchedulerName = "secretive"
	p.Annotations = map[string]string{"example.com/key": mark + "annotation", "example.com/json": `{"password":"` + mark + `json"}`}
	c := &p.Spec.Containers[0]
	c.Env = append(c.Env, v1.EnvVar{Name: "TOKEN", Value: mark + "env"})
	c.Command, c.Args = []string{"run", "--password=" + mark + "command"}, []string{mark + "argument"}
	c.LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80), Scheme: v1.URISchemeHTTP,
		HTTPHeaders: []v1.HTTPHeader{{Name: "Authorization", Value: mark + "header"}}}}}
	return p
}

// secrets has a coordinator and a worker log as much as they do below client-go's bodies (-v 8), while pods are placed, refused, preempted,
// deleted, and fail with an error, and looks for what was marked in all that they write or show.
func (r *rig) secrets(t *testing.T) {
	asked := make(chan struct{}, 64)
	extender := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if user, password, ok := q.BasicAuth(); !ok || user != "us" || password != mark+"extender" {
			t.Errorf("extender: got %q and a password: %t, want those of urlPrefix", user, ok)
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		http.Error(w, "no", http.StatusInternalServerError)
	}))
	defer extender.Close()
	_, port, err := net.SplitHostPort(extender.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ours := r.With(t).Coordinator(testbed.Scheduler{
		Name: "secretive", Cluster: "secretive",
		Args: []string{"--v=7", "--logging-format=json", "--tracing-local"},
		Config: fmt.Sprintf(`
leaderElection: {leaderElect: false}
profiles: [{schedulerName: secretive}]
extenders:
- urlPrefix: http://us:%sextender@127.0.0.1:%s/
  filterVerb: filter
  managedResources: [{name: example.com/managed}]
`, mark, port),
	})
	worker := r.With(t).Worker("secretive-worker", "--cluster=secretive", "--v=7")
	if _, err := ours.LineWith(r.Context(), "Worker joined", "secretive-worker"); err != nil {
		t.Fatal(err)
	}
	node := build.Node("secretive").CPU("4").Resource("example.com/managed", "1").Label("secretive", "yes").Taint("secretive=yes:NoSchedule").Obj()
	node.Annotations = map[string]string{"example.com/key": mark + "node"}
	own := func(name string) *build.PodBuilder {
		return build.Pod(name).NodeSelector("secretive", "yes").Toleration("secretive=yes:NoSchedule")
	}
	r.Create(node, secretive(own("placed").CPU("500m").Obj()), secretive(own("lesser").CPU("3").Obj()))
	r.Bound("default/placed")
	r.Bound("default/lesser")
	managed := secretive(own("managed").CPU("1m").Request("example.com/managed", "1").Obj())
	managed.Spec.Containers[0].Resources.Limits = v1.ResourceList{"example.com/managed": *resource.NewQuantity(1, resource.DecimalSI)}
	r.Create(secretive(own("refused").CPU("100").Obj()), managed,
		secretive(own("vip").CPU("3").Priority(10).Obj()))
	r.Unschedulable("default/refused")
	r.Until("are leaving", func(p *v1.Pod) bool { return p == nil || p.DeletionTimestamp != nil }, "default/lesser")
	r.Delete("default/lesser")
	r.Bound("default/vip")
	<-asked
	r.Delete("default/placed")
	signal(t, ours)
	if _, err := ours.LineWith(r.Context(), "Dump of scheduling queue"); err != nil {
		t.Fatal(err)
	}

	marks := []string{mark, r.SchedulerToken(), r.AdminToken()}
	look := func(where, text string) {
		for line := range strings.Lines(text) {
			if i := slices.IndexFunc(marks, func(m string) bool { return strings.Contains(line, m) }); i >= 0 {
				t.Errorf("%s has a secret:\n%.2000s", where, line)
			}
		}
	}
	for _, path := range []string{"/configz", "/flagz", "/statusz", "/metrics", "/healthz?verbose", "/readyz?verbose", "/debug/pprof/goroutine?debug=2"} {
		status, body, err := ours.Get(t.Context(), path, r.AdminToken())
		if err != nil || status != http.StatusOK {
			t.Errorf("%s: got %d, %v", path, status, err)
		}
		look(path, body)
	}
	for _, args := range []string{
		"explain pod default/vip", "explain pod default/managed -o json", "explain pod default/placed", "explain node secretive -o json", "pending -o json",
		"get workers -o json", "trace --limit 100 -o json",
	} {
		text, err := r.shardsched(t, append(strings.Fields(args), "--address", ours.Listen)...)
		if err != nil {
			t.Errorf("%s: %v: %s", args, err, text)
		}
		look(args, text)
	}
	events, err := r.Admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events.Items {
		look("event", events.Items[i].Message)
	}
	ours.Terminate()
	worker.Terminate()
	<-ours.Done()
	<-worker.Done()
	for _, file := range []string{ours.File, worker.File} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		look(file, string(text))
		if file == ours.File {
			for _, want := range []string{`"managed"`, "Dump of cached NodeInfo", "us:xxxxx@127.0.0.1"} {
				if !strings.Contains(string(text), want) {
					t.Errorf("the log has no %q: it is not the log of what was done", want)
				}
			}
		}
	}
}
