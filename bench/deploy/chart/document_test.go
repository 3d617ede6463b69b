package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/strvals"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// document is deploy/README.md.
func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// build is kustomize build of an overlay beside a copy of the rendered folders.
func build(t *testing.T, overlay string) (out []*unstructured.Unstructured) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "kustomize"), os.DirFS(filepath.Join(deploy, "kustomize"))); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, "overlay")
	if err := os.Mkdir(mine, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"kustomization.yaml": overlay, "kube-scheduler.yaml": "kind: Mine\n"} {
		if err := os.WriteFile(filepath.Join(mine, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), mine)
	if err != nil {
		t.Fatalf("%v\n%s", err, overlay)
	}
	for _, r := range objects.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var o unstructured.Unstructured
		if err := yaml.UnmarshalStrict(text, &o.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, &o)
	}
	return out
}

// overlays are that of the document, with the folders of this tree, and each topology with all of its components.
func overlays(t *testing.T) map[string]string {
	t.Helper()
	_, block, _ := strings.Cut(document(t), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	out := map[string]string{"the document's": strings.ReplaceAll(block, "github.com/shardsched/shardsched/deploy/", "../")}
	for _, f := range folders {
		text := "resources: [../kustomize/" + f.name + "]\ncomponents:\n"
		parts, err := filepath.Glob(filepath.Join(deploy, "kustomize", f.name, "*/kustomization.yaml"))
		if err != nil || len(parts) == 0 {
			t.Fatalf("%s has the components %v, %v", f.name, parts, err)
		}
		for _, p := range parts {
			text += "- ../kustomize/" + f.name + "/" + filepath.Base(filepath.Dir(p)) + "\n"
		}
		out[f.topology] = text
	}
	return out
}

// TestTheOverlayOfTheDocumentSetsWhatItSays builds it.
func TestTheOverlayOfTheDocumentSetsWhatItSays(t *testing.T) {
	var settings, config string
	objects := build(t, overlays(t)["the document's"])
	for _, o := range objects {
		if o.GetKind() != "ConfigMap" {
			continue
		}
		data, _, err := unstructured.NestedStringMap(o.Object, "data")
		if err != nil {
			t.Fatal(err)
		}
		if data["CLUSTER"] == "default" && strings.HasPrefix(data["ETCD_ENDPOINTS"], "https://10.0.0.1:2379,") {
			settings = o.GetName()
		}
		if data["kube-scheduler.yaml"] == "kind: Mine\n" {
			config = o.GetName()
		}
	}
	if settings == "" || config == "" {
		t.Fatal("want settings and a configuration of the overlay, got others")
	}
	sets, policies := 0, 0
	for _, o := range objects {
		switch o.GetKind() {
		case "NetworkPolicy":
			policies++
		case "StatefulSet":
			sets++
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			pod := pods(t, []object{{Document{"overlay", string(text)}, *o}})[0].Spec
			c := pod.Containers[0]
			if c.Image != "registry.internal/shardsched:v1-slim" || c.EnvFrom[0].ConfigMapRef.Name != settings {
				t.Errorf("%s: the image is %s and the settings %s, want those of the overlay", o.GetName(), c.Image, c.EnvFrom[0].ConfigMapRef.Name)
			}
			if i := slices.IndexFunc(pod.Volumes, func(v v1.Volume) bool { return v.ConfigMap != nil }); c.Name == "coordinator" &&
				pod.Volumes[i].ConfigMap.Name != config {
				t.Errorf("%s: the configuration is %s, want the overlay's %s", o.GetName(), pod.Volumes[i].ConfigMap.Name, config)
			}
		}
	}
	if sets != 2 || policies != 3 {
		t.Errorf("%d StatefulSets and %d NetworkPolicies, want 2 and 3", sets, policies)
	}
}

// TestCommandsOfTheDocumentRender reads the document's helm commands as helm does.
func TestCommandsOfTheDocumentRender(t *testing.T) {
	text := strings.ReplaceAll(document(t), "\\\n", " ")
	commands := regexp.MustCompile(`(?m)^    helm install shardsched deploy/chart (.*)$`).FindAllStringSubmatch(text, -1)
	if len(commands) != 3 {
		t.Fatalf("%d helm commands, want 3", len(commands))
	}
	for _, c := range commands {
		var example string
		values := map[string]any{}
		words := strings.Fields(c[1])
		for i, word := range words {
			if plain := strings.Trim(word, "'"); plain != word {
				words[i] = plain
			} else if strings.ContainsAny(word, "{}*$") {
				t.Errorf("%s: want quotes, for a shell changes it", word)
			}
		}
		for i, word := range words {
			switch word {
			case "--values":
				example = strings.TrimSuffix(filepath.Base(words[i+1]), ".yaml")
			case "--set":
				if err := strvals.ParseInto(words[i+1], values); err != nil {
					t.Errorf("%s: %v", words[i+1], err)
				}
			case "--set-file":
				key, _, _ := strings.Cut(words[i+1], "=")
				values[key] = "kind: Mine"
			}
		}
		more, err := yaml.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods(t, render(t, example, string(more))) {
			want := "registry.internal/shardsched:v1"
			if example != "swap" {
				want += "-slim" // its etcd is elsewhere
			}
			if p.Spec.Containers[0].Image != want {
				t.Errorf("%s: the image is %s, want the command's", c[1], p.Spec.Containers[0].Image)
			}
		}
	}
}

// TestWhatTheDocumentNamesIsThere looks values and files that the document names up in the chart.
func TestWhatTheDocumentNamesIsThere(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deploy, "chart/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values, err := Values(text)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, m := range regexp.MustCompile("`([a-zA-Z]+)\\.([a-zA-Z]+)`").FindAllStringSubmatch(document(t), -1) {
		if group, ok := values[m[1]].(map[string]any); ok {
			seen++
			if _, ok := group[m[2]]; !ok {
				t.Errorf("the document has the value %s.%s, the chart has not", m[1], m[2])
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d values named, want 10 or more", seen)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ").FindAllStringSubmatch(document(t), -1) {
		if strings.HasPrefix(m[1], "shardsched-") || strings.HasPrefix(m[1], "networkPolicy.") {
			continue // a secret, a value
		}
		if _, err := os.Stat(filepath.Join(deploy, m[1])); err != nil {
			t.Errorf("the document names deploy/%s: %v", m[1], err)
		}
	}
}
