package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardsched/shardsched/cmd/internal/whatif"
)

// TestTheWhatIfPageIsTrue runs each command of docs/what-if.md in a copy of its folder, and holds the output against the page.
func TestTheWhatIfPageIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../../docs/what-if.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../../docs/what-if")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	blocks := regexp.MustCompile(`(?m)^    \$ shardsched (.*)\n((?:\n?    [^$\n].*\n)*)`).FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 8 {
		t.Fatalf("got %d commands on the page, want 8 or more", len(blocks))
	}
	for _, b := range blocks {
		line, file, toFile := strings.Cut(b[1], " > ")
		out, errs, code := command(t, strings.Fields(line)...)
		if code == exitFailed {
			t.Errorf("%s: got code %d and %s\n%s", b[1], code, out, errs)
		}
		if toFile {
			if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want := strings.ReplaceAll("\n"+b[2], "\n    ", "\n")[1:]
		if out != want {
			t.Errorf("%s: the page differs from the output (-page +output):\n%s", b[1], cmp.Diff(want, out))
		}
	}
}

// The exit code says whether the change has a place.
func TestExitCodesOfAWhatIf(t *testing.T) {
	const folder = "../../../docs/what-if/"
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"podsBound": 3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"--drain", "node-1"}, exitDone, "drain of node-1: it is empty"},
		{[]string{"-f", folder + "scaled.yaml"}, exitPends, "2 pods pend"},
		{[]string{"-f", folder + "upgrade.yaml"}, exitPends, "rollout is stuck"},
		{[]string{"--drain", "nope"}, exitFailed, "--drain nope: there is no such node in the input"},
		{[]string{"--delete", "shop/web"}, exitFailed, "expected KIND/NAME or KIND/NAMESPACE/NAME"},
		{[]string{"--delete", "deployment/shop/none"}, exitFailed, "there is no Deployment shop/none in the cluster"},
		{[]string{"--add-nodes", "0=" + folder + "node.yaml"}, exitFailed, "expected COUNT=FILE or COUNT=node/NAME, with a number from 1 to 100000"},
		{[]string{"--add-nodes", "100001=" + folder + "node.yaml"}, exitFailed, "expected COUNT=FILE or COUNT=node/NAME, with a number from 1 to 100000"},
		{[]string{"--add-nodes", "2=" + folder + "cluster.yaml"}, exitFailed, "holds 4 nodes, expected one"},
		{[]string{"--add-nodes", "2=node/nope"}, exitFailed, "there is no node nope in the input"},
		{[]string{"--add-nodes", "2=node/node-1", "--scale", "deployment/shop/web=6"}, exitDone, "nodes: 4 -> 6"},
		{[]string{"--scale", "deployment/shop/web=100"}, exitPends, "scaled"},
		{[]string{"--scale", "deployment/shop/web=-1"}, exitFailed, "expected KIND/NAMESPACE/NAME=REPLICAS, with a number from 0 to 1000000"},
		{[]string{"--scale", "deployment/shop/web"}, exitFailed, "expected KIND/NAMESPACE/NAME=REPLICAS"},
		{[]string{"--scale", "pod/shop/big=2"}, exitFailed, "what is known of the cluster has no object Pod shop/big: give its manifest"},
		{[]string{"--scale", "shop/web=2"}, exitFailed, "expected KIND/NAME or KIND/NAMESPACE/NAME"},
		{[]string{"--scale", "deployment/shop/web=2", "-f", folder + "scaled.yaml"}, exitFailed, "a manifest of it is given, too"},
		{[]string{"--rollout", "fast"}, exitFailed, "rolling, replace"},
		{[]string{"--diff", bad}, exitFailed, "it is no answer of simulate -o json"},
		{[]string{"--diff", bad, "--compare-config", bad}, exitFailed, "give one of them"},
		{[]string{"--drain", "node-1", "--write-objects", "x"}, exitFailed, "leave --drain out"},
		{[]string{"--nonsense"}, exitFailed, "unknown flag"},
		{[]string{"--diff", "nowhere.json"}, exitFailed, "--diff: open nowhere.json"},
		{[]string{"--compare-config", "nowhere.yaml"}, exitFailed, "open nowhere.yaml"},
		{[]string{"--drain", "node-1", "--remove-node", "node-1"}, exitFailed, "--drain node-1: --remove-node has it gone at once"},
		{[]string{"-f", folder + "new.yaml"}, exitPends, "made again, 1 placed and 1 pending"},
		{[]string{"--explain", "shop/nobody"}, exitFailed, "--explain pod shop/nobody: there is none after the change\n"},
		{[]string{"--explain", "shop/web"}, exitFailed, "did you mean --explain deployment/shop/web?"},
		{[]string{"--explain", "deployment/shop/web"}, exitDone, "Deployment shop/web: 4 pods, 0 of them pending; worst off is\nPod shop/web-"},
		{[]string{"--explain", "deploy/web", "-n", "shop"}, exitDone, "Deployment shop/web: 4 pods"},
		{[]string{"--explain", "pod/shop/big"}, exitDone, "Pod shop/big is pending"},
		{[]string{"--explain", "node/node-1"}, exitFailed, "--explain node/node-1: a pod or a workload can be explained here"},
		{[]string{"--explain", "a/b/c"}, exitFailed, "is not NAMESPACE/NAME"},
		{[]string{"--cordon", "node-1", "--explain", "shop/big"}, exitDone, "Now 0 of 4 nodes pass every filter."},
		{[]string{"--cordon", "node/node-1", "--explain", "pod/shop/big"}, exitDone, "Now 0 of 4 nodes pass every filter."},
		{[]string{"--cordon", "node-1", "-f", "../../../docs/groups/big.yaml"}, exitPends,
			"PodGroup ml/big does not start: no feasible placements found, workload aware preemption is not supported for pod groups with " +
				"scheduling constraints: 0 of 9 needed fit (9 exist); waits for a node with the label rack\n"},
		{[]string{"--drain", "nodes/node-1"}, exitDone, "drain of node-1: it is empty"},
	} {
		out, errs, code := command(t, append([]string{"simulate", "-f", folder + "cluster.yaml"}, x.args...)...)
		if code != x.code || !strings.Contains(out+errs, x.say) {
			t.Errorf("%s: got code %d and\n%s%s\nwant %d and %s", x.args, code, out, errs, x.code, x.say)
		}
	}
}

