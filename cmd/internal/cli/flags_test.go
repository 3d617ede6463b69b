package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// capture runs a command line whose scheduler command only notes its options.
func capture(t *testing.T, args ...string) (got any, code int, errs string) {
	t.Helper()
	var errBuffer bytes.Buffer
	s := Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &errBuffer, Env: func(string) string { return "" }}
	code = Main(t.Context(), args, s, Runs{
		Up:          func(_ context.Context, _ Streams, o UpOptions) error { got = o; return nil },
		Coordinator: func(_ context.Context, _ Streams, o CoordinatorOptions) error { got = o; return nil },
		Worker:      func(_ context.Context, _ Streams, o WorkerOptions) error { got = o; return nil },
		Simulate:    func(_ context.Context, _ Streams, o SimulateOptions) error { got = o; return nil },
		Shadow:      func(_ context.Context, _ Streams, o ShadowOptions) error { got = o; return nil },
	})
	return got, code, errBuffer.String()
}

func TestMistakesOfSchedulerCommands(t *testing.T) {
	tests := []struct{ line, want string }{
		{"simulate", "-f is required"},
		{"simulate -f x y", `simulate takes no argument, and got "y": a flag with several values takes them joined by commas`},
		{"simulate y.yaml", "did you mean -f y.yaml?"},
		{"coordinator c.yaml", `coordinator takes no argument, and got "c.yaml"`},
		{"worker w", `worker takes no argument, and got "w"`},
		{"simulate -f x --workers -1", "--workers: -1 is not between 0 and 1024"},
		{"simulate -f x --shards 70000", "--shards: 70000 is not between 0 and 65536"},
		{"simulate -f x -o yaml", `--output: "yaml" is not one of text, json`},
		{"simulate -f x --http-listen 0.0.0.0:80", "can be reached from other machines"},
		{"simulate -f x --seed no", "invalid argument"},
		{"shadow --for 1ms", "--for: 1ms is neither 0 nor at least a second"},
		{"shadow --report report.pdf", `--report: "report.pdf" ends neither in .html, .json nor .txt, and is not -`},
		{"shadow --http-listen 0.0.0.0:80", "can be reached from other machines"},
		{"shadow --logging-format yaml", `--logging-format: "yaml" is neither text nor json`},
		{"shadow here", `shadow takes no argument, and got "here"`},
		{"up --exit-when-idle", "there is nothing to schedule"},
		{"up --listen 0.0.0.0:7450", "can be reached from other machines, which needs mutual TLS"},
		{"up --tls-cert-file a", "go together"},
		{"up --cluster a/b", `--cluster: "a/b" is not a name`},
		{"up --shard-replicas 3", "--shard-replicas: 3 is not 1 or 2"},
		{"up --compare-workers", "--compare-workers: it needs --shard-replicas 2"},
		{"coordinator", "give either --etcd-endpoints or --embedded-etcd"},
		{"coordinator --embedded-etcd --feature-gates NoSuchGate=true", "unrecognized feature gate: NoSuchGate"},
		{"coordinator --embedded-etcd --secure-port 70000", "--secure-port 70000 must be between"},
		{"coordinator --embedded-etcd --tls-ca-file a", "go together"},
		{"coordinator --embedded-etcd --listen 0.0.0.0:7450 --tls-cert-file a --tls-private-key-file b", "can be reached from other machines"},
		{"coordinator --embedded-etcd --http-listen :80", "can be reached from other machines"},
		{"coordinator --embedded-etcd --version=v1.35.1", "must match major/minor"},
		{"coordinator --standalone --embedded-etcd --kubeconfig a", "--kubeconfig: it means nothing with --standalone"},
		{"coordinator --standalone --embedded-etcd --tls-cert-file a", "go together"},
		{"coordinator --standalone", "give either --etcd-endpoints or --embedded-etcd"},
		{"coordinator --standalone --embedded-etcd --etcd-endpoints http://x", "give either --etcd-endpoints or --embedded-etcd"},
		{"coordinator --standalone --etcd-endpoints http://x --etcd-certfile a", "--etcd-certfile and --etcd-keyfile go together"},
		{"coordinator --standalone --embedded-etcd --embedded-etcd-listen :2379", "--embedded-etcd-listen: :2379 can be reached from other machines"},
		{"coordinator --embedded-etcd --etcd-compaction-interval 0", "nobody else compacts the embedded etcd"},
		{"coordinator --etcd-endpoints http://x --etcd-compaction-interval 59s", "59s is neither 0 nor at least 1m0s"},
		{"coordinator --etcd-endpoints http://x --gang-reservation", "--gang-reservation: it means nothing without --feature-gates of GenericWorkload and GangScheduling"},
		{"coordinator --etcd-endpoints http://x --gang-topology-preemption --feature-gates GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true",
			"--gang-topology-preemption: it means nothing without --feature-gates of GenericWorkload, GangScheduling, TopologyAwareWorkloadScheduling and WorkloadAwarePreemption"},
		{"coordinator --etcd-endpoints http://x --whole-gangs", "--whole-gangs: it means nothing without --feature-gates of GenericWorkload"},
		{"coordinator --etcd-endpoints http://x --standalone --whole-gangs --feature-gates GenericWorkload=false", "--whole-gangs: it means nothing without"},
		{"coordinator --standalone --embedded-etcd --leader-elect-lease-duration 1ms", "is shorter than a second"},
		{"worker", "--etcd-endpoints is required"},
		{"worker --etcd-endpoints http://x --cache-bytes 0", "--cache-bytes: 0 is not positive"},
		{"worker --etcd-endpoints http://x --logging-format yaml", `--logging-format: "yaml" is neither text nor json`},
		{"worker --etcd-endpoints http://x,", "--etcd-endpoints: an empty URL"},
	}
	for _, test := range tests {
		t.Run(test.line, func(t *testing.T) {
			got, code, errs := capture(t, strings.Fields(test.line)...)
			want := exitUsage
			if strings.HasPrefix(test.line, "simulate") || strings.HasPrefix(test.line, "shadow") {
				want = exitFailed // 2 says that a change pends, or that it is not ready
			}
			if code != want || !strings.Contains(errs, test.want) || got != nil {
				t.Errorf("got exit code %d, ran with %v, %s want code %d and %q", code, got, errs, want, test.want)
			}
		})
	}
}

