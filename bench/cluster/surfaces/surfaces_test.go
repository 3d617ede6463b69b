package surfaces

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// rig is a control plane with upstream's scheduler and a coordinator, each with a Lease of its own and
// both leading.
type rig struct {
	*testbed.Cluster
	upstream, ours *testbed.SchedulerProcess
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Cluster: testbed.New(t, testbed.Config{})}
	r.upstream = r.Upstream(testbed.Scheduler{Config: "leaderElection: {leaderElect: false}\nprofiles: [{schedulerName: upstream}]"})
	r.ours = r.Coordinator(testbed.Scheduler{Args: []string{"--local-workers=1"}})
	r.Create(build.Node("a").CPU("4").Obj())
	theirs := build.Pod("theirs").CPU("1").Obj()
	theirs.Spec.SchedulerName = "upstream"
	r.Create(theirs, build.Pod("ours").CPU("1").Obj(), build.Pod("waits").CPU("100").Obj())
	r.Bound("default/theirs")
	r.Bound("default/ours")
	r.Unschedulable("default/waits")
	return r
}

func TestSurfaces(t *testing.T) {
	r := newRig(t)
	t.Run("endpoints", r.endpoints)
	t.Run("checks", r.checks)
	t.Run("metrics", r.metrics)
	t.Run("configz", r.configz)
	t.Run("explain", r.explain)
	t.Run("caches", r.caches)
	t.Run("tokens", r.tokens)
	t.Run("devices", r.devices)
	t.Run("secrets", r.secrets)
	t.Run("audit", r.audit)
}

// endpoints answers with the same codes as upstream to everybody.
func (r *rig) endpoints(t *testing.T) {
	tokens := map[string]string{"nobody": "", "a stranger": "wrong", "the scheduler": r.SchedulerToken(), "admin": r.AdminToken()}
	for who, token := range tokens {
		for _, path := range []string{
			"/healthz", "/healthz?verbose", "/healthz/nothing", "/livez", "/livez/ping", "/readyz", "/readyz/sched-handler-sync",
			"/readyz?exclude=shutdown", "/metrics", "/metrics/resources", "/metrics/slis", "/configz", "/flagz", "/statusz",
			"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/flags/v", "/nothing", "/",
		} {
			want, _, err := r.upstream.Get(t.Context(), path, token)
			if err != nil {
				t.Fatal(err)
			}
			got, body, err := r.ours.Get(t.Context(), path, token)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%s asks for %s: want %d, got %d %s", who, path, want, got, body)
			}
		}
	}
}

// checks are the health checks by name, ours of etcd beside upstream's.
func (r *rig) checks(t *testing.T) {
	for path, want := range map[string][]string{
		"/healthz?verbose": {"[+]leaderElection ok"},
		"/livez?verbose":   {"[+]ping ok"},
		"/readyz?verbose":  {"[+]leaderElection ok", "[+]shutdown ok", "[+]sched-handler-sync ok", "[+]etcd ok"},
		"/statusz":         {"kube-scheduler statusz", "1.36", "/readyz"},
		"/flagz":           {"kube-scheduler flagz", "secure-port", "etcd-endpoints"},
	} {
		status, body, err := r.ours.Get(t.Context(), path, r.AdminToken())
		if err != nil || status != http.StatusOK {
			t.Errorf("%s: want 200, got %d, %v", path, status, err)
		}
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s: want %q, got\n%s", path, text, body)
			}
		}
	}
}

// configz shows the configuration under upstream's name.
func (r *rig) configz(t *testing.T) {
	status, body, err := r.ours.Get(t.Context(), "/configz", r.AdminToken())
	if err != nil || status != http.StatusOK {
		t.Fatalf("got %d, %v", status, err)
	}
	var shown struct {
		Config struct {
			Kind     string
			Profiles []struct{ SchedulerName string }
		} `json:"componentconfig"`
	}
	if err := json.Unmarshal([]byte(body), &shown); err != nil {
		t.Fatal(err)
	}
	if c := shown.Config; c.Kind != "KubeSchedulerConfiguration" || len(c.Profiles) != 1 || c.Profiles[0].SchedulerName != "default-scheduler" {
		t.Errorf("got %+v", c)
	}
}

// audit has no request that the role does not allow.
func (r *rig) audit(t *testing.T) {
	if denied := testbed.Denied(r.Audited()); len(denied) > 0 {
		t.Errorf("denied: want nothing, got\n%s", strings.Join(denied, "\n"))
	}
}
