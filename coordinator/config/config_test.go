package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// TestScripts reads the configurations of testdata. A command prints what a file comes
// to, or its errors:
//
//	load [points=(filter,score)]  each profile's plugins at these points, with weights at score;
//	                              an asterisk stands before what is not evaluated
//	arguments                     what the tables are given
//	notices                       NotEvaluated and NoEffect
//	write                         the configuration completed
//	upgrade                       an older version, made v1
//	sample FILE                   all of these for a file of testdata, at all points
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != "" {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "upgrade" {
				made, err := Reader{}.Upgrade("old.yaml", []byte(d.Input+"\n"))
				if err != nil {
					return err.Error()
				}
				return string(made.YAML())
			}
			c, err := Parse("config.yaml", []byte(d.Input+"\n"))
			if d.Cmd == "sample" {
				c, err = Load(filepath.Join("testdata", d.CmdArgs[0].Key))
			}
			if err != nil {
				return err.Error()
			}
			if _, err := c.Profiles(); err != nil {
				t.Fatalf("%s: profiles: want no error after a load without one, got %v", d.Pos, err)
			}
			var b strings.Builder
			switch d.Cmd {
			case "load":
				wanted := []string{framework.Filter.Field(), framework.Score.Field()}
				d.MaybeScanArgs(t, "points", &wanted)
				printPoints(&b, c, wanted)
			case "arguments":
				printArguments(&b, c)
			case "notices":
				printNotices(&b, c)
			case "write":
				text, err := c.YAML()
				if err != nil {
					t.Fatalf("%s: %v", d.Pos, err)
				}
				b.Write(text)
			case "sample":
				printPoints(&b, c, allPoints())
				printArguments(&b, c)
				printNotices(&b, c)
			default:
				t.Fatalf("%s: no command %q", d.Pos, d.Cmd)
			}
			return b.String()
		})
	})
}

func allPoints() []string {
	var all []string
	for p := range framework.NumPoints {
		all = append(all, p.Field())
	}
	return all
}

func printNotices(b *strings.Builder, c *Config) {
	fmt.Fprintf(b, "not evaluated: %s\n", strings.Join(c.NotEvaluated(), " "))
	for _, n := range c.NoEffect() {
		fmt.Fprintf(b, "no effect: %s\n", n)
	}
}