func TestFlagsReachTheOptions(t *testing.T) {
	got, code, errs := capture(t, strings.Fields("simulate -f a -f b,c --config k.yaml --workers 0 --shards 64 --decisions out.jsonl --seed 7 -o json")...)
	o, ok := got.(SimulateOptions)
	if !ok || code != 0 {
		t.Fatalf("got exit code %d: %s", code, errs)
	}
	if !slices.Equal(o.Files, []string{"a", "b,c"}) || o.Config != "k.yaml" || o.Workers != 0 || o.Shards != 64 || o.Decisions != "out.jsonl" || o.Seed != 7 || o.Output != "json" {
		t.Errorf("got %+v", o)
	}
	got, code, errs = capture(t, strings.Fields("coordinator --standalone --etcd-endpoints http://a,http://b --local-workers 3 --shard-replicas 2 --listen 127.0.0.1:1 -v 2")...)
	c, ok := got.(CoordinatorOptions)
	if !ok || code != 0 {
		t.Fatalf("got exit code %d: %s", code, errs)
	}
	if !slices.Equal(c.Etcd.Endpoints, []string{"http://a", "http://b"}) || c.Workers != 3 || c.Replicas != 2 || c.Listen != "127.0.0.1:1" || c.LeaseDuration != 15*time.Second {
		t.Errorf("got %+v", c)
	}
	if got, code, errs = capture(t, "worker", "--etcd-endpoints", "http://a"); code != 0 || got.(WorkerOptions).CacheBytes != defaultCacheBytes {
		t.Errorf("got exit code %d, %+v: %s", code, got, errs)
	}
	if got, code, errs = capture(t, "simulate", "--demo", "--devices"); code != 0 || !got.(SimulateOptions).Devices {
		t.Errorf("got exit code %d, %+v: %s", code, got, errs)
	}
	got, code, errs = capture(t, strings.Fields("shadow --kubeconfig k --config c --for 24h --report a.html --report - --allow-binding-credentials")...)
	if o, ok := got.(ShadowOptions); !ok || code != 0 || o.kubernetes.file != "k" || o.Config != "c" || o.For != 24*time.Hour || !o.AllowBinding ||
		!slices.Equal(o.Reports, []string{"a.html", "-"}) {
		t.Errorf("got exit code %d, %+v: %s", code, got, errs)
	}
	if _, code, errs = capture(t, "up", "--devices"); code == 0 || !strings.Contains(errs, "--demo") {
		t.Errorf("got exit code %d: %s; want --demo asked for", code, errs)
	}
	if got, code, errs = capture(t, "up", "--demo"); code != 0 || !got.(UpOptions).EmbeddedEtcd.Enabled || !got.(UpOptions).Demo {
		t.Errorf("got exit code %d, %+v: %s", code, got, errs)
	}
}

