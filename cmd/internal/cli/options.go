package cli

import (
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/shardsched/shardsched/cmd/internal/kubeflags"
	"github.com/shardsched/shardsched/cmd/internal/otlp"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/config/policy"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
)

// Process is what every long-running command takes.
type Process struct {
	// HTTPListen is where /metrics, /healthz and /readyz are served; empty:
	// nowhere.
	HTTPListen string
	// HealthListen is where /livez and /readyz are served to everybody, without TLS; empty: nowhere.
	HealthListen string
	// Profiling adds /debug/pprof to it.
	Profiling bool
	// Console has a coordinator serve the console beside /metrics.
	Console bool
}

// Configuration is where the scheduler's configuration comes from.
type Configuration struct {
	// Config is a KubeSchedulerConfiguration file; empty: the defaults.
	Config string
	// WriteConfigTo is where the configuration is written, whole, instead of running
	// anything; "-": standard output. Empty: nowhere.
	WriteConfigTo string
	// podGroups are the feature gates under which it is read.
	podGroups groups.Gates
	// changes are what flags say of it.
	changes []config.Change
	// plugins are the plugins that profiles may name beside upstream's.
	plugins framework.Registry
	// legacy is the Policy that takes the file's place; nil: none does. translated is what it
	// came to.
	legacy     func() (*policy.Policy, error)
	translated *policy.Result
}

// Etcd is how an etcd outside the process is reached.
type Etcd struct {
	Endpoints                 []string
	CAFile, CertFile, KeyFile string
}

// EmbeddedEtcd is the etcd inside the process.
type EmbeddedEtcd struct {
	Enabled bool
	// DataDir holds its files; empty: a temporary folder, removed at the end.
	DataDir string
	// Listen is host:port for other processes; port 0: a free one; empty: none can reach it.
	Listen string
}

// Sharding is how the cluster is cut and who evaluates the parts.
type Sharding struct {
	// Cluster names the tables and the keys in etcd.
	Cluster string
	// Shards is the number of parts; 0: chosen from the number of nodes.
	Shards int
	// Replicas is the number of workers that hold each shard: 1 or 2.
	Replicas int
	// CompareWorkers has both workers of a shard asked, and their answers compared.
	CompareWorkers bool
	// Workers is the number of workers in this process.
	Workers int
}

// UpOptions are the flags of `shardsched up`.
type UpOptions struct {
	Process
	Sharding
	EmbeddedEtcd
	TLS serving.TLS
	// Listen is host:port of the client API.
	Listen string
	Configuration
	// Files are applied once the scheduler leads.
	Files       []string
	SkipInvalid bool
	// Demo submits the openb-shaped cluster; Seed shuffles its pods. With Devices they ask for GPUs by claims.
	Demo    bool
	Devices bool
	Seed    uint64
	// ExitWhenIdle ends with the summary once no pod waits to be decided and no
	// bind is in flight.
	ExitWhenIdle bool
	// DecisionLog is where decisions are written, one JSON line each; empty: nowhere.
	DecisionLog string
	Recording
	Tracing otlp.Options
	// What is asked about beside the files' workloads: see whatif.Change.
	Rollout                            string
	Delete, Drain, Cordon, RemoveNodes []string
	// AddNodes are COUNT=FILE.
	AddNodes []string
	// Explain is a pod to be explained after the change, NAMESPACE/NAME; empty: none.
	Explain string
	// Diff is a file with an earlier answer, CompareConfig another configuration, to compare with; empty: none.
	Diff, CompareConfig string
	// Output is the answer's form: text, json or markdown.
	Output string
}