func printPoints(b *strings.Builder, c *Config, wanted []string) {
	for _, p := range c.profiles {
		fmt.Fprintf(b, "%s\n", p.name)
		for at := range framework.NumPoints {
			if !slices.Contains(wanted, at.Field()) {
				continue
			}
			fmt.Fprintf(b, "  %s:", at.Field())
			for _, name := range p.lists[at] {
				known, _ := known(nil).find(name)
				star := ""
				if !known.Evaluated(c.gates) {
					star = "*"
				}
				fmt.Fprintf(b, " %s%s", star, name)
				for _, s := range p.table.Scores {
					if at == framework.Score && s.Plugin == known.Plugin {
						fmt.Fprintf(b, "=%d", s.Weight)
					}
				}
			}
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(b, "backoff: %s to %s\n", c.PodInitialBackoff, c.PodMaxBackoff)
}

func printArguments(b *strings.Builder, c *Config) {
	for _, p := range c.profiles {
		fit := p.table.Fit
		fmt.Fprintf(b, "%s\n  fit: %s %v", p.name, fit.ScoringStrategy.Type, fit.ScoringStrategy.Resources)
		if r := fit.ScoringStrategy.RequestedToCapacityRatio; r != nil {
			fmt.Fprintf(b, " shape %v", r.Shape)
		}
		fmt.Fprintf(b, " ignored %v groups %v\n  balanced: %v\n", fit.IgnoredResources, fit.IgnoredResourceGroups, p.table.Balanced.Resources)
		fmt.Fprintf(b, "  spread: %s", p.table.Spread.DefaultingType)
		for _, c := range p.table.Spread.DefaultConstraints {
			fmt.Fprintf(b, " {%s %d %s}", c.TopologyKey, c.MaxSkew, c.WhenUnsatisfiable)
		}
		b.WriteByte('\n')
		if w := p.table.InterPodAffinity.HardPodAffinityWeight; w != nil {
			fmt.Fprintf(b, "  affinity: hard weight %d, preferred of others ignored %v\n", *w, p.table.InterPodAffinity.IgnorePreferredTermsOfExistingPods)
		}
		if n := p.table.VolumeBinding.BindTimeoutSeconds; n != nil {
			fmt.Fprintf(b, "  volumes: %d s\n", *n)
		}
		if a := p.table.NodeAffinity.AddedAffinity; a != nil {
			fmt.Fprintf(b, "  added: %v\n", a)
		}
	}
}

// TestDefaultIsTheEmptyFile holds the default to a file that says nothing, and the
// default's table part to the one that the compiler has for itself.
func TestDefaultIsTheEmptyFile(t *testing.T) {
	empty, err := Parse("config.yaml", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	same := cmp.AllowUnexported(Config{}, profile{})
	if diff := cmp.Diff(empty, c, same); diff != "" {
		t.Errorf("empty file -, default +\n%s", diff)
	}
	if got := c.PodInitialBackoff; got != time.Second {
		t.Errorf("initial backoff: want 1s, got %s", got)
	}
	if got := c.PodMaxBackoff; got != 10*time.Second {
		t.Errorf("max backoff: want 10s, got %s", got)
	}
	want := rules.DefaultConfig("default-scheduler")
	got := c.profiles[0].table
	if diff := cmp.Diff(want.Filters, got.Filters); diff != "" {
		t.Errorf("filters: want -, got +\n%s", diff)
	}
	if diff := cmp.Diff(want.Scores, got.Scores); diff != "" {
		t.Errorf("scores: want -, got +\n%s", diff)
	}
	if got := c.NotEvaluated(); len(got) != 0 {
		t.Errorf("not evaluated: want nothing, got %q", got)
	}
	if got := c.NoEffect(); len(got) != 0 {
		t.Errorf("no effect: want nothing, got %q", got)
	}
}

// TestTheDocumentedExampleLoads keeps docs/configuration.md true: its example, and its
// table of plugins.
func TestTheDocumentedExampleLoads(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(text), "```yaml\n")
	example, _, closed := strings.Cut(example, "```")
	if !found || !closed {
		t.Fatal("docs/configuration.md: want an example in yaml, got none")
	}
	c, err := Parse("docs/configuration.md", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if notes := c.NoEffect(); len(c.profiles) != 2 || len(notes) != 0 {
		t.Errorf("example: want 2 profiles and nothing without effect, got %d and %q", len(c.profiles), notes)
	}
	rows := tableOf(string(text))
	for _, p := range rules.All() {
		if !p.InDefault(groups.All()) {
			if !strings.Contains(string(text), p.Name) {
				t.Errorf("docs/configuration.md: want %s named, got no word of it", p.Name)
			}
			continue
		}
		want := "no"
		if p.Evaluated(groups.All()) {
			want = "yes"
		}
		if got := rows[p.Name]; got != want {
			t.Errorf("docs/configuration.md: %s is evaluated: want %q, got %q", p.Name, want, got)
		}
	}
}

// tableOf is the table of plugins: whether each is evaluated, by name.
func tableOf(text string) map[string]string {
	rows := map[string]string{}
	_, text, _ = strings.Cut(text, "| plugin | weight |")
	for _, line := range strings.Split(text, "\n")[2:] {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			break
		}
		for _, name := range strings.Split(cells[1], ",") {
			rows[strings.TrimSpace(name)] = strings.TrimSpace(cells[3])
		}
	}
	return rows
}

// TestALeaseOfTheFile takes the leader's lease from a file that names one, and only then.
func TestALeaseOfTheFile(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	for text, want := range map[string]time.Duration{
		"":                                     0,
		"leaderElection: {renewDeadline: 5s}":  0,
		"leaderElection: {leaseDuration: 30s}": 30 * time.Second,
		"leaderElection: {leaseDuration: 15s, leaderElect: true}":             15 * time.Second,
		"clientConnection: &x {}\nleaderElection:\n  leaseDuration: 1m0s\n\n": time.Minute,
	} {
		c, err := Parse("f", []byte(head+text))
		if err != nil {
			t.Fatal(err)
		}
		if c.LeaseDuration != want {
			t.Errorf("%q: lease: want %s, got %s", text, want, c.LeaseDuration)
		}
	}
}

func TestProfilesAreByName(t *testing.T) {
	c, err := Load("testdata/packing.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"default-scheduler", "packing"} {
		if got[name] == nil || got[name].Name() != name {
			t.Errorf("profile %q: want one of that name, got %v", name, got[name])
		}
	}
	if len(got) != 2 {
		t.Errorf("profiles: want 2, got %d", len(got))
	}
}

func TestLoadOfWhatIsNotThere(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error: want one of a missing file, got %v", err)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a folder: want an error, got none")
	}
}

func TestAnErrorNamesItsFileAndLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sched.yaml")
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 0\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(file)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error: want an *Error, got %v", err)
	}
	want := Error{File: file, Line: 3, Field: "parallelism", Problem: "Invalid value: 0: should be an integer value greater than zero"}
	if *e != want {
		t.Errorf("error:\nwant %+v\ngot  %+v", want, *e)
	}
}

func TestTooLargeAFileIsRefused(t *testing.T) {
	_, err := Parse("big.yaml", []byte(strings.Repeat("#\n", maxBytes)))
	if want := "big.yaml: larger than 4 MiB"; err == nil || err.Error() != want {
		t.Errorf("error: want %q, got %v", want, err)
	}
}

