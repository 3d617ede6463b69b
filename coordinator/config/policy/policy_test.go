package policy

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// translated runs a text through all of the package.
func translated(file string, data []byte, o Options) (*Result, error) {
	p, err := Parse(file, data)
	if err != nil {
		return nil, err
	}
	return Translate(p, o)
}

// TestScripts reads the policies of testdata. A command prints what a Policy comes to, as the file that
// convert policy writes, or its errors:
//
//	convert [from=1.15]       a Policy
//	configmap [from=1.15]     a manifest of a ConfigMap with one
//	provider NAME [from=1.15] an algorithm provider
//	filters, scores           the plugins of a Policy that filter, or score
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != "" || strings.Contains(path, "fuzz") {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			from := "1.22"
			d.MaybeScanArgs(t, "from", &from)
			minor, err := ParseVersion(from)
			if err != nil {
				return err.Error()
			}
			var p *Policy
			switch d.Cmd {
			case "configmap":
				p, err = ParseConfigMap("policy.yaml", []byte(d.Input+"\n"))
			case "provider":
				p, err = Provider(d.CmdArgs[0].Key)
			default:
				p, err = Parse("policy.cfg", []byte(d.Input+"\n"))
			}
			if err != nil {
				return err.Error()
			}
			r, err := Translate(p, Options{Minor: minor})
			if err != nil {
				return err.Error()
			}
			if _, err := r.Config(config.Reader{}); err != nil {
				return err.Error()
			}
			text, err := r.YAML()
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			switch d.Cmd {
			case "filters":
				return strings.Join(r.profile.filters, " ")
			case "scores":
				return scores(r)
			}
			return string(text)
		})
	})
}

func scores(r *Result) string {
	var list []string
	for _, rule := range rules.All() {
		if w := r.profile.scores[rule.Name]; w != 0 {
			list = append(list, fmt.Sprintf("%s=%d", rule.Name, w))
		}
	}
	return strings.Join(list, " ")
}

// TestEveryNameHasAFate tries each name by itself: it does what the table says.
func TestEveryNameHasAFate(t *testing.T) {
	arguments := map[string]string{
		labelsPresenceArgument:      `{"labelsPresence": {"labels": ["a"], "presence": true}}`,
		serviceAffinityArgument:     `{"serviceAffinity": {"labels": ["a"]}}`,
		labelPreferenceArgument:     `{"labelPreference": {"label": "a", "presence": true}}`,
		serviceAntiAffinityArgument: `{"serviceAntiAffinity": {"label": "a"}}`,
		capacityRatioArgument:       `{"requestedToCapacityRatioArguments": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}`,
		capacityRatio:               `{"requestedToCapacityRatioArguments": {"shape": [{"utilization": 0, "score": 10}]}}`,
	}
	for _, n := range Names() {
		item := `{"name": "` + strings.Trim(n.Name, "()") + `"`
		if a := arguments[n.Name]; a != "" {
			item += `, "argument": ` + a
		}
		text := `{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "MatchNodeSelector"}, ` + item + `}], "priorities": []}`
		if n.List == Priorities {
			text = `{"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [` + item + `, "weight": 3}]}`
		}
		r, err := translated("p", []byte(text), Options{})
		if refused := err != nil; refused != (n.Fate == Refused) {
			t.Errorf("%s: want it %s, got %v", n.Name, n.Fate, err)
			continue
		}
		if err != nil {
			if !strings.Contains(err.Error(), n.Note) || !strings.Contains(err.Error(), "p:1: "+n.List.String()+"[") {
				t.Errorf("%s: want the reason and the place, got %v", n.Name, err)
			}
			continue
		}
		if _, err := r.Config(config.Reader{}); err != nil {
			t.Errorf("%s: %v", n.Name, err)
		}
		for _, plugin := range n.Plugins {
			if in := slices.Contains(r.profile.filters, plugin); n.List == Predicates && !in {
				t.Errorf("%s: want the filter %s, got %v", n.Name, plugin, r.profile.filters)
			}
			if w := r.profile.scores[plugin]; n.List == Priorities && w != 3 {
				t.Errorf("%s: want the score %s with 3, got %d", n.Name, plugin, w)
			}
		}
		if n.List == Priorities && n.Fate == Idle && len(r.profile.scores) > 0 {
			t.Errorf("%s: want no score, got %v", n.Name, r.profile.scores)
		}
	}
}

