package kubeflags

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/shardsched/shardsched/coordinator/config"
)

// parse reads a command line into fresh flags.
func parse(t *testing.T, args ...string) *Flags {
	t.Helper()
	f, err := New()
	if err != nil {
		t.Fatal(err)
	}
	all := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, set := range f.Sets().FlagSets {
		all.AddFlagSet(set)
	}
	if err := all.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFlagsAreUpstreams holds names, shorthands, types and defaults to kube-scheduler's.
func TestFlagsAreUpstreams(t *testing.T) {
	text, err := os.ReadFile("testdata/flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(text)) {
		// Those that every command of ours has, or that stand beside ours.
		if name, _, _ := strings.Cut(line, " "); !slices.Contains([]string{"config", "write-config-to", "help", "version"}, name) {
			want = append(want, strings.TrimSpace(line))
		}
	}
	var got []string
	for _, set := range parse(t).Sets().FlagSets {
		set.VisitAll(func(f *pflag.Flag) {
			got = append(got, fmt.Sprintf("%s %q %s %q %q", f.Name, f.Shorthand, f.Value.Type(), f.DefValue, f.NoOptDefVal))
			if f.Usage == "" {
				t.Errorf("--%s: want a text, got none", f.Name)
			}
		})
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("flags: want\n%s\ngot\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

func TestMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"--feature-gates=NoSuchGate=true":                                                       "unrecognized feature gate: NoSuchGate",
		"--feature-gates=APIServerTracing=false":                                                "cannot set feature gate APIServerTracing to false, feature is locked to true",
		"--feature-gates=GangScheduling=true":                                                   "GenericWorkload",
		"--feature-gates=StorageCapacityScoring=true":                                           "--feature-gates=StorageCapacityScoring=true: it would change decisions, and can't be honoured",
		"--feature-gates=GenericWorkload=true,WorkloadAwarePreemption=true":                     "WorkloadAwarePreemption is enabled, but depends on features that are disabled: [GangScheduling]",
		"--feature-gates=PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false": "--feature-gates=PodLevelResources=false: it would",
		"--feature-gates=AllAlpha=true":                                                         "--feature-gates=StorageCapacityScoring=true",
		"--emulated-version=1.20":                                                               "emulation version 1.20",
		"--emulated-version=wardle=1.36":                                                        "component not registered: wardle",
		"--secure-port=70000":                                                                   "--secure-port 70000 must be between",
		"--show-hidden-metrics-for-version=1.30":                                                "only the previous minor version is allowed",
		"--disabled-metrics=a-b":                                                                "must be fully qualified metric names",
		"--allow-metric-labels=x=y":                                                             "metricName,labelName",
		"--allow-metric-labels-manifest=/none":                                                  "--allow-metric-labels-manifest",
		"--pod-max-in-unschedulable-pods-duration=0s":                                           "is not positive",
		"--authentication-token-webhook-cache-ttl=-1s":                                          "",
		"--authorization-webhook-cache-authorized-ttl=-1s":                                      "",
		"--requestheader-client-ca-file=/none --client-ca-file=":                                "",
	} {
		t.Run(line, func(t *testing.T) {
			err := parse(t, strings.Fields(line)...).Check()
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("want %q, got %v", want, err)
			}
		})
	}
}

func TestGates(t *testing.T) {
	f := parse(t, "--feature-gates=ComponentFlagz=false,APIResponseCompression=false", "--feature-gates=OpportunisticBatching=false")
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	if f.Enabled("ComponentFlagz") || !f.Enabled("ComponentStatusz") || f.Enabled("OpportunisticBatching") {
		t.Error("gates: want ComponentFlagz and OpportunisticBatching off, ComponentStatusz on")
	}
	want := []string{
		"--feature-gates=APIResponseCompression: another component's",
		"--feature-gates=OpportunisticBatching: pods of a class share what is known of it in any case, and decisions are those without it",
	}
	if got := f.Idle(false); !slices.Equal(got, want) {
		t.Errorf("idle: want %q, got %q", want, got)
	}
	early := parse(t, "--emulated-version=1.34")
	if err := early.Check(); err != nil || early.Version().EmulationVersion().String() != "1.34" {
		t.Errorf("emulated: want 1.34, got %v, %v", early.Version().EmulationVersion(), err)
	}
}

// TestWhatGoesBeforeTheFile: only the flags of leader election that were given.
func TestWhatGoesBeforeTheFile(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	const text = head + "leaderElection: {leaseDuration: 60s, resourceName: theirs}\nclientConnection: {qps: 7, kubeconfig: theirs}\n"
	line := []string{"--leader-elect-lease-duration=40s", "--leader-elect=false", "--kube-api-qps=99", "--kubeconfig=ours", "--profiling=false", "--contention-profiling=false", "--kube-api-burst=200"}
	f := parse(t, line...)
	c, err := config.Parse("f", []byte(text), f.Changes(true)...)
	if err != nil {
		t.Fatal(err)
	}
	l, n := c.LeaderElection, c.ClientConnection
	if *l.LeaderElect || l.LeaseDuration.Duration != 40*time.Second || l.ResourceName != "theirs" || n.QPS != 7 || n.Kubeconfig != "theirs" || n.Burst != 100 || !c.Profiling {
		t.Errorf("with a file: got %+v, %+v, profiling %v", l, n, c.Profiling)
	}
	if got := f.Idle(true); len(got) != 5 {
		t.Errorf("with a file: want 5 flags without effect, got %q", got)
	}
	c, err = config.FromDefault(f.Changes(false)...)
	if err != nil {
		t.Fatal(err)
	}
	l, n = c.LeaderElection, c.ClientConnection
	if *l.LeaderElect || l.LeaseDuration.Duration != 40*time.Second || l.ResourceName != "kube-scheduler" || n.QPS != 99 || n.Burst != 200 || n.Kubeconfig != "ours" || c.Profiling || c.ContentionProfiling {
		t.Errorf("without one: got %+v, %+v, profiling %v", l, n, c.Profiling)
	}
	if got := f.Idle(false); len(got) != 0 {
		t.Errorf("without one: want no flag without effect, got %q", got)
	}
}

func TestReachingTheAPIServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	const text = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://10.0.0.1:6443'}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\nusers: [{name: u, user: {token: secret}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := parse(t, "--kubeconfig="+file, "--master=https://10.0.0.2", "--kube-api-qps=12.5")
	c, err := config.FromDefault(f.Changes(false)...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.REST(c.ClientConnection)
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != "https://10.0.0.2" || got.BearerToken != "secret" || got.QPS != 12.5 || got.Burst != 100 || got.ContentType != "application/vnd.kubernetes.protobuf" {
		t.Errorf("got host %s, token %q, qps %v, burst %d, content type %s", got.Host, got.BearerToken, got.QPS, got.Burst, got.ContentType)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := parse(t).REST(config.Default().ClientConnection); err == nil {
		t.Error("neither flags nor a pod: want an error, got none")
	}
}

// TestAllowedLabels reads both forms of the manifest.
func TestAllowedLabels(t *testing.T) {
	for name, text := range map[string]string{
		"plain":  "m,l: a,b\n",
		"nested": "allowListMapping:\n  \"m,l\": \"a,b\"\n",
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readAllowed(file); err != nil || got["m,l"] != "a,b" {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
