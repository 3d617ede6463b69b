package chart

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Release is under what name, where and by what program the chart is installed.
type Release struct {
	Name, Namespace string
	// Service is the program: Helm, or another that names ConfigMaps by what is in them.
	Service string
}

// Helm is the release of the documents.
var Helm = Release{Name: "shardsched", Namespace: "shardsched", Service: "Helm"}

// Chart is a chart that was read.
type Chart struct{ chart *chart.Chart }

// Load reads the chart in a folder.
func Load(dir string) (*Chart, error) {
	c, err := loader.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("read the chart %s: %w", dir, err)
	}
	return &Chart{c}, nil
}

// Values reads a values file. Later ones go before earlier ones.
func Values(texts ...[]byte) (map[string]any, error) {
	out := map[string]any{}
	for _, text := range texts {
		values := map[string]any{}
		if err := yaml.UnmarshalStrict(text, &values); err != nil {
			return nil, fmt.Errorf("values: %w", err)
		}
		out = merge(out, values)
	}
	return out, nil
}

// merge puts later values before others, key by key.
func merge(values, later map[string]any) map[string]any {
	return chartutil.CoalesceTables(later, values)
}

// Render gives the text of each template that is not empty, by the template's file name, and the notes. An error names the value
// that the schema refuses.
func (c *Chart) Render(r Release, values map[string]any) (texts map[string]string, notes string, err error) {
	if err := chartutil.ProcessDependencies(c.chart, values); err != nil {
		return nil, "", err
	}
	options := chartutil.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c.chart, values, options, chartutil.DefaultCapabilities.Copy())
	if err != nil {
		return nil, "", err
	}
	all["Release"].(map[string]any)["Service"] = r.Service
	rendered, err := engine.Engine{Strict: true}.Render(c.chart, all)
	if err != nil {
		return nil, "", err
	}
	texts = map[string]string{}
	for name, text := range rendered {
		text = strings.TrimSpace(text)
		switch base := path.Base(name); {
		case base == "NOTES.txt":
			notes = text
		case strings.HasPrefix(base, "_") || text == "":
		default:
			texts[base] = text + "\n"
		}
	}
	return texts, notes, nil
}

// Document is one object as it was rendered.
type Document struct{ Template, Text string }

// Documents splits what was rendered into objects, by template and in its order.
func Documents(texts map[string]string) (out []Document) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		for text := range strings.SplitSeq(texts[name], "\n---\n") {
			out = append(out, Document{name, text})
		}
	}
	return out
}