// The exit code is the same in every form of the answer, also where there are only nodes and pods; the pods of a cluster are no change.
func TestTheExitCodeIsTheSameInEveryForm(t *testing.T) {
	nodes := writeFile(t, "nodes.yaml", `
{apiVersion: v1, kind: Node, metadata: {name: one}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}`)
	lonely := `{apiVersion: v1, kind: Pod, metadata: {name: lonely, namespace: shop%s}, spec: {containers: [{name: c, resources: {requests: {cpu: "%s"}}}]}}`
	for name, x := range map[string]struct {
		pods string
		code int
	}{
		"a new pod pends":          {fmt.Sprintf(lonely, "", "99"), exitPends},
		"a new pod is placed":      {fmt.Sprintf(lonely, "", "1"), exitDone},
		"a pod of a cluster pends": {fmt.Sprintf(lonely, ", uid: u", "99"), exitDone},
	} {
		pods := writeFile(t, "pods.yaml", x.pods)
		for _, more := range [][]string{{}, {"-o", "json"}, {"-o", "markdown"}, {"--explain", "shop/lonely"}, {"--workers", "0"},
			{"--write-objects", filepath.Join(t.TempDir(), "out.json")}} {
			args := append([]string{"simulate", "-f", nodes, "-f", pods}, more...)
			if out, errs, code := command(t, args...); code != x.code {
				t.Errorf("%s, %s: got code %d, want %d; %s%s", name, more, code, x.code, out, errs)
			}
		}
	}
}

// Pods that are never tried are told why: by the name of their scheduler, or their gate.
func TestPodsThatAreNotTried(t *testing.T) {
	input := writeFile(t, "input.yaml", `
{apiVersion: v1, kind: Node, metadata: {name: one}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: others, namespace: shop}, spec: {schedulerName: volcano, containers: [{name: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: gated, namespace: shop}, spec: {schedulingGates: [{name: example.com/quota}], containers: [{name: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: claims, namespace: shop}, spec: {resourceClaims: [{name: gpu, resourceClaimName: g}], containers: [{name: c}]}}
`)
	text, errs, code := command(t, "simulate", "-f", input, "--cordon", "one")
	all, _, _ := command(t, "simulate", "-f", input, "--cordon", "one", "-o", "json")
	for _, want := range []string{
		"Pod shop/others: 1 pod pends: its schedulerName is volcano, and no profile of the scheduler has that name\n",
		"Pod shop/gated: 1 pod pends: scheduling gate example.com/quota; would help: nothing here: whoever set the gate removes it\n",
		"Pod shop/claims: 1 pod pends: a resource claim does not exist (could not find ResourceClaim \"shop/g\"); would help: nobody makes " +
			"ResourceClaim shop/g for the pod: it has to be created\n",
	} {
		if code != exitPends || !strings.Contains(text, want) {
			t.Errorf("got code %d, %s\n%s\nwant %s", code, errs, text, want)
		}
	}
	if strings.Contains(all, "has not tried it") || !strings.Contains(all, `"why": "it has the scheduling gate example.com/quota, which`) {
		t.Errorf("got\n%s\nwant each pod with its reason", all)
	}
}

