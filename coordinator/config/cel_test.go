package config

import (
	"strings"
	"testing"
)

// celFile is a configuration with expressions.
func celFile(filter, score string) string {
	return `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: cel
  plugins:
    multiPoint:
      enabled:
      - name: CELFilter
      - name: CELScore
        weight: 5
  pluginConfig:
  - name: CELFilter
    args:
      apiVersion: shardsched.io/v1
      kind: CELFilterArgs
      expressions:
` + filter + `
  - name: CELScore
    args:
` + score
}

const (
	goodFilter = `      - {name: zone, expression: "node.labels['zone'] in pod.annotations['zones'].split(',')"}`
	goodScore  = `      expressions: [{name: pods, expression: "100 - node.pods"}]`
)

func TestExpressionsAreRead(t *testing.T) {
	c, err := Parse("f", []byte(celFile(goodFilter, goodScore)))
	if err != nil {
		t.Fatal(err)
	}
	if n := append(c.NotEvaluated(), c.NoEffect()...); strings.Contains(strings.Join(n, " "), "CEL") {
		t.Errorf("not evaluated or without effect: %q", n)
	}
	profiles, err := c.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	if got := profiles["cel"].Scores(); got[len(got)-1].Plugin.String() != "PLUGIN_CEL_SCORE" || got[len(got)-1].Weight != 5 {
		t.Errorf("scores: got %v, want CELScore at the end with weight 5", got)
	}
	written, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"apiVersion: shardsched.io/v1", "failurePolicy: Fail", "normalize: None", "weight: 1"} {
		if !strings.Contains(string(written), want) {
			t.Errorf("written: want %q in it, got\n%s", want, written)
		}
	}
	again, err := Parse("g", written)
	if err != nil {
		t.Fatalf("what was written: %v", err)
	}
	if second, _ := again.YAML(); string(second) != string(written) {
		t.Errorf("written again: got\n%s\nwant\n%s", second, written)
	}
}

func TestErrorsOfExpressions(t *testing.T) {
	const list = "profiles[0].pluginConfig[0].args.expressions"
	for _, c := range []struct{ filter, score, want string }{
		{`      - {name: a, expression: "node.label['a'] == 'b'"}`, goodScore,
			"f:17: " + list + `[0].expression: Invalid value: "node.label['a'] == 'b'": column 5: undefined field 'label'`},
		{`      - {name: a, expression: "node.pods"}`, goodScore,
			"f:17: " + list + `[0].expression: Invalid value: "node.pods": column 5: expected a bool, got int`},
		{`      - {expression: "true"}`, goodScore, "f:17: " + list + "[0].name: Required value: an expression is told by its name"},
		{`      - {name: a}`, goodScore, "f:17: " + list + "[0].expression: Required value: an expression of the Common Expression Language"},
		{`      - {name: a, expression: "true", failurePolicy: Never}`, goodScore,
			"f:17: " + list + `[0].failurePolicy: Unsupported value: "Never": supported values: "Fail", "Ignore"`},
		{goodFilter + "\n" + goodFilter, goodScore, "f:18: " + list + `[1].name: Duplicate value: "zone"`},
		{goodFilter, `      expressions: []`, "f:20: profiles[0].pluginConfig[1].args.expressions: Required value: at least one expression must be specified"},
		{goodFilter, `      expressions: [{name: a, expression: "1", weight: 101}]`,
			"f:20: profiles[0].pluginConfig[1].args.expressions[0].weight: Invalid value: 101: not in valid range [1, 100]"},
		{goodFilter, goodScore + "\n      normalize: Max",
			`f:21: profiles[0].pluginConfig[1].args.normalize: Unsupported value: "Max": supported values: "None", "Highest", "Lowest"`},
		{goodFilter, "      apiVersion: kubescheduler.config.k8s.io/v1\n" + goodScore,
			`f:20: profiles[0].pluginConfig[1].args.apiVersion: no kind "CELScoreArgs" is registered for version "kubescheduler.config.k8s.io/v1"`},
		{goodFilter, "      normalise: None\n" + goodScore, `f:20: unknown field "profiles[0].pluginConfig[1].args.normalise"`},
	} {
		_, err := Parse("f", []byte(celFile(c.filter, c.score)))
		if err == nil || err.Error() != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
	_, err := Parse("f", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: {filter: {enabled: [{name: CELFilter}]}}\n"))
	if err == nil || !strings.Contains(err.Error(), "args.expressions: Required value: at least one expression must be specified") {
		t.Errorf("without arguments: got %v, want that expressions are required", err)
	}
}
