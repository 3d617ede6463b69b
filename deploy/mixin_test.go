package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rule is an alert, or a series that is recorded.
type rule struct {
	Alert       string            `json:"alert"`
	Record      string            `json:"record"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func readRules(t *testing.T) (rules []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(content(t, "mixin/rules.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

func content(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// asked finds the names of metrics that belong to shardsched and to kube-scheduler, and of series that are recorded.
var asked = regexp.MustCompile(`\b(?:scheduler|shardsched)_[a-z_]+|\bshardsched:\w+:?\w*`)

// metricOf is the metric that a series is of.
func metricOf(series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		series = strings.TrimSuffix(series, suffix)
	}
	return series
}

// metricsOfTheCode are all that a process of ours serves under names of its own.
func metricsOfTheCode(t *testing.T) map[string]bool {
	t.Helper()
	out := quoted(t, `"((?:scheduler|shardsched)_[a-z_]+)"`, "../coordinator", "../worker")
	maps.Copy(out, quoted(t, `"(shardsched_[a-z_]+)"`, "../cmd"))
	return out
}

// TestAlertsAreWhole holds each alert to its runbook, to a case that fires and one that stays silent, and to the metrics of the code.
func TestAlertsAreWhole(t *testing.T) {
	known, rules := metricsOfTheCode(t), readRules(t)
	var tests struct {
		Tests []struct {
			Name string `json:"name"`
			Expr []struct {
				Expr    string `json:"expr"`
				Samples []any  `json:"exp_samples"`
			} `json:"promql_expr_test"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal(content(t, "mixin/rules_test.yaml"), &tests); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, x := range tests.Tests {
		for _, e := range x.Expr {
			alert := regexp.MustCompile(`ALERTS\{alertname="(\w+)", alertstate="firing"\}`).FindStringSubmatch(e.Expr)
			if alert == nil || !strings.HasPrefix(x.Name, alert[1]+" ") {
				t.Errorf("rules_test.yaml: %s: want the alert of its name asked for, got %s", x.Name, e.Expr)
				continue
			}
			if len(e.Samples) > 0 {
				fires[alert[1]] = true
			} else if strings.HasPrefix(e.Expr, "max_over_time(") {
				silent[alert[1]] = true
			}
		}
	}
	books := sections(string(content(t, "../docs/runbooks.md")))
	for _, r := range rules {
		known[r.Record] = true
	}
	for _, r := range rules {
		for _, series := range asked.FindAllString(r.Expr, -1) {
			if !known[metricOf(series)] {
				t.Errorf("%s%s: want a metric that there is, got %s", r.Alert, r.Record, series)
			}
		}
		if r.Alert == "" {
			continue
		}
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: want a case that fires and one that is silent all the time, got %v and %v", r.Alert, fires[r.Alert], silent[r.Alert])
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: want the severity critical or warning, got %q", r.Alert, s)
		}
		url := "https://github.com/shardsched/shardsched/blob/main/docs/runbooks.md#" + strings.ToLower(r.Alert)
		if a := r.Annotations; a["summary"] == "" || a["description"] == "" || a["runbook_url"] != url {
			t.Errorf("%s: want a summary, a description and the runbook %s, got %v", r.Alert, url, a)
		}
		book := books[r.Alert]
		for _, part := range []string{"**Meaning.** ", "**Impact.** ", "**First look.**", "**Mend.** "} {
			if !strings.Contains(book, part) {
				t.Errorf("docs/runbooks.md: %s: want %q, got %q", r.Alert, part, book)
			}
		}
		delete(books, r.Alert)
	}
	for name := range books {
		t.Errorf("docs/runbooks.md: want an alert for each section, got %q", name)
	}
}

// sections are the texts of a page below its headings of the second level.
func sections(page string) map[string]string {
	out := map[string]string{}
	for _, part := range strings.Split(page, "\n## ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		out[name] = text
	}
	return out
}

// TestRunbooksAskForWhatThereIs looks the metrics and commands of the runbooks up in the code, and the alerts that they send people to.
func TestRunbooksAskForWhatThereIs(t *testing.T) {
	page := string(content(t, "../docs/runbooks.md"))
	known, books := metricsOfTheCode(t), sections(page)
	for _, series := range asked.FindAllString(page, -1) {
		if !known[metricOf(series)] {
			t.Errorf("want a metric that there is, got %s", series)
		}
	}
	for _, alert := range regexp.MustCompile(`Shardsched[A-Z]\w+`).FindAllString(page, -1) {
		if books[alert] == "" {
			t.Errorf("want an alert that there is, got %s", alert)
		}
	}
	uses := quoted(t, `Use:\s+"([a-z]+)`, "../cmd/internal/cli")
	for _, m := range regexp.MustCompile(`(?m)^    shardsched ([a-z]+)`).FindAllStringSubmatch(page, -1) {
		if !uses[m[1]] {
			t.Errorf("want a command that there is, got shardsched %s", m[1])
		}
	}
	// Words of the log, in quotes that a shell takes.
	logged := quoted(t, `"([A-Z][^"]+)"`, "../coordinator", "../worker", "../cmd/internal/cli")
	for _, m := range regexp.MustCompile(`grep (?:-\w+ )*'([A-Z][^']+)'`).FindAllStringSubmatch(page, -1) {
		for _, line := range strings.Split(m[1], "|") {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(logged)), func(l string) bool { return strings.HasPrefix(l, line) }) {
				t.Errorf("want a line that the log has, got %q", line)
			}
		}
	}
}