// TestManyErrorsAreCut holds errors, and the time that they take, to a bound.
func TestManyErrorsAreCut(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	many := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, test := range map[string]struct{ text, last string }{
		"repeated keys": {head + "extenders: []\n" + strings.Repeat("extenders: []\n", 20_000), "and 19950 more"},
		"extenders":     {head + "extenders:\n" + many("- {urlPrefix: a%d, prioritizeVerb: b}\n", 2000), "and 1950 more"},
		"profiles":      {head + "profiles:\n" + many("- {schedulerName: a%d}\n", maxProfiles+1), "profiles: Too many: 1001: must have at most 1000 items"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f", []byte(test.text))
			if err == nil || !strings.HasSuffix(err.Error(), test.last) {
				t.Fatalf("error: want one that ends in %q, got %v", test.last, err)
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines > maxErrors+1 {
				t.Errorf("errors: want at most %d, got %d", maxErrors+1, lines)
			}
		})
	}
}

// TestChangesGoBeforeTheCheck changes a file's fields as flags do: what is then right is
// accepted, and what is then wrong refused.
func TestChangesGoBeforeTheCheck(t *testing.T) {
	const text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaseDuration: 5s}\n"
	lease := func(d time.Duration) Change {
		return func(c *configv1.KubeSchedulerConfiguration) { c.LeaderElection.LeaseDuration.Duration = d }
	}
	if _, err := Parse("f", []byte(text)); err == nil {
		t.Error("a lease shorter than its renewal: want an error, got none")
	}
	c, err := Parse("f", []byte(text), lease(20*time.Second))
	if err != nil || c.LeaderElection.LeaseDuration.Duration != 20*time.Second {
		t.Errorf("want a lease of 20s, got %v, %v", c, err)
	}
	want := "leaderElection.leaseDuration: Invalid value"
	if _, err := FromDefault(lease(time.Second)); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("without a file: want %s, got %v", want, err)
	}
}

// TestWhatTheAPIServerNeeds reads the fields that only count beside one.
func TestWhatTheAPIServerNeeds(t *testing.T) {
	const text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 4\n" +
		"clientConnection: {qps: 70}\nenableProfiling: false\ndelayCacheUntilActive: true\nleaderElection: {leaderElect: false}\n"
	c, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if c.ClientConnection.QPS != 70 || c.ClientConnection.Burst != 100 || c.Profiling || c.ContentionProfiling || !c.DelayCacheUntilActive || *c.LeaderElection.LeaderElect {
		t.Errorf("got %+v", c)
	}
	if got, want := c.NoEffectInKubernetes(), []string{"parallelism: a worker has as many cores as it is given"}; !slices.Equal(got, want) {
		t.Errorf("no effect: want %q, got %q", want, got)
	}
	if got := c.NoEffect(); len(got) != 5 {
		t.Errorf("no effect without an API server: want 5 fields, got %q", got)
	}
}

// The plugins of pod groups are in the default list while their gates are on, where a profile does not leave them out.
func TestGatesOfPodGroupsHaveTheirPlugins(t *testing.T) {
	const file = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: whole
- schedulerName: weighed
  plugins: {placementScore: {enabled: [{name: PodGroupPodsCount, weight: 5}]}, multiPoint: {enabled: [{name: NodeResourcesFit, weight: 7}]}}
- schedulerName: less
  plugins: {multiPoint: {disabled: [{name: GangScheduling}]}, placementScore: {disabled: [{name: "*"}]}}
- schedulerName: half
  plugins: {permit: {disabled: [{name: GangScheduling}]}}
`
	all := compile.PodGroupPlugins{Gates: true, Counts: true, Proposes: true, PodsCount: 1, Fit: 1}
	weighed, less, half := all, compile.PodGroupPlugins{Proposes: true}, all
	weighed.PodsCount, weighed.Fit, half.Counts = 5, 7, false
	for _, x := range []struct {
		gates groups.Gates
		want  []compile.PodGroupPlugins
	}{
		{groups.All(), []compile.PodGroupPlugins{all, weighed, less, half}},
		{groups.Gates{Workload: true, Gang: true}, []compile.PodGroupPlugins{
			{Gates: true, Counts: true, Fit: 1}, {Gates: true, Counts: true, PodsCount: 5, Fit: 7}, {}, {Gates: true, Fit: 1}}},
		{groups.Gates{}, []compile.PodGroupPlugins{{Fit: 1}, {PodsCount: 5, Fit: 7}, {}, {Fit: 1}}},
	} {
		c, err := Reader{}.With(x.gates).Parse("test", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		profiles, err := c.Profiles()
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"whole", "weighed", "less", "half"} {
			if got := profiles[name].PodGroups(); got != x.want[i] {
				t.Errorf("%+v, profile %s: got %+v, want %+v", x.gates, name, got, x.want[i])
			}
		}
		if got, want := slices.Contains(c.NotEvaluated(), "PodGroupPodsCount"), !x.gates.Topology; got != want {
			t.Errorf("%+v: PodGroupPodsCount not evaluated: got %v, want %v", x.gates, got, want)
		}
	}
}