// CoordinatorOptions are the flags of `shardsched coordinator`.
type CoordinatorOptions struct {
	Process
	Sharding
	Etcd         Etcd
	EmbeddedEtcd EmbeddedEtcd
	// CompactionInterval is how much of etcd's history is kept; 0: others compact it.
	CompactionInterval time.Duration
	TLS                serving.TLS
	// Standalone: objects come from the client API and live in etcd.
	Standalone bool
	// Listen is host:port of the client API, Advertise what clients are sent to;
	// empty: Listen.
	Listen, Advertise string
	Configuration
	DecisionLog string
	Recording
	Tracing otlp.Options
	// LeaseDuration is the time to live of the leader's lease. LeaseGiven: the flag
	// was, so that the file's does not count.
	LeaseDuration time.Duration
	LeaseGiven    bool
	// MaxInUnschedulable is how long a pod rests at the most before it is tried
	// again without an event.
	MaxInUnschedulable time.Duration
	// GangReservation has room held for the first gang that can't start.
	GangReservation bool
	// TopologyPreemption has gangs with topology constraints preempt.
	TopologyPreemption bool
	// WholeGangs has a PodGroup with disruptionMode PodGroup leave whole for single pods, too, or stay.
	WholeGangs bool
	// Kube are kube-scheduler's flags. What of them counts without Kubernetes is above.
	Kube *kubeflags.Flags
	// Legacy are the flags that kube-scheduler had up to 1.22.
	Legacy LegacyPolicy

	sets  cliflag.NamedFlagSets // all flags, by section
	flags *pflag.FlagSet        // as they were given
}

// WorkerOptions are the flags of `shardsched worker`.
type WorkerOptions struct {
	Process
	Cluster string
	Etcd    Etcd
	TLS     serving.TLS
	// Listen is host:port of the gRPC server, Advertise what coordinators dial;
	// empty: Listen.
	Listen, Advertise string
	// ID names the worker; empty: the host's name and a random part.
	ID string
	// Cores is how many shards it evaluates at once; 0: all cores.
	Cores int
	// CacheBytes is the budget for shards.
	CacheBytes int64
	// LeaseDuration is the time to live of the registration.
	LeaseDuration time.Duration
	Tracing       otlp.Options
	// LogFormat is how the log is written: text or json.
	LogFormat string
	// DrainTimeout is how long answers under way may take after SIGTERM.
	DrainTimeout time.Duration
}

// ShadowOptions are the flags of `shardsched shadow`.
type ShadowOptions struct {
	Process
	Configuration
	kubernetes kubeAccess
	// Cluster is the name that certificates of this cluster's processes have, for TLS.
	Cluster string
	TLS     serving.TLS
	// For is how long it runs; 0: until it is told to end.
	For time.Duration
	// Reports are the files that the report is written to, in the form that their ends say; "-": standard output, as text.
	Reports []string
	Recording
	// SchedulerMetrics is where the other scheduler's metrics are; empty: they are not read.
	SchedulerMetrics string
	// AllowBinding takes credentials that may bind pods.
	AllowBinding bool
	// LogFormat is how the log is written: text or json.
	LogFormat string
}

// SimulateOptions are the flags of `shardsched simulate`.
type SimulateOptions struct {
	Process
	Sharding
	// Files are files or folders of Kubernetes YAML or JSON; "-" is standard input.
	Files       []string
	SkipInvalid bool
	// Live reads a cluster's objects before the files, by kubernetes.
	Live       bool
	kubernetes kubeAccess
	// Strict refuses custom resources. Override has an object of a later file take the place of an earlier one.
	Strict, Override bool
	Namespace        string
	Configuration
	// AskExtenders has the configuration's extenders asked, under all verbs but bind.
	AskExtenders bool
	// Decisions is where decisions are written, one JSON line each; "-": standard
	// output, and the summary goes to standard error. Empty: nowhere.
	Decisions string
	Recording
	// Objects is where the input is written, workloads as their pods. Empty: nowhere.
	Objects string
	// Picture is where an SVG is written of where the members of PodGroups go; empty: nowhere.
	Picture string
	// Seed shuffles what has no order of its own. No decision depends on it.
	Seed    uint64
	Tracing otlp.Options
	// Demo simulates the openb-shaped cluster instead of, or beside, files. With Devices its pods ask for GPUs by claims.
	Demo    bool
	Devices bool
	// What is asked about beside the files' workloads: see whatif.Change.
	Rollout                            string
	Delete, Drain, Cordon, RemoveNodes []string
	// AddNodes are COUNT=FILE or COUNT=node/NAME, Scale are KIND/NAMESPACE/NAME=REPLICAS.
	AddNodes, Scale []string
	// Explain is a pod or a workload to be explained after the change, as explain takes it; empty: none.
	Explain   string
	explained *subject // what Explain says
	// Diff is a file with an earlier answer, CompareConfig another configuration, to compare with; empty: none.
	Diff, CompareConfig string
	// Output is the answer's form: text, json or markdown.
	Output string
}