// TestTheCoordinatorTakesKubeSchedulersFlags holds the whole command line to upstream's, which stands
// with the flags' package.
func TestTheCoordinatorTakesKubeSchedulersFlags(t *testing.T) {
	text, err := os.ReadFile("../kubeflags/testdata/flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	flags := NewCoordinatorCommand(nil, nil).Flags()
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		f := flags.Lookup(name)
		if f == nil {
			t.Errorf("--%s: want a flag, got none", name)
			continue
		}
		if got := fmt.Sprintf("%s %q %s %q %q", f.Name, f.Shorthand, f.Value.Type(), f.DefValue, f.NoOptDefVal); got != strings.TrimSpace(line) {
			t.Errorf("--%s: want %s, got %s", name, strings.TrimSpace(line), got)
		}
	}
}

// TestFlagsOfOurs lists the coordinator's flags that kube-scheduler 1.36 does not have: no other is taken for
// one of its own.
func TestFlagsOfOurs(t *testing.T) {
	text, err := os.ReadFile("../kubeflags/testdata/flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		theirs[name] = true
	}
	var got []string
	NewCoordinatorCommand(nil, nil).Flags().VisitAll(func(f *pflag.Flag) {
		if !theirs[f.Name] {
			got = append(got, f.Name)
		}
	})
	want := slices.Sorted(slices.Values(slices.Concat(policyFlags(), []string{
		"advertise", "cluster", "compare-workers", "console", "data-dir", "decision-log", "embedded-etcd", "embedded-etcd-listen",
		"etcd-cafile", "etcd-certfile", "etcd-compaction-interval", "etcd-endpoints", "etcd-keyfile", "gang-reservation", "gang-topology-preemption", "health-listen", "http-listen", "listen", "local-workers", "record", "record-limit-bytes",
		"shard-replicas", "shards", "standalone", "tls-ca-file", "tls-dns-roles",
		"tracing-config-file", "tracing-endpoint", "tracing-local", "tracing-sampling-rate-per-million", "tracing-slow-threshold",
		"whole-gangs",
	})))
	if !slices.Equal(got, want) {
		t.Errorf("flags of ours: want %q, got %q", want, got)
	}
	for _, name := range policyFlags() {
		if usage := NewCoordinatorCommand(nil, nil).Flags().Lookup(name).Usage; !strings.HasPrefix(usage, "DEPRECATED: ") {
			t.Errorf("--%s: want a deprecated flag, got %q", name, usage)
		}
	}
}