// TestDefaultsAreNames holds every list of defaults to names that are known and not refused.
func TestDefaultsAreNames(t *testing.T) {
	for minor := FirstMinor; minor <= LastMinor; minor++ {
		for _, name := range defaultPredicates(minor) {
			if n, ok := find(Predicates, name); !ok || n.Fate == Refused {
				t.Errorf("1.%d: predicate %s: got %v, %v", minor, name, n, ok)
			}
		}
		for _, p := range defaultPriorities(minor) {
			if n, ok := find(Priorities, p.name); !ok || n.Fate == Refused {
				t.Errorf("1.%d: priority %s: got %v, %v", minor, p.name, n, ok)
			}
		}
		r, err := translated("p", []byte("kind: Policy\napiVersion: v1\n"), Options{Minor: minor})
		if err != nil {
			t.Fatalf("1.%d: %v", minor, err)
		}
		spread := slices.Contains(r.profile.filters, "PodTopologySpread")
		weight, images := r.profile.scores["PodTopologySpread"], r.profile.scores["ImageLocality"]
		if spread != (minor >= 18) || (weight == 2) != (minor >= 18) || (images == 1) != (minor >= 12) {
			t.Errorf("1.%d: got spread as a filter %v, as a score %d, images %d", minor, spread, weight, images)
		}
	}
}

// TestTheTableIsInTheDocument holds docs/policy.md to Names, row by row.
func TestTheTableIsInTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\| ([^|]*) \\|$").FindAllStringSubmatch(string(text), -1)
	var got, want []string
	for _, row := range rows {
		got = append(got, strings.Join(row[1:], " | "))
	}
	for _, n := range Names() {
		plugins := strings.Join(n.Plugins, ", ")
		want = append(want, strings.TrimSpace(n.Name+" | "+cmp.Or(plugins, n.Fate.String())+" | "+note(n)))
	}
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/policy.md: want these rows\n%s\ngot\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

func note(n Name) string {
	if n.Note == "" || n.More == "" {
		return n.Note + n.More
	}
	return n.Note + "; " + n.More
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]int{"1.8": 8, "v1.22": 22, "1.18.3": 18, "1.7": 0, "1.23": 0, "1": 0, "": 0, "1.x": 0, "2.10": 0} {
		if got, err := ParseVersion(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: want %d, got %d, %v", text, want, got, err)
		}
	}
}

// FuzzParse reads arbitrary bytes. Whatever they are, the answer is errors that name the file, or a Policy whose
// translation loads or is refused.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "{", "[]", "kind: Policy", `{"kind": "Policy", "apiVersion": "v1"}`, "a: &a [*a]", "kind: Policy\napiVersion: v1\npredicates: &a [{name: *a}]",
		`{"kind":"Policy","apiVersion":"v1","predicates":[{"name":"x","argument":{"labelsPresence":{"labels":["a"],"presence":true}}}]}`,
		`{"kind":"Policy","apiVersion":"v1","priorities":[{"name":"LeastRequestedPriority","weight":1e3}],"extenders":[{"URLPREFIX":"http://a","Weight":1,"httpTimeout":1}]}`,
		"kind: Policy\napiVersion: v1\nextenders: [{tlsConfig: {certData: '!'}, managedResources: [{name: a/b}]}]\nhardPodAffinitySymmetricWeight: 101",
		"kind: Policy\napiVersion: v1\npriorities: [{name: \"a\\nb\", weight: 1, argument: {requestedToCapacityRatioArguments: {shape: [{utilization: 5, score: 5}]}}}]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := translated("f", data, Options{})
		if err == nil {
			var text []byte
			if text, err = r.YAML(); err != nil {
				t.Fatal(err)
			}
			if _, err = r.Config(config.Reader{}); err == nil {
				if _, again := config.Parse("written", text); again != nil {
					t.Fatalf("what is written: %v\n%s", again, text)
				}
				return
			}
		}
		checkErrors(t, err)
	})
}

func checkErrors(t *testing.T, err error) {
	t.Helper()
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			checkErrors(t, e)
		}
		return
	}
	e, ok := err.(*config.Error)
	if !ok || e.File != "f" || e.Problem == "" || len(e.Error()) > 4000 {
		t.Fatalf("error: want one that names the file and a problem, got %T %v", err, err)
	}
}