// TestTheRuleObjectIsTheRules holds the object for the operator to the file for Prometheus itself.
func TestTheRuleObjectIsTheRules(t *testing.T) {
	var rules, object map[string]any
	if err := yaml.Unmarshal(content(t, "mixin/rules.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content(t, "mixin/prometheusrule.yaml"), &object); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": map[string]any{"name": "shardsched", "labels": map[string]any{"app.kubernetes.io/name": "shardsched"}},
		"spec":     rules,
	}
	got, _ := json.Marshal(object)
	if wanted, _ := json.Marshal(want); string(got) != string(wanted) {
		t.Errorf("mixin/prometheusrule.yaml: want mixin/rules.yaml below spec,\n%s\ngot\n%s", wanted, got)
	}
}

// board is a dashboard, as far as tests look at it.
type board struct {
	file   string
	UID    string  `json:"uid"`
	Title  string  `json:"title"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

func readBoards(t *testing.T) (boards []board) {
	t.Helper()
	files, err := filepath.Glob("mixin/dashboards/*.json")
	if err != nil || len(files) != 5 {
		t.Fatalf("want five dashboards, got %v, %v", files, err)
	}
	for _, file := range files {
		b := board{file: file}
		if err := json.Unmarshal(content(t, file), &b); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		boards = append(boards, b)
	}
	return boards
}

// TestDashboardsShowWhatThereIs looks every metric and label of the dashboards up in the code, and every metric of the code up in the
// dashboards.
func TestDashboardsShowWhatThereIs(t *testing.T) {
	known := metricsOfTheCode(t)
	words := quoted(t, `"([a-z_]+)"`, "../coordinator", "../worker", "../cmd/internal")
	label := regexp.MustCompile(`\{\{(\w+)\}\}`)
	shown, uids := map[string]bool{}, map[string]bool{}
	for _, b := range readBoards(t) {
		if uids[b.UID] {
			t.Errorf("%s: want a uid of its own, got %s again", b.file, b.UID)
		}
		uids[b.UID] = true
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range b.Panels {
			if ids[p.ID] {
				t.Errorf("%s: %s: want an id of its own, got %d again", b.file, p.Title, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other, is := taken[[2]int{x, y}]; is || x >= 24 {
						t.Fatalf("%s: %s: want a place of its own among 24 columns, got one on %q", b.file, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			for _, target := range p.Targets {
				for _, series := range asked.FindAllString(target.Expr, -1) {
					shown[metricOf(series)] = true
					if !known[metricOf(series)] {
						t.Errorf("%s: %s: want a metric that there is, got %s", b.file, p.Title, series)
					}
				}
				for _, m := range label.FindAllStringSubmatch(target.Legend, -1) {
					if m[1] != "instance" && !words[m[1]] {
						t.Errorf("%s: %s: want a label that there is, got %s", b.file, p.Title, m[1])
					}
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !shown[name] {
			t.Errorf("dashboards: want %s shown, got no panel with it", name)
		}
	}
}

// TestPanelsHaveTheUnitsOfTheirMetrics holds the unit of each panel to the names of the metrics that it shows.
func TestPanelsHaveTheUnitsOfTheirMetrics(t *testing.T) {
	for _, b := range readBoards(t) {
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				if want, got := unitOf(target.Expr), p.FieldConfig.Defaults.Unit; want != got {
					t.Errorf("%s: %s: %s: want the unit %s, got %s", b.file, p.Title, target.Expr, want, got)
				}
			}
		}
	}
}

// A join with build_info changes no unit, and neither does what stands behind "and".
var joined = regexp.MustCompile(` \* on \(.*?\) group_left \(.*?\) shardsched_build_info(\{.*?\})?| and on \(.*`)

// unitOf is Grafana's name of the unit of what an expression gives, by Prometheus' conventions for the names of metrics.
func unitOf(expr string) string {
	expr = joined.ReplaceAllString(expr, "")
	has := func(pattern string) bool { return regexp.MustCompile(pattern).MatchString(expr) }
	switch {
	case has(`^count|< bool`):
		return "short"
	case has(`^histogram_quantile`):
		if has(`_seconds_bucket`) {
			return "s"
		}
		return "short"
	case has(`_seconds_sum.* / .*_seconds_count`):
		return "s"
	case has(` / `):
		return "percentunit"
	case has(`rate\(\w+_seconds(_sum|_total)\{`): // seconds a second
		return "percentunit"
	case has(`rate\(\w+_bytes_total`):
		return "Bps"
	case has(`rate\(\w+_(total|count)\{`): // a second
		return "ops"
	case has(`_timestamp_seconds`) && !has(`time\(\)`):
		return "dateTimeAsIso"
	case has(`_seconds\b`):
		return "s"
	case has(`_bytes\b`):
		return "bytes"
	}
	return "short"
}

func TestUnitsAreByPrometheusConventions(t *testing.T) {
	for expr, want := range map[string]string{
		`sum(rate(a_total{x="y"}[5m]))`:                                        "ops",
		`sum(rate(a_seconds_total{x="y"}[5m]))`:                                "percentunit",
		`sum(rate(a_seconds_sum{}[5m])) / sum(rate(a_seconds_count{}[5m]))`:    "s",
		`histogram_quantile(0.99, sum by (le) (rate(a_seconds_bucket{}[5m])))`: "s",
		`histogram_quantile(0.99, sum by (le) (rate(a_pods_bucket{}[5m])))`:    "short",
		`max(a_bytes{})`:                      "bytes",
		`sum(rate(a_bytes_total{}[5m]))`:      "Bps",
		`time() - max(a_timestamp_seconds{})`: "s",
		`max(a_timestamp_seconds{})`:          "dateTimeAsIso",
		`max(a_pods{})`:                       "short",
		`sum by (version) (rate(a_total{}[5m]) * on (job, instance) group_left (version) shardsched_build_info{x="y"})`: "ops",
	} {
		if got := unitOf(expr); got != want {
			t.Errorf("%s: want %s, got %s", expr, want, got)
		}
	}
}
