package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/groups"
)

const twoProfiles = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: 40s}
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
`

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// command runs a command line of the real binary.
func command(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	s := Streams{In: strings.NewReader(""), Out: &o, Err: &e, Env: func(string) string { return "" }}
	code = Main(t.Context(), args, s, Standard())
	return o.String(), e.String(), code
}

// TestTheConfigurationIsWritten holds --write-config-to: every command that schedules writes the same, but for the gates of pod groups,
// needs nothing else, and what is written loads to the same again.
func TestTheConfigurationIsWritten(t *testing.T) {
	path := writeFile(t, "config.yaml", twoProfiles)
	for name, gates := range map[string]groups.Gates{"up": groups.All(), "coordinator": {}, "simulate": groups.All()} {
		c, err := config.Reader{}.With(gates).Load(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		got, errs, code := command(t, name, "--config", path, "--write-config-to", "-")
		if code != 0 || got != string(want) {
			t.Errorf("%s: got exit code %d, %s\n%s\nwant\n%s", name, code, errs, got, want)
		}
		to := filepath.Join(t.TempDir(), "written.yaml")
		if _, errs, code = command(t, name, "--config", path, "--write-config-to", to); code != 0 {
			t.Fatalf("%s: got exit code %d: %s", name, code, errs)
		}
		if got, errs, code = command(t, name, "--config", to, "--write-config-to", "-"); code != 0 || got != string(want) {
			t.Errorf("%s: written and written again: got exit code %d, %s\n%s\nwant\n%s", name, code, errs, got, want)
		}
	}
}

func TestWithoutAFileTheDefaultsAreWritten(t *testing.T) {
	c, err := config.Reader{}.With(groups.All()).FromDefault()
	if err != nil {
		t.Fatal(err)
	}
	want, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if got, errs, code := command(t, "simulate", "--write-config-to", "-"); code != 0 || got != string(want) {
		t.Errorf("got exit code %d, %s\n%s\nwant\n%s", code, errs, got, want)
	}
}

func TestAConfigurationThatIsWrongRunsNothing(t *testing.T) {
	path := writeFile(t, "config.yaml", strings.Replace(twoProfiles, "Most", "Much", 1))
	want := path + ":9: profiles[1].pluginConfig[0].args.scoringStrategy.type: Unsupported value"
	for _, line := range []string{"up", "coordinator --standalone --embedded-etcd", "simulate --demo", "simulate --write-config-to -"} {
		if out, errs, code := command(t, append(strings.Fields(line), "--config", path)...); code != exitFailed || !strings.Contains(errs, want) || out != "" {
			t.Errorf("%s: got exit code %d, %q, %s; want %d, nothing, %s", line, code, out, errs, exitFailed, want)
		}
	}
}

// TestPodsChooseTheirProfile schedules a pod by each of two profiles, which take opposite views of which
// node is best, and one by none.
func TestPodsChooseTheirProfile(t *testing.T) {
	const objects = `
apiVersion: v1
kind: Node
metadata: {name: empty}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: half}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: there}
spec: {nodeName: half, containers: [{name: c, image: i, resources: {requests: {cpu: "4", memory: 4Gi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: spreads, uid: a}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 100Mi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: packs, uid: b}
spec: {schedulerName: packing, containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 100Mi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere}
spec: {schedulerName: another, containers: [{name: c, image: i}]}
`
	out, errs, code := command(t, "simulate", "-f", writeFile(t, "objects.yaml", objects), "--config", writeFile(t, "config.yaml", twoProfiles), "--decisions", "-")
	if code != exitPends {
		t.Fatalf("got exit code %d: %s", code, errs)
	}
	for _, want := range []string{
		`"pod":"default/spreads","uid":"a","profile":"default-scheduler","node":"empty"`,
		`"pod":"default/packs","uid":"b","profile":"packing","node":"half"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("decisions: want one with %s, got\n%s", want, out)
		}
	}
	if lines := strings.Count(out, "\n"); lines != 2 {
		t.Errorf("decisions: want 2, got %d:\n%s", lines, out)
	}
}

// TestTheLeaseOfTheFlagGoesFirst takes the leader's lease from the flag, then from the file, then from
// the flag's default.
func TestTheLeaseOfTheFlagGoesFirst(t *testing.T) {
	path := writeFile(t, "config.yaml", twoProfiles)
	for line, want := range map[string]time.Duration{
		"":                                 15 * time.Second,
		"--config " + path:                 40 * time.Second,
		"--leader-elect-lease-duration 5s": 5 * time.Second,
		"--leader-elect-lease-duration 15s --config " + path: 15 * time.Second,
	} {
		got, code, errs := capture(t, append(strings.Fields("coordinator --standalone --embedded-etcd"), strings.Fields(line)...)...)
		o, ok := got.(CoordinatorOptions)
		if !ok || code != 0 {
			t.Fatalf("%s: got exit code %d: %s", line, code, errs)
		}
		c, err := o.Configuration.read()
		if err != nil {
			t.Fatal(err)
		}
		if got := o.lease(c); got != want {
			t.Errorf("%q: lease: want %s, got %s", line, want, got)
		}
	}
}
