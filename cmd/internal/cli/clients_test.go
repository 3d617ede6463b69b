package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/coordinator/kube"
)

// serveLease serves the Lease of a holder that names an address, and returns the kubeconfig for it.
func serveLease(t *testing.T, holder, address string) (kubeconfig string) {
	note, _ := json.Marshal(map[string]string{"identity": holder, "address": address})
	notes, _ := json.Marshal(map[string]string{kube.HolderAnnotation: string(note)})
	return serveKubernetes(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/coordination.k8s.io/v1/namespaces/ours/leases/scheduler" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
			return
		}
		fmt.Fprintf(w, `{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"namespace": "ours", "name": "scheduler", "annotations": %s},
			"spec": {"holderIdentity": %q}}`, notes, holder)
	}))
}

// Where a kubeconfig is given, and for kubectl's plugin, the Lease says who is asked. What keeps from that is said at once.
func TestTheLeaseSaysWhoIsAsked(t *testing.T) {
	leader := newShell(t)
	us := kube.HolderIdentity("vm_1", "g")
	ours, theirs := serveLease(t, us, leader.address), serveLease(t, "vm_5f68", leader.address)
	for name, x := range map[string]struct {
		program, config, env string
		args                 string
		code                 int
		told                 string // empty: an answer
	}{
		"by --kubeconfig":         {args: "summary --kubeconfig " + ours + " --lease ours/scheduler"},
		"kubectl's plugin":        {program: "/bin/kubectl-shardsched", config: ours, args: "summary --lease ours/scheduler"},
		"a plugin with --address": {program: "kubectl-shardsched", args: "summary --address " + leader.address},
		"another's Lease": {args: "summary --kubeconfig " + theirs + " --lease ours/scheduler", code: exitFailed,
			told: "error: get the summary: kube-scheduler vm_5f68 holds ours/scheduler: no coordinator leads\n"},
		"no Lease": {args: "summary --kubeconfig " + ours, code: exitFailed, told: "error: get the summary: there is no Lease kube-system/kube-scheduler"},
		"both":     {args: "summary --context c --address a:1", code: exitUsage, told: "error: --address and --kubeconfig or --context: give one or the other\n"},
		"no name":  {args: "summary --lease scheduler", code: exitUsage, told: `error: --lease: "scheduler" is not NAMESPACE/NAME` + "\n"},
		"no time":  {args: "summary --patience -1s --address a:1", code: exitUsage, told: "error: --patience: -1s is negative\n"},
		"nonsense": {args: "summary --address nonsense", code: exitUsage, told: `error: --address: "nonsense" is not HOST:PORT, such as 127.0.0.1:7450, nor unix:///PATH` + "\n"},
		"a token in the clear": {args: "summary --token-file x --kubeconfig " + ours, code: exitUsage,
			told: "error: --token-file: a token is sent to the leader over TLS only: give --tls-ca-file\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", x.config)
			var out, told bytes.Buffer
			s := Streams{Out: &out, Err: &told, Env: func(string) string { return "" }, Program: x.program}
			code := Main(t.Context(), strings.Fields(x.args), s, Runs{})
			if code != x.code || !strings.HasPrefix(told.String(), x.told) || (out.Len() == 0) != (x.told != "") {
				t.Errorf("got %d, %q and %q, want %d and %q", code, out.String(), told.String(), x.code, x.told)
			}
		})
	}
}

// The plugin goes by kubectl's name, and does not offer to run a scheduler.
func TestThePluginIsCalledByKubectl(t *testing.T) {
	var out bytes.Buffer
	s := Streams{Out: &out, Err: &out, Env: func(string) string { return "" }, Program: "/usr/bin/kubectl-shardsched"}
	runs := Standard()
	if code := Main(t.Context(), []string{"--help"}, s, runs); code != 0 || !strings.Contains(out.String(), "kubectl shardsched [command]") {
		t.Errorf("got %d and %s, want the help of kubectl shardsched", code, out.String())
	}
	for _, c := range Root(s, runs).Commands() {
		if name := c.Name(); name == "up" || name == "coordinator" || name == "worker" {
			t.Errorf("the plugin offers %s", name)
		}
	}
}
