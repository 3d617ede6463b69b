package mixin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// mayBeEmpty are parts of queries that have no answer on a bed on which all is well, and why.
var mayBeEmpty = map[string]string{
	"ALERTS{": "no alert fires",
	"changes(max(shardsched_leader_since_timestamp_seconds": "the leader stays",
	"shardsched_panics_total":                               "no bug is met",
	"shardsched_quarantined_objects":                        "all objects can be taken in",
	"shardsched_fanout_quarantines_total":                   "all workers are honest",
	`code!="OK"`:                                            "no request to a worker fails",
	"shardsched_worker_needs_total":                         "no worker has forgotten what it was given",
	"shardsched_etcd_conflicts_total":                       "one leader writes",
	"shardsched_etcd_unanswered_txns_total":                 "etcd answers",
	"scheduler_volume_binder_cache_requests_total":          "kube-scheduler 1.36 does not count it either",
	"scheduler_resourceclaim_creates_total":                 "no pod asks for devices by extended resources",
	"scheduler_dra_bindingconditions_":                      "there are no devices",
	"scheduler_permit_wait_duration_seconds":                "no plugin is compiled in",
	"shardsched_guest_":                                     "no plugin is compiled in",
	"shardsched_extender_calls_in_flight":                   "no extender is configured",
	"shardsched_extender_call_duration_seconds":             "no extender is configured",
	"shardsched_extender_errors_total":                      "no extender is configured",
	"shardsched_kubelet_refused_pods_total":                 "no kubelet runs",
	"shardsched_traces_total":                               "traces are off",
	"shardsched_spans_total":                                "traces are off",
	"shardsched_record_":                                    "nothing is recorded",
	"shardsched_shadow_":                                    "no shadow runs",
}

// query is one that a dashboard asks.
type query struct {
	from, expr string
	labels     []string // that the legend names
}

var (
	named    = regexp.MustCompile(`\{\{(\w+)\}\}`)
	variable = strings.NewReplacer("$cluster", ".*", "$namespace", ".*", "$__rate_interval", "2m")
)

// queries are those of all panels and annotations.
func queries(t *testing.T) (out []query) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "deploy/mixin/dashboards/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("want dashboards, got %v, %v", files, err)
	}
	for _, file := range files {
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr, LegendFormat string }
			}
			Annotations struct {
				List []struct{ Name, Expr string }
			}
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &board)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				q := query{from: filepath.Base(file) + ": " + p.Title, expr: variable.Replace(target.Expr)}
				for _, m := range named.FindAllStringSubmatch(target.LegendFormat, -1) {
					q.labels = append(q.labels, m[1])
				}
				out = append(out, q)
			}
		}
		for _, a := range board.Annotations.List {
			out = append(out, query{from: filepath.Base(file) + ": annotation " + a.Name, expr: variable.Replace(a.Expr)})
		}
	}
	return out
}

// names are the metrics and series that an expression asks for, among others.
func (q query) names() []string {
	return regexp.MustCompile(`\b[a-zA-Z_:]\w+\b`).FindAllString(q.expr, -1)
}

// empty says why a query may have no answer; empty: it must have one.
func (q query) empty() string {
	for part, why := range mayBeEmpty {
		if strings.Contains(q.expr, part) {
			return why
		}
	}
	return ""
}

// expectation is what promtool compares with.
type expectation struct {
	Expr    string   `json:"expr"`
	At      string   `json:"eval_time"`
	Samples []sample `json:"exp_samples"`
}

type sample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// expects has a query be 1 where it gives a number, and where each of its series has all labels that the legend names. One that may be
// empty is evaluated all the same.
func (q query) expects(at string) expectation {
	inner := "(" + q.expr + ") > -Inf" // not NaN
	for _, l := range q.labels {
		inner = fmt.Sprintf(`label_replace(%s, "lacks", %q, %q, "")`, inner, l, l)
	}
	expr := fmt.Sprintf("count by (lacks) (%s) > bool 0", inner)
	if q.empty() != "" {
		expr = "max(" + expr + ") or vector(1)"
	}
	return expectation{Expr: expr, At: at, Samples: []sample{{Labels: "{}", Value: 1}}}
}

// scrapes are the series of several processes, and their values, one a round; NaN: it was not there.
type scrapes struct {
	wanted map[string]bool // metrics; others are left out
	rounds int
	series map[string][]float64
}