// An extender that leaves no node is named.
func TestAnExtenderThatLeavesNoNodeIsNamed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"nodenames": []}`) }))
	defer server.Close()
	configuration := writeFile(t, "config.yaml", fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- {urlPrefix: %q, filterVerb: filter, nodeCacheCapable: true}
`, server.URL))
	const folder = "../../../docs/what-if/"
	out, errs, code := command(t, "simulate", "-f", folder+"cluster.yaml", "-f", folder+"scaled.yaml", "--config", configuration, "--ask-extenders")
	if strings.Contains(out, "no new claims to deallocate") {
		t.Errorf("got what is said of every pod as a reason:\n%s", out)
	}
	want := fmt.Sprintf("extender %s refuses nodes, without a reason; would help: nodes that extender %[1]s takes\n", server.URL)
	if code != exitPends || !strings.Contains(out, want) {
		t.Errorf("got code %d and\n%s%s\nwant %s", code, out, errs, want)
	}
}

// What a change comes to does not depend on workers, and -o json tells all of it.
func TestAWhatIfDoesNotDependOnWorkers(t *testing.T) {
	const folder = "../../../docs/what-if/"
	var first string
	for _, workers := range []string{"0", "1", "3"} {
		out, errs, code := command(t, "simulate", "-f", folder+"cluster.yaml", "-f", folder+"new.yaml", "-f", folder+"upgrade.yaml", "-o", "json",
			"--drain", "node-2", "--workers", workers)
		if first == "" {
			first = out
		}
		if code != exitPends || out != first || !bytes.Contains([]byte(out), []byte(`"preempted"`)) {
			t.Errorf("%s workers: got code %d, %s, and (-first +this)\n%s", workers, code, errs, cmp.Diff(first, out))
		}
	}
}

// What an API server would refuse is bad input, and an autoscaler of a chart is told of.
func TestChartsAsTheyAre(t *testing.T) {
	const folder = "../../../docs/what-if/"
	for name, x := range map[string]struct {
		replace, with string
		code          int
		say           string
	}{
		"no step is possible": {"maxSurge: 1", "maxSurge: 0%", exitFailed, "chart.yaml:7: Deployment shop/web: spec.strategy.rollingUpdate.maxUnavailable: " +
			"Invalid value: \"0\": may not be 0 when maxSurge is 0"},
		"no number":     {"maxSurge: 1", "maxSurge: lots", exitFailed, "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"lots\": must be a number, or a percentage"},
		"an autoscaler": {"maxSurge: 1", "maxSurge: 1", exitPends, "note: HorizontalPodAutoscaler web sets the replicas of Deployment shop/web, 2 to 12; here they are 4, and stay so"},
	} {
		chart, err := os.ReadFile(folder + "upgrade.yaml")
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(chart), x.replace, x.with, 1) + "\n---\n{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, " +
			"metadata: {name: web, namespace: shop}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 2, maxReplicas: 12}}\n"
		file := filepath.Join(t.TempDir(), "chart.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errs, code := command(t, "simulate", "-f", folder+"cluster.yaml", "-f", file)
		if code != x.code || !strings.Contains(out+errs, x.say) {
			t.Errorf("%s: got code %d and\n%s%s\nwant %d and %s", name, code, out, errs, x.code, x.say)
		}
	}
}

// An explanation is part of the JSON, and of the markdown as it is.
func TestAnExplanationInEachForm(t *testing.T) {
	for form, check := range map[string]func(string) bool{
		"json": func(out string) bool {
			var x struct {
				Explanation struct{ Pending, Reasons any }
			}
			return json.Unmarshal([]byte(out), &x) == nil && x.Explanation.Reasons != nil
		},
		"markdown": func(out string) bool {
			return strings.Contains(out, "\n```\nPod shop/big is pending") && strings.HasSuffix(out, "\n```\n")
		},
		"text": func(out string) bool {
			return strings.Contains(out, "\n\nPod shop/big is pending") && !strings.Contains(out, "```")
		},
	} {
		out, errs, code := command(t, "simulate", "-f", "../../../docs/what-if/cluster.yaml", "--cordon", "node-1", "--explain", "shop/big", "-o", form)
		if code != exitDone || !check(out) {
			t.Errorf("%s: got code %d, %s and\n%s", form, code, errs, out)
		}
		if form == "json" {
			if _, err := whatif.ReadReport(strings.NewReader(out)); err != nil {
				t.Errorf("got %v, want what --diff reads", err)
			}
		}
	}
}
