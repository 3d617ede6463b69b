package config

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

const withGuests = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 4
profiles:
- schedulerName: one
  plugins:
    multiPoint:
      enabled: [{name: Mine, weight: 7}]
    permit:
      enabled: [{name: Other}]
  pluginConfig:
  - name: Mine
    args: {deep: {list: [1, 2]}, text: "5"}
- schedulerName: two
`

func TestGuestsInProfiles(t *testing.T) {
	r := ReaderFor([]string{"Mine", "Other"})
	c, err := r.Parse("file", []byte(withGuests))
	if err != nil {
		t.Fatal(err)
	}
	list := c.OutOfTree()
	if len(list) != 1 || list[0].Name != "one" {
		t.Fatalf("got %d profiles with out-of-tree plugins, want that of one", len(list))
	}
	if c.Parallelism() != 4 || len(c.NoEffect()) != 0 {
		t.Errorf("got parallelism %d and %q without effect, want 4 and nothing", c.Parallelism(), c.NoEffect())
	}
	multi := list[0].Plugins.MultiPoint.Enabled
	if last := multi[len(multi)-1]; last.Name != "Mine" || *last.Weight != 7 {
		t.Errorf("got %v last in the multi-point, want Mine with weight 7", last)
	}
	for _, a := range list[0].Args {
		if a.Name != "Mine" {
			continue
		}
		got, ok := a.Args.(*runtime.Unknown)
		if !ok || got.ContentType != runtime.ContentTypeJSON || string(got.Raw) != `{"deep":{"list":[1,2]},"text":"5"}` {
			t.Errorf("got args %#v, want the JSON of the file", a.Args)
		}
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.Parse("written", text)
	if err != nil {
		t.Fatalf("what was written does not load: %v\n%s", err, text)
	}
	if second, err := again.YAML(); err != nil || string(second) != string(text) {
		t.Errorf("got another text the second time: %v\n%s\nwant\n%s", err, second, text)
	}
	if !strings.Contains(string(text), "name: Mine\n") || !strings.Contains(string(text), "- 2\n") {
		t.Errorf("the plugin or its args are not in\n%s", text)
	}
}

func TestNamesThatAreNotRegistered(t *testing.T) {
	for _, c := range []struct{ old, now, want string }{
		{"Other", "Another", `file:10: profiles[0].plugins.permit.enabled[0]: PermitPlugin "Another" does not exist: plugins of your own are compiled in (docs/plugins.md)`},
		{"{name: Mine, weight: 7}", "{name: Yours}", `file:8: profiles[0].plugins.multiPoint.enabled[0]: PreFilterPlugin "Yours" does not exist: plugins of your own are compiled in (docs/plugins.md)`},
	} {
		_, err := ReaderFor([]string{"Mine", "Other"}).Parse("file", []byte(strings.Replace(withGuests, c.old, c.now, 1)))
		if err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if _, err := Parse("file", []byte(withGuests)); err == nil {
		t.Error("plugins are accepted that are not compiled in")
	}
}