// take adds what a process has told in the latest round.
func (s *scrapes) take(job, instance, text string) error {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return err
	}
	for name, f := range families {
		if !s.wanted[name] {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := fmt.Sprintf(`job=%q, namespace="s", instance=%q`, job, instance)
			for _, l := range m.GetLabel() {
				labels += fmt.Sprintf(", %s=%q", l.GetName(), l.GetValue())
			}
			switch f.GetType() {
			case dto.MetricType_HISTOGRAM:
				h := m.GetHistogram()
				for _, b := range h.GetBucket() {
					le := strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)
					s.add(fmt.Sprintf(`%s_bucket{%s, le=%q}`, name, labels, le), float64(b.GetCumulativeCount()))
				}
				s.add(fmt.Sprintf(`%s_sum{%s}`, name, labels), h.GetSampleSum())
				s.add(fmt.Sprintf(`%s_count{%s}`, name, labels), float64(h.GetSampleCount()))
			default: // one of these is there
				s.add(fmt.Sprintf(`%s{%s}`, name, labels), m.GetCounter().GetValue()+m.GetGauge().GetValue()+m.GetUntyped().GetValue())
			}
		}
	}
	return nil
}

func (s *scrapes) add(series string, v float64) {
	values := s.series[series]
	for len(values) < s.rounds {
		values = append(values, math.NaN())
	}
	values[s.rounds-1] = v
	s.series[series] = values
}

// input is the series in promtool's notation.
func (s *scrapes) input() (out []map[string]string) {
	for _, series := range slices.Sorted(maps.Keys(s.series)) {
		var values []string
		for _, v := range s.series[series] {
			if math.IsNaN(v) {
				values = append(values, "_")
			} else {
				values = append(values, strconv.FormatFloat(v, 'f', -1, 64))
			}
		}
		out = append(out, map[string]string{"series": series, "values": strings.Join(values, " ")})
	}
	return out
}

// metricOf is the metric that a series is of.
func metricOf(series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		series = strings.TrimSuffix(series, suffix)
	}
	return series
}

// bed is a control plane with a coordinator that leads, one that stands by, and two workers.
type bed struct {
	*testbed.Cluster
	coordinators []*testbed.SchedulerProcess
	workers      map[string]string  // where each serves its metrics, by its name
	processes    []*process.Process // all of them; they log in JSON
	scrapes      scrapes
	waves        int
}

func newBed(t *testing.T, wanted map[string]bool) *bed {
	t.Helper()
	b := &bed{Cluster: testbed.New(t, testbed.Config{NoAudit: true, APIServerArgs: []string{
		"--runtime-config=scheduling.k8s.io/v1alpha2=true", "--feature-gates=GenericWorkload=true,GangScheduling=true",
	}}), workers: map[string]string{},
		scrapes: scrapes{wanted: wanted, series: map[string][]float64{}}}
	for _, name := range []string{"worker-a", "worker-b"} {
		b.workers[name] = process.MustFreeAddress(t)
		b.processes = append(b.processes, b.Worker(name, "--http-listen="+b.workers[name], "--logging-format=json", "-v=2"))
	}
	for _, name := range []string{"leads", "stands-by"} {
		p := b.Coordinator(testbed.Scheduler{Name: name, Args: []string{"--logging-format=json", "--feature-gates=GenericWorkload=true,GangScheduling=true"}})
		b.coordinators, b.processes = append(b.coordinators, p), append(b.processes, p.Process)
	}
	nodes := make([]runtime.Object, 200)
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		nodes[i] = build.Node(name).CPU("8").Memory("32Gi").Pods("110").Label("host", name).Obj()
	}
	b.CreateAll(nodes...)
	waits := build.Pod("waits").CPU("100").Obj()
	b.Create(waits)
	b.Unschedulable("default/waits")
	return b
}