// TestOneFlagTwoMeanings: without --standalone the certificate is that of HTTPS, and that of
// gRPC only beside an authority; profiles and plain HTTP are served where they are asked for.
func TestOneFlagTwoMeanings(t *testing.T) {
	const pair = "--embedded-etcd --tls-cert-file a --tls-private-key-file b "
	for line, check := range map[string]func(CoordinatorOptions) bool{
		pair: func(o CoordinatorOptions) bool {
			return !o.TLS.Enabled() && o.Kube.Serving.ServerCert.CertKey.CertFile == "a"
		},
		pair + "--tls-ca-file c": func(o CoordinatorOptions) bool {
			return o.TLS == serving.TLS{CertFile: "a", KeyFile: "b", CAFile: "c"}
		},
		"--embedded-etcd --shards 2":                  func(o CoordinatorOptions) bool { return o.EmbeddedEtcd.Listen == "" && o.forgets() },
		"--embedded-etcd --data-dir d":                func(o CoordinatorOptions) bool { return !o.forgets() },
		"--embedded-etcd --standalone --shards 2":     func(o CoordinatorOptions) bool { return o.EmbeddedEtcd.Listen == defaultEtcdListen && !o.forgets() },
		"--embedded-etcd --cluster c":                 func(o CoordinatorOptions) bool { return o.Listen == "unix:///run/shardsched/client.sock" },
		"--embedded-etcd --standalone --cluster c":    func(o CoordinatorOptions) bool { return o.Listen == defaultClientAPI },
		pair + "--tls-ca-file c --listen 127.0.0.1:1": func(o CoordinatorOptions) bool { return o.Listen == "127.0.0.1:1" },
		pair + "--tls-ca-file c --standalone": func(o CoordinatorOptions) bool {
			return o.TLS == serving.TLS{CertFile: "a", KeyFile: "b", CAFile: "c"}
		},
		"--embedded-etcd":                                func(o CoordinatorOptions) bool { return o.HTTPListen == "" && !o.Profiling },
		"--embedded-etcd --standalone":                   func(o CoordinatorOptions) bool { return o.HTTPListen == defaultCoordinatorHTTP && !o.Profiling },
		"--embedded-etcd --standalone --http-listen=":    func(o CoordinatorOptions) bool { return o.HTTPListen == "" },
		"--embedded-etcd --standalone --profiling":       func(o CoordinatorOptions) bool { return o.Profiling },
		"--embedded-etcd --standalone -v3 --vmodule=a=2": func(o CoordinatorOptions) bool { return o.Kube.Logs.Verbosity == 3 },
		"--embedded-etcd --logging-format=json --v=1":    func(o CoordinatorOptions) bool { return o.Kube.Logs.Format == "json" },
		"--embedded-etcd --leader-elect-lease-duration=9s --leader-elect-renew-deadline=6s": func(o CoordinatorOptions) bool {
			c, err := o.Configuration.read()
			return err == nil && c.LeaderElection.LeaseDuration.Duration == 9*time.Second
		},
		"--embedded-etcd --version=v1.36.3-vendor": func(o CoordinatorOptions) bool { return true },
	} {
		got, code, errs := capture(t, append([]string{"coordinator"}, strings.Fields(line)...)...)
		if o, ok := got.(CoordinatorOptions); !ok || code != 0 || !check(o) {
			t.Errorf("%q: got exit code %d, %+v: %s", line, code, got, errs)
		}
	}
}

func TestVersionOfTheCoordinator(t *testing.T) {
	same, _, _ := command(t, "version")
	for _, line := range []string{"--version", "coordinator --version", "coordinator --version=true", "coordinator --version=raw", "version"} {
		if out, errs, code := command(t, strings.Fields(line)...); code != 0 || !strings.Contains(out, "shardsched") || !strings.HasSuffix(line, "raw") && out != same {
			t.Errorf("%s: got exit code %d, %q, %s", line, code, out, errs)
		}
	}
}

