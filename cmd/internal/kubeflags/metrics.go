package kubeflags

import (
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/cmd/internal/kubeserving"
)

// MetricsFilter is what --disabled-metrics, --allow-metric-labels and its manifest say. The
// flag goes before the manifest, as a whole.
func (f *Flags) MetricsFilter() (*kubeserving.MetricsFilter, error) {
	allowed := f.Metrics.AllowListMapping
	if len(allowed) == 0 && f.Metrics.AllowListMappingManifest != "" {
		var err error
		if allowed, err = readAllowed(f.Metrics.AllowListMappingManifest); err != nil {
			return nil, fmt.Errorf("--allow-metric-labels-manifest: %w", err)
		}
	}
	filter := kubeserving.NewMetricsFilter(f.Metrics.DisabledMetrics)
	for key, values := range allowed {
		metric, label, ok := strings.Cut(key, ",")
		if !ok || metric == "" || label == "" {
			return nil, fmt.Errorf("--allow-metric-labels: %q is not <MetricName>,<LabelName>", key)
		}
		filter.Allow(metric, label, strings.Split(values, ","))
	}
	return filter, nil
}

// readAllowed reads a manifest: the mapping by itself, or below allowListMapping.
func readAllowed(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	plain := map[string]string{}
	if plainErr := yaml.UnmarshalStrict(text, &plain); plainErr != nil {
		var nested struct {
			Mapping map[string]string `json:"allowListMapping"`
		}
		if err := yaml.UnmarshalStrict(text, &nested); err != nil {
			return nil, fmt.Errorf("%s: %w", file, plainErr)
		}
		return nested.Mapping, nil
	}
	return plain, nil
}