// wave has pods of many classes placed, a gang, too, and one evict another.
func (b *bed) wave() {
	b.T.Helper()
	b.waves++
	var pods []runtime.Object
	var keys []string
	for i := range 150 {
		p := build.Pod(fmt.Sprintf("w%d-%d", b.waves, i)).CPU(fmt.Sprintf("%dm", 10+i)).Memory("1Mi").Label("app", fmt.Sprintf("a%d", i%7))
		pods, keys = append(pods, p.Obj()), append(keys, fmt.Sprintf("default/w%d-%d", b.waves, i))
	}
	gang := fmt.Sprintf("gang%d", b.waves)
	pods = append(pods, build.Gang(gang, 2).Obj())
	for _, member := range []string{gang + "-0", gang + "-1"} {
		pods, keys = append(pods, build.Pod(member).CPU("10m").Member(gang).Obj()), append(keys, "default/"+member)
	}
	b.CreateAll(pods...)
	b.Until("are bound", testbed.IsBound, keys...)
	for i, name := range []string{"evicted", "evicts"} {
		p := build.Pod(fmt.Sprintf("%s%d", name, b.waves)).CPU("7").Priority(int32(1 + i)).Obj()
		p.Spec.NodeSelector = map[string]string{"host": fmt.Sprintf("n%d", b.waves)}
		p.Spec.TerminationGracePeriodSeconds = new(int64)
		b.Create(p)
		b.Bound("default/" + p.Name)
	}
}

// scrape asks every process for its metrics.
func (b *bed) scrape() {
	b.T.Helper()
	b.scrapes.rounds++
	for _, p := range b.coordinators {
		status, text, err := p.Get(b.Context(), "/metrics", b.AdminToken())
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d: %s", status, text)
		}
		if err == nil {
			err = b.scrapes.take("coordinator", p.Name, text)
		}
		if err != nil {
			b.T.Fatalf("metrics of %s: %v", p.Name, err)
		}
	}
	for name, address := range b.workers {
		text, err := get(b.Context(), "http://"+address+"/metrics")
		if err == nil {
			err = b.scrapes.take("worker", name, text)
		}
		if err != nil {
			b.T.Fatalf("metrics of %s: %v", name, err)
		}
	}
}

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	return string(text), err
}

// logs are JSON, a line each, but for the line that says where a process listens.
func (b *bed) logs() {
	b.T.Helper()
	for _, p := range b.processes {
		lines, told := p.Tail(1000), 0
		for _, line := range lines {
			var entry struct {
				Time    any    `json:"ts"`
				Message string `json:"msg"`
			}
			switch err := json.Unmarshal([]byte(line), &entry); {
			case err == nil && entry.Time != nil && entry.Message != "":
				told++
			case !strings.Contains(line, " serves "):
				b.T.Errorf("%s: want a line of JSON with ts and msg, got %s", p.Name, line)
			}
		}
		if told == 0 {
			b.T.Errorf("%s: want lines in its log, got %q", p.Name, lines)
		}
	}
}

// dashboards runs every query over what the bed tells: it gives numbers, but where nothing is the right answer, and its series have
// the labels that the legend names. Of the alerts none fires. And logs are in the format that was asked for.
func (p promtool) dashboards(t *testing.T) {
	all := queries(t)
	wanted := map[string]bool{}
	rules, err := os.ReadFile(filepath.Join(root, "deploy/mixin/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range (query{expr: string(rules)}).names() {
		wanted[metricOf(name)] = true
	}
	for _, q := range all {
		for _, name := range q.names() {
			wanted[metricOf(name)] = true
		}
	}
	for part := range mayBeEmpty {
		if !slices.ContainsFunc(all, func(q query) bool { return strings.Contains(q.expr, part) }) {
			t.Errorf("mayBeEmpty: want a part of a query, got %s", part)
		}
	}
	b := newBed(t, wanted)
	b.scrape()
	const waves = 3
	for range waves {
		b.wave()
		b.scrape()
	}
	b.logs()
	interval := 30 * time.Second
	at := (waves * interval).String()
	expected := []expectation{{Expr: `ALERTS{alertstate="firing"}`, At: at, Samples: []sample{}}}
	for _, q := range all {
		expected = append(expected, q.expects(at))
	}
	dir := t.ArtifactDir()
	text, err := json.MarshalIndent(map[string]any{
		"rule_files": []string{"rules.yaml"}, "evaluation_interval": interval.String(),
		"tests": []map[string]any{{"interval": interval.String(), "input_series": b.scrapes.input(), "promql_expr_test": expected}},
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{"rules.yaml": rules, "dashboards_test.yaml": text} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := p.run(t, dir, "test", "rules", "dashboards_test.yaml"); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
		for _, q := range all {
			if e := q.expects(at); strings.Contains(out, strconv.Quote(e.Expr)) {
				t.Errorf("%s: want numbers with the labels %v, got none, or a label is not there: %s", q.from, q.labels, q.expr)
			}
		}
	}
}
