package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// folder is a topology's folder below deploy/kustomize.
type folder struct{ topology, name, comment string }

var folders = []folder{
	{"standalone", "base", "Without Kubernetes' scheduling: coordinators and workers whose objects come from clients."},
	{"sharded", "kubernetes", "In kube-scheduler's place, with workers."},
	{"swap", "swap", "In kube-scheduler's place, with nothing beside it."},
	{"shadow", "shadow", "Beside another scheduler, binding nothing."},
}

// component is what a value adds to a topology, as a folder of its own within the topology's.
type component struct{ name, values string }

// components are rendered with names of issuers that an overlay may replace.
var components = []component{
	{"networkpolicy", "networkPolicy: {enabled: true}"},
	{"monitoring", "podMonitor: {enabled: true}"},
	{"cert-manager", "certManager: {enabled: true, issuerRef: {name: shardsched}, etcdIssuerRef: {name: etcd}}"},
}

const generated = "# Rendered from deploy/chart by `make chart`: change it there.\n"

// Folders renders the chart in deploy for kustomize. The files are named by their paths below deploy.
func Folders(deploy string) (map[string]string, error) {
	c, err := Load(filepath.Join(deploy, "chart"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, f := range folders {
		example, err := os.ReadFile(filepath.Join(deploy, "chart/examples", f.topology+".yaml"))
		if err != nil {
			return nil, err
		}
		base, err := c.forKustomize(string(example))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.topology, err)
		}
		if err := f.write(files, maps.Clone(base)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.topology, err)
		}
		for _, part := range components {
			if !f.has(part) {
				continue
			}
			if err := f.add(files, c, part, base, string(example)); err != nil {
				return nil, fmt.Errorf("%s with %s: %w", f.topology, part.name, err)
			}
		}
	}
	bounds, err := c.forKustomize("podBounds: true")
	if err != nil {
		return nil, err
	}
	files["policy/pod-bounds.yaml"] = bounds["pod-bounds.yaml"]
	files["policy/kustomization.yaml"] = kustomization("Kustomization", "kustomize.config.k8s.io/v1beta1", []string{"pod-bounds.yaml"})
	roles, err := c.forKustomize("rbac: minimal")
	if err != nil {
		return nil, err
	}
	files["rbac/minimal.yaml"] = roles["rbac.yaml"] + "---\n" + roles["rbac-minimal.yaml"]
	shadow, err := c.forKustomize("topology: shadow")
	if err != nil {
		return nil, err
	}
	files["rbac/shadow.yaml"] = shadow["rbac-shadow.yaml"]
	for name, text := range files {
		files[name] = generated + text
	}
	return files, nil
}

// forKustomize renders without what kustomize does itself.
func (c *Chart) forKustomize(values ...string) (map[string]string, error) {
	var texts [][]byte
	for _, v := range values {
		texts = append(texts, []byte(v))
	}
	read, err := Values(texts...)
	if err != nil {
		return nil, err
	}
	r := Helm
	r.Service = "kustomize"
	out, _, err := c.Render(r, read)
	return out, err
}

// write puts a topology's files into its folder. Its ConfigMaps become what kustomize generates them from, so that overlays can merge
// into them.
func (f folder) write(files, texts map[string]string) error {
	dir := "kustomize/" + f.name + "/"
	generators, err := f.generators(files, texts["config.yaml"])
	if err != nil {
		return err
	}
	delete(texts, "config.yaml")
	texts["namespace.yaml"] = namespace
	for name, text := range texts {
		files[dir+name] = text
	}
	files[dir+"kustomization.yaml"] = "# " + f.comment + "\n" +
		kustomization("Kustomization", "kustomize.config.k8s.io/v1beta1", slices.Sorted(maps.Keys(texts))) + generators
	return nil
}

const namespace = `apiVersion: v1
kind: Namespace
metadata:
  name: shardsched
  labels:
    pod-security.kubernetes.io/enforce: restricted
`

func kustomization(kind, version string, resources []string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nresources:\n- %s\n", version, kind, strings.Join(resources, "\n- "))
}

// generators tells kustomize how to make the ConfigMaps: of a file where a key has the name of one, of literals otherwise.
func (f folder) generators(files map[string]string, config string) (string, error) {
	var out strings.Builder
	out.WriteString("# A change of one makes new pods.\nconfigMapGenerator:\n")
	for text := range strings.SplitSeq(config, "\n---\n") {
		var m v1.ConfigMap
		if err := yaml.UnmarshalStrict([]byte(text), &m); err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "- name: %s\n  namespace: %s\n", m.Name, m.Namespace)
		var names, literals []string
		for _, key := range slices.Sorted(maps.Keys(m.Data)) {
			if filepath.Ext(key) == "" {
				literals = append(literals, key+"="+m.Data[key])
				continue
			}
			names = append(names, key)
			files["kustomize/"+f.name+"/"+key] = strings.TrimSpace(m.Data[key]) + "\n"
		}
		list(&out, "files", names)
		list(&out, "literals", literals)
	}
	return out.String(), nil
}

func list(out *strings.Builder, key string, items []string) {
	if len(items) > 0 {
		fmt.Fprintf(out, "  %s:\n  - %s\n", key, strings.Join(items, "\n  - "))
	}
}

// add puts what a component adds into a folder of its own. It may change nothing else, for a component of kustomize would not.
func (f folder) add(files map[string]string, c *Chart, part component, base map[string]string, example string) error {
	all, err := c.forKustomize(example, part.values)
	if err != nil {
		return err
	}
	var added []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch text, there := base[name]; {
		case !there:
			added = append(added, name)
			files["kustomize/"+f.name+"/"+part.name+"/"+name] = all[name]
		case text != all[name]:
			return fmt.Errorf("it changes %s, want it to add files only", name)
		}
	}
	if len(added) == 0 {
		return fmt.Errorf("it adds nothing")
	}
	files["kustomize/"+f.name+"/"+part.name+"/kustomization.yaml"] = kustomization("Component", "kustomize.config.k8s.io/v1alpha1", added)
	return nil
}

// has tells whether a component is one of a topology: swap has no certificates, and a shadow serves nobody but within its pod.
func (f folder) has(part component) bool {
	switch f.topology {
	case "swap":
		return part.name != "cert-manager"
	case "shadow":
		return part.name == "networkpolicy"
	}
	return true
}

// rendered are the folders that have nothing but what Folders gives.
var rendered = []string{"kustomize", "policy", "rbac"}

// Write renders the chart in deploy, and puts it in the place of what was rendered before.
func Write(deploy string) error {
	files, err := Folders(deploy)
	if err != nil {
		return err
	}
	for _, dir := range rendered {
		if err := os.RemoveAll(filepath.Join(deploy, dir)); err != nil {
			return err
		}
	}
	for name, text := range files {
		file := filepath.Join(deploy, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
