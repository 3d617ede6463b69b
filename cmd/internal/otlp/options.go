package otlp

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
	componentv1 "k8s.io/component-base/tracing/api/v1"
	"sigs.k8s.io/yaml"
)

// DefaultSlow is how long an attempt takes that is kept for being slow.
const DefaultSlow = time.Second

// Options are the flags of a process that makes spans.
type Options struct {
	// ConfigFile is a TracingConfiguration; empty: none.
	ConfigFile string
	// Endpoint is the collector's host:port; empty: the file's.
	Endpoint string
	// RatePerMillion is how many of a million attempts are sampled; below 0: as the file
	// says.
	RatePerMillion int32
	// Slow is how long an attempt may take before it is kept; 0: no attempt is kept for being slow.
	Slow time.Duration
	// Local has traces kept in memory, and sent to no collector.
	Local bool
}

// AddFlags adds the flags of a process that makes attempts.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.AddExporterFlags(fs)
	fs.Int32Var(&o.RatePerMillion, "tracing-sampling-rate-per-million", -1,
		"attempts of a million that are traced; -1: as --tracing-config-file says. Slow and failed attempts are traced beside them")
	fs.DurationVar(&o.Slow, "tracing-slow-threshold", DefaultSlow,
		"time from being popped to being bound from which an attempt is traced though it was not sampled; 0: no attempt is")
}

// AddLocalFlag adds the flag of a process that can be asked for its traces.
func (o *Options) AddLocalFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Local, "tracing-local", false, "trace without a collector: the last traces are kept in memory, for the command trace")
}

// AddExporterFlags adds the flags of a process that is told which requests to trace.
func (o *Options) AddExporterFlags(fs *pflag.FlagSet) {
	o.RatePerMillion = -1
	fs.StringVar(&o.ConfigFile, "tracing-config-file", "", "send traces as this `FILE` says, a TracingConfiguration as kube-apiserver "+
		"takes it (endpoint, samplingRatePerMillion)")
	fs.StringVar(&o.Endpoint, "tracing-endpoint", "", "send traces to the OTLP collector at `HOST:PORT` (gRPC, without TLS unless "+
		"OTEL_EXPORTER_OTLP_… variables say otherwise)")
}

// Config is what the options and the file come to.
type Config struct {
	// Enabled: spans are made at all.
	Enabled bool
	// Endpoint of the collector; empty: OpenTelemetry's own, localhost:4317 or what the
	// environment says.
	Endpoint string
	// Ratio is the share of attempts that are sampled, 0 to 1.
	Ratio float64
	Slow  time.Duration
	// Local: spans go to no collector.
	Local bool
	// Kept keeps the spans of this process; nil: nobody does.
	Kept *Kept
}

// Load reads the file, where one is named, and lays the flags over it.
func (o Options) Load() (Config, error) {
	if o.Local && (o.ConfigFile != "" || o.Endpoint != "") {
		return Config{}, errors.New("--tracing-local: --tracing-config-file and --tracing-endpoint name a collector, whose traces are kept " +
			"in memory, too: give one of them")
	}
	if o.ConfigFile == "" && o.Endpoint == "" && o.RatePerMillion < 0 && !o.Local {
		return Config{}, nil
	}
	from := componentv1.TracingConfiguration{}
	if o.ConfigFile != "" {
		var err error
		if from, err = read(o.ConfigFile); err != nil {
			return Config{}, fmt.Errorf("--tracing-config-file %s: %w", o.ConfigFile, err)
		}
	}
	if o.Endpoint != "" {
		from.Endpoint = &o.Endpoint
	}
	if o.RatePerMillion >= 0 {
		from.SamplingRatePerMillion = &o.RatePerMillion
	}
	if errs := componentv1.ValidateTracingConfiguration(&from, nil, field.NewPath("tracing")); len(errs) > 0 {
		return Config{}, errs.ToAggregate()
	}
	if o.Slow < 0 {
		return Config{}, fmt.Errorf("--tracing-slow-threshold: %s is negative", o.Slow)
	}
	c := Config{Enabled: true, Slow: o.Slow, Local: o.Local}
	if from.Endpoint != nil {
		c.Endpoint = *from.Endpoint
	}
	if from.SamplingRatePerMillion != nil {
		c.Ratio = float64(*from.SamplingRatePerMillion) / 1e6
	}
	return c, nil
}

// file is the configuration file.
type file struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	componentv1.TracingConfiguration `json:",inline"`
}

// read reads a configuration file, in any of the versions that kube-apiserver takes.
func read(name string) (componentv1.TracingConfiguration, error) {
	var f file
	data, err := os.ReadFile(name)
	if err != nil {
		var cause *os.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return f.TracingConfiguration, err
	}
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return f.TracingConfiguration, err
	}
	versions := []string{"apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"}
	if f.Kind != "TracingConfiguration" || !slices.Contains(versions, f.APIVersion) {
		return f.TracingConfiguration, fmt.Errorf("expected kind TracingConfiguration of %s, got kind %s of %s",
			versions[0], cmp.Or(f.Kind, "none"), cmp.Or(f.APIVersion, "none"))
	}
	return f.TracingConfiguration, nil
}
