package kubeserving

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// buildInfo is the metric that tells which build of Kubernetes a component is.
const buildInfo = "kubernetes_build_info"

// NewBuildInfo is kubernetes_build_info of this program. The library's own is not served: its
// values come from the linker, and a build of the Go tool alone has none.
func NewBuildInfo(v version.Info) prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: buildInfo,
		Help: "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, " +
			"Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
	}, []string{"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform"})
	g.WithLabelValues(v.Major, v.Minor, v.GitVersion, v.GitCommit, v.GitTreeState, v.BuildDate, v.GoVersion, v.Compiler, v.Platform).Set(1)
	return g
}

// libraries gathers what client-go and component-base count, but for the build.
func libraries() ([]*dto.MetricFamily, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == buildInfo }), err
}

// Gatherer gathers the scheduler's metrics and those of the libraries together.
func Gatherer(ours prometheus.Gatherer, filter *MetricsFilter) prometheus.Gatherer {
	all := prometheus.Gatherers{prometheus.GathererFunc(libraries)}
	if ours != nil {
		all = append(all, ours)
	}
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		return filter.apply(families), err
	})
}

// metricsHandler serves them. A series that can't be gathered leaves the others where they are.
func metricsHandler(ours prometheus.Gatherer, filter *MetricsFilter) http.Handler {
	serve := promhttp.HandlerFor(Gatherer(ours, filter), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		ErrorLog: errorLog{}})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			legacyregistry.Reset()
			io.WriteString(w, "metrics reset\n")
			return
		}
		serve.ServeHTTP(w, r)
	})
}

// errorLog tells of series that could not be gathered.
type errorLog struct{}

func (errorLog) Println(v ...any) {
	for _, x := range v {
		if err, ok := x.(error); ok {
			klog.Background().Error(err, "Gather metrics")
		}
	}
}

// MetricsFilter leaves metrics out and holds labels to values that are allowed. A nil filter
// changes nothing.
type MetricsFilter struct {
	disabled map[string]bool
	allowed  map[string]map[string]map[string]bool // metric, label, value
}

// unexpected is what upstream writes for a label's value that is not allowed.
const unexpected = "unexpected"

// NewMetricsFilter leaves these metrics out.
func NewMetricsFilter(disabled []string) *MetricsFilter {
	f := &MetricsFilter{disabled: map[string]bool{}, allowed: map[string]map[string]map[string]bool{}}
	for _, name := range disabled {
		f.disabled[name] = true
	}
	return f
}

// Allow holds a metric's label to values: any other is written "unexpected".
func (f *MetricsFilter) Allow(metric, label string, values []string) {
	if f.allowed[metric] == nil {
		f.allowed[metric] = map[string]map[string]bool{}
	}
	set := map[string]bool{}
	for _, v := range values {
		set[v] = true
	}
	f.allowed[metric][label] = set
}

// apply returns the families that stay. It does not change what it is given.
func (f *MetricsFilter) apply(families []*dto.MetricFamily) []*dto.MetricFamily {
	if f == nil || len(f.disabled)+len(f.allowed) == 0 {
		return families
	}
	out := make([]*dto.MetricFamily, 0, len(families))
	for _, family := range families {
		if f.disabled[family.GetName()] {
			continue
		}
		if labels := f.allowed[family.GetName()]; labels != nil {
			family = &dto.MetricFamily{Name: family.Name, Help: family.Help, Type: family.Type, Unit: family.Unit,
				Metric: limit(family.Metric, labels)}
		}
		out = append(out, family)
	}
	return out
}

// limit rewrites labels, and adds series together that are the same then.
func limit(series []*dto.Metric, allowed map[string]map[string]bool) []*dto.Metric {
	var out []*dto.Metric
	byLabels := map[string]*dto.Metric{}
	for _, m := range series {
		m = proto.CloneOf(m)
		key := ""
		for _, l := range m.Label {
			if values, ok := allowed[l.GetName()]; ok && !values[l.GetValue()] {
				l.Value = proto.String(unexpected)
			}
			key += l.GetName() + "\x00" + l.GetValue() + "\x00"
		}
		if same := byLabels[key]; same == nil {
			byLabels[key], out = m, append(out, m)
		} else if err := addTo(same, m); err != nil {
			klog.Background().Error(err, "Limit labels of a metric")
		}
	}
	slices.SortStableFunc(out, func(a, b *dto.Metric) int {
		return slices.CompareFunc(a.Label, b.Label, func(x, y *dto.LabelPair) int { return cmp.Compare(x.GetValue(), y.GetValue()) })
	})
	return out
}

// addTo adds a series to one of the same kind.
func addTo(sum, m *dto.Metric) error {
	switch {
	case sum.Counter != nil && m.Counter != nil:
		sum.Counter.Value = proto.Float64(sum.Counter.GetValue() + m.Counter.GetValue())
	case sum.Gauge != nil && m.Gauge != nil:
		sum.Gauge.Value = proto.Float64(sum.Gauge.GetValue() + m.Gauge.GetValue())
	case sum.Untyped != nil && m.Untyped != nil:
		sum.Untyped.Value = proto.Float64(sum.Untyped.GetValue() + m.Untyped.GetValue())
	case sum.Histogram != nil && m.Histogram != nil && len(sum.Histogram.Bucket) == len(m.Histogram.Bucket):
		s, h := sum.Histogram, m.Histogram
		s.SampleCount = proto.Uint64(s.GetSampleCount() + h.GetSampleCount())
		s.SampleSum = proto.Float64(s.GetSampleSum() + h.GetSampleSum())
		for i, b := range s.Bucket {
			b.CumulativeCount = proto.Uint64(b.GetCumulativeCount() + h.Bucket[i].GetCumulativeCount())
		}
	default:
		return errors.New("series of this kind can't be added")
	}
	return nil
}
