package kubeflags

import (
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	cliflag "k8s.io/component-base/cli/flag"
	basecompatibility "k8s.io/component-base/compatibility"
	componentconfig "k8s.io/component-base/config"
	"k8s.io/component-base/config/options"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/metrics"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// DefaultPort is kube-scheduler's.
const DefaultPort = 10259

// Flags are kube-scheduler's, but for --config and --write-config-to.
type Flags struct {
	// Master is the API server's address; it goes before the kubeconfig's.
	Master string
	// Serving, Authentication and Authorization are those of the HTTPS endpoint.
	Serving        *apiserveroptions.SecureServingOptions
	Authentication *apiserveroptions.DelegatingAuthenticationOptions
	Authorization  *apiserveroptions.DelegatingAuthorizationOptions
	// Deprecated count where there is no configuration file.
	Deprecated Deprecated
	// MaxInUnschedulable is how long a pod rests at the most before it is tried again
	// without an event.
	MaxInUnschedulable time.Duration
	// LeaderElection counts flag by flag, where a flag was given.
	LeaderElection componentconfig.LeaderElectionConfiguration
	Metrics        *metrics.Options
	Logs           *logsapi.LoggingConfiguration

	gates    featuregate.MutableVersionedFeatureGate
	registry basecompatibility.ComponentGlobalsRegistry
	sets     cliflag.NamedFlagSets
}

// Deprecated are flags that the configuration file has taken the place of.
type Deprecated struct {
	Profiling, ContentionProfiling bool
	Kubeconfig, ContentType        string
	QPS                            float32
	Burst                          int32
}

// New has every flag at its default.
func New() (*Flags, error) {
	gates, err := newGates()
	if err != nil {
		return nil, err
	}
	f := &Flags{
		Serving:        apiserveroptions.NewSecureServingOptions(),
		Authentication: apiserveroptions.NewDelegatingAuthenticationOptions(),
		Authorization:  apiserveroptions.NewDelegatingAuthorizationOptions(),
		LeaderElection: componentconfig.LeaderElectionConfiguration{
			LeaderElect:       true,
			LeaseDuration:     metav1.Duration{Duration: 15 * time.Second},
			RenewDeadline:     metav1.Duration{Duration: 10 * time.Second},
			RetryPeriod:       metav1.Duration{Duration: 2 * time.Second},
			ResourceLock:      "leases",
			ResourceName:      configv1.SchedulerDefaultLockObjectName,
			ResourceNamespace: configv1.SchedulerDefaultLockObjectNamespace,
		},
		Metrics:  metrics.NewOptions(),
		Logs:     logsapi.NewLoggingConfiguration(),
		gates:    gates,
		registry: basecompatibility.NewComponentGlobalsRegistry(),
	}
	// The certificate is made in memory where none is given.
	f.Serving.BindPort = DefaultPort
	f.Serving.ServerCert.CertDirectory, f.Serving.ServerCert.PairName = "", "kube-scheduler"
	f.Authentication.TolerateInClusterLookupFailure = true
	f.Authentication.RemoteKubeConfigFileOptional = true
	f.Authorization.RemoteKubeConfigFileOptional = true
	if err := f.registry.Register(basecompatibility.DefaultKubeComponent, compatibility.DefaultBuildEffectiveVersion(), gates); err != nil {
		return nil, err
	}
	f.addFlags()
	return f, nil
}

// names of the sets that are asked for by name.
const (
	deprecatedSet = "deprecated"
	electionSet   = "leader election"
)

func (f *Flags) addFlags() {
	f.sets.FlagSet("API server").StringVar(&f.Master, "master", "",
		"The address of the Kubernetes API server (overrides any value in kubeconfig)")
	f.Serving.AddFlags(f.sets.FlagSet("secure serving"))
	f.Authentication.AddFlags(f.sets.FlagSet("authentication"))
	f.Authorization.AddFlags(f.sets.FlagSet("authorization"))
	f.addDeprecated(f.sets.FlagSet(deprecatedSet))
	options.BindLeaderElectionFlags(&f.LeaderElection, f.sets.FlagSet(electionSet))
	features := f.sets.FlagSet("feature gate")
	f.registry.AddFlags(features)
	// Upstream lists all gates here: hundreds of lines.
	features.Lookup("feature-gates").Usage = "Comma-separated list of key=value pairs that describe feature gates for alpha/experimental " +
		"features. " +
		"The names are those of kube-scheduler " + release + "; gates without a use here are accepted, and the log says so."
	f.Metrics.AddFlags(f.sets.FlagSet("metrics"))
	logsapi.AddFlags(f.Logs, f.sets.FlagSet("logs"))
}

func (f *Flags) addDeprecated(fs *pflag.FlagSet) {
	const ignored = " Ignored if a file is specified in --config."
	d := &f.Deprecated
	fs.BoolVar(&d.Profiling, "profiling", true, "DEPRECATED: profiles via web interface host:port/debug/pprof/. With --standalone, or on "+
		"--http-listen, only where it is given."+ignored)
	fs.BoolVar(&d.ContentionProfiling, "contention-profiling", true, "DEPRECATED: block profiles too, if profiling is enabled."+ignored)
	fs.StringVar(&d.Kubeconfig, "kubeconfig", "", "DEPRECATED: path to the kubeconfig file with authorization and master location "+
		"information; empty: that of the pod this runs in."+ignored)
	fs.StringVar(&d.ContentType, "kube-api-content-type", "application/vnd.kubernetes.protobuf",
		"DEPRECATED: content type of requests sent to the API server."+ignored)
	fs.Float32Var(&d.QPS, "kube-api-qps", 50, "DEPRECATED: QPS to use while talking with the API server."+ignored)
	fs.Int32Var(&d.Burst, "kube-api-burst", 100, "DEPRECATED: burst to use while talking with the API server."+ignored)
	fs.DurationVar(&f.MaxInUnschedulable, "pod-max-in-unschedulable-pods-duration", 5*time.Minute,
		"DEPRECATED: time after which a pod that fits nowhere is tried again without an event.")
}

// Sets are the flags by section, in the order of kube-scheduler's help.
func (f *Flags) Sets() cliflag.NamedFlagSets { return f.sets }

// Given tells whether a flag was on the command line.
func (f *Flags) Given(name string) bool {
	for _, fs := range f.sets.FlagSets {
		if fs.Changed(name) {
			return true
		}
	}
	return false
}

// AllGiven are the flags that were on the command line, in the order of their sections.
func (f *Flags) AllGiven() []string {
	var names []string
	for _, section := range f.sets.Order {
		f.sets.FlagSets[section].VisitAll(func(flag *pflag.Flag) {
			if flag.Changed { // on whichever set it was parsed
				names = append(names, flag.Name)
			}
		})
	}
	return names
}