func TestVersionInKubernetesTerms(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: modified}}
	}
	for _, test := range []struct {
		name, module         string
		settings             []debug.BuildSetting
		version, tree, built string
	}{
		{"a release", "v0.4.1", vcs("false"), "v1.36.3+shardsched.v0.4.1", "clean", "2026-01-02T03:04:05Z"},
		{"a tree that was changed", "v0.4.2-0.20260102030405-0123456789ab+dirty", vcs("true"), "v1.36.3+shardsched.v0.4.2-0.20260102030405-0123456789ab.dirty", "dirty", "2026-01-02T03:04:05Z"},
		{"a commit", "(devel)", vcs("false"), "v1.36.3+shardsched.devel-0123456789ab", "clean", "2026-01-02T03:04:05Z"},
		{"nothing known", "", nil, "v1.36.3+shardsched.devel", "", "1970-01-01T00:00:00Z"},
	} {
		got := kubernetesVersion(&debug.BuildInfo{Main: debug.Module{Version: test.module}, Settings: test.settings})
		if got.GitVersion != test.version || got.GitTreeState != test.tree || got.BuildDate != test.built || got.Major != "1" || got.Minor != "36" {
			t.Errorf("%s: got %+v, want version %s, tree %q, built %s", test.name, got, test.version, test.tree, test.built)
		}
		if v, err := version.ParseSemantic(got.GitVersion); err != nil || v.Patch() != 3 {
			t.Errorf("%s: got %s, %v, want a semantic version", test.name, v, err)
		}
	}
}

// TestHelpFitsATerminal holds that every command has a text and examples where it
// takes arguments, and that its long text fits 100 columns.
func TestHelpFitsATerminal(t *testing.T) {
	root := Root(Streams{Env: func(string) string { return "" }}, Runs{
		Up:          func(context.Context, Streams, UpOptions) error { return nil },
		Coordinator: func(context.Context, Streams, CoordinatorOptions) error { return nil },
		Worker:      func(context.Context, Streams, WorkerOptions) error { return nil },
		Simulate:    func(context.Context, Streams, SimulateOptions) error { return nil },
	})
	for _, c := range root.Commands() {
		if c.Short == "" {
			t.Errorf("%s has no short text", c.Name())
		}
		for line := range strings.Lines(c.Long) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
				t.Errorf("%s: got a line of %d columns, want at most 100: %s", c.Name(), n, line)
			}
		}
	}
}

func TestAddressesOfCoordinators(t *testing.T) {
	env := func(string) string { return " a:1, b:2,," }
	for _, test := range []struct {
		name  string
		flags []string
		env   func(string) string
		want  []string
	}{
		{"the flag goes first", []string{"x:1"}, env, []string{"x:1"}},
		{"then the environment", nil, env, []string{"a:1", "b:2"}},
		{"then the default", nil, func(string) string { return "" }, []string{defaultClientAPI}},
	} {
		if got, err := (&connection{addresses: test.flags}).targets(test.env); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, %v, want %v", test.name, got, err, test.want)
		}
	}
	for _, wrong := range []string{"nonsense", "host:", ":7450", "host:0", "host:65536", "host:port", "http://host:7450", "unix://relative", "::1:7450"} {
		_, err := (&connection{}).targets(func(string) string { return "a:1," + wrong })
		if usage := (usageError{}); !errors.As(err, &usage) || !strings.Contains(err.Error(), "$SHARDSCHED_ADDRESS: "+strconv.Quote(wrong)) {
			t.Errorf("%s: got %v, want a usage error that names it", wrong, err)
		}
	}
	for _, right := range []string{"[::1]:7450", "host.example:1", "unix:///run/x.sock"} {
		if err := checkAddress(right); err != nil {
			t.Errorf("%s: got %v, want none", right, err)
		}
	}
}

// TestProgressInAPipe writes a line every two seconds and no control characters.
func TestProgressInAPipe(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(Streams{Err: &out, Env: func(string) string { return "" }}, 100)
	now := time.Unix(0, 0)
	p.now, p.next = func() time.Time { return now }, now.Add(lineEvery)
	for i := range 50 {
		p.update(&pb.Summary{PodsBound: uint64(2 * i), PodsPending: 1})
		now = now.Add(100 * time.Millisecond)
	}
	p.done()
	want := "41 of 100 pods: 40 bound, 1 pending\n81 of 100 pods: 80 bound, 1 pending\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
