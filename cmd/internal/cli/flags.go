package cli

import (
	"flag"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// Default addresses: next to each other, on loopback.
const (
	defaultClientAPI       = "127.0.0.1:7450"
	defaultClientSocket    = "/run/shardsched/client.sock"
	defaultCoordinatorHTTP = "127.0.0.1:7451"
	defaultWorkerListen    = "127.0.0.1:7460"
	defaultWorkerHTTP      = "127.0.0.1:7461"
	defaultEtcdListen      = "127.0.0.1:2379"
	defaultCluster         = "default"
	defaultCacheBytes      = 1 << 30
)

func (p *Process) addFlags(fs *pflag.FlagSet, listen string) {
	fs.StringVar(&p.HTTPListen, "http-listen", listen, "`HOST:PORT` of /metrics, /healthz and /readyz; empty: none")
	p.addHealthFlag(fs)
	fs.BoolVar(&p.Profiling, "profiling", false, "serve /debug/pprof beside /metrics")
	addLogFlags(fs)
}

func (p *Process) addHealthFlag(fs *pflag.FlagSet) {
	fs.StringVar(&p.HealthListen, "health-listen", "", "`HOST:PORT` of /livez and /readyz, and nothing else, for probes: plain HTTP, "+
		"open to everybody; empty: none")
}

func (p *Process) addConsoleFlag(fs *pflag.FlagSet, where string) {
	fs.BoolVar(&p.Console, "console", true, "serve the console, web pages that only read, below /console/ on "+where)
}

// addLogFlags offers klog's -v and --vmodule.
func addLogFlags(fs *pflag.FlagSet) {
	var all flag.FlagSet
	klog.InitFlags(&all)
	for _, name := range []string{"v", "vmodule"} {
		f := pflag.PFlagFromGoFlag(all.Lookup(name))
		f.Usage = strings.TrimSpace(f.Usage)
		if name == "v" {
			f.Shorthand = "v"
		}
		fs.AddFlag(f)
	}
}

func (e *Etcd) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&e.Endpoints, "etcd-endpoints", nil, "`URL,…` of the etcd that coordinators and workers meet in")
	fs.StringVar(&e.CAFile, "etcd-cafile", "", "certificates (PEM) of the authority that etcd's certificate is signed by")
	fs.StringVar(&e.CertFile, "etcd-certfile", "", "certificate (PEM) shown to etcd")
	fs.StringVar(&e.KeyFile, "etcd-keyfile", "", "private key (PEM) of --etcd-certfile")
}

func (e Etcd) validate() error {
	if (e.CertFile == "") != (e.KeyFile == "") {
		return usagef("--etcd-certfile and --etcd-keyfile go together")
	}
	for _, u := range e.Endpoints {
		if strings.TrimSpace(u) == "" {
			return usagef("--etcd-endpoints: an empty URL in %q", strings.Join(e.Endpoints, ","))
		}
	}
	return nil
}

func (e *EmbeddedEtcd) addFlags(fs *pflag.FlagSet, listen, usage string) {
	fs.StringVar(&e.DataDir, "data-dir", "", "folder of the embedded etcd; empty: a temporary one, removed at the end")
	fs.StringVar(&e.Listen, "embedded-etcd-listen", listen, usage)
}

func (x *Sharding) addFlags(fs *pflag.FlagSet, workersFlag, workersUsage string, workers int) {
	fs.IntVar(&x.Shards, "shards", 0, "number of parts that the cluster is cut into; 0: chosen for you. No decision depends on it")
	fs.IntVar(&x.Workers, workersFlag, workers, workersUsage)
}

func (x *Sharding) addServiceFlags(fs *pflag.FlagSet) {
	fs.StringVar(&x.Cluster, "cluster", defaultCluster, "name of the cluster: workers and coordinators of one cluster share it")
	fs.IntVar(&x.Replicas, "shard-replicas", 1, "workers that hold each shard: 1, or 2 so that a slow one is not waited for")
	fs.BoolVar(&x.CompareWorkers, "compare-workers", false, "ask both workers of --shard-replicas 2 each time, and decide by the own "+
		"tables where they do not agree")
}

const (
	maxShards  = 65536
	maxWorkers = 1024
)

func (x Sharding) validate(workersFlag string) error {
	switch {
	case x.Shards < 0 || x.Shards > maxShards:
		return usagef("--shards: %d is not between 0 and %d", x.Shards, maxShards)
	case x.Workers < 0 || x.Workers > maxWorkers:
		return usagef("--%s: %d is not between 0 and %d", workersFlag, x.Workers, maxWorkers)
	case x.Replicas < 0 || x.Replicas > 2:
		return usagef("--shard-replicas: %d is not 1 or 2", x.Replicas)
	case x.CompareWorkers && x.Replicas != 2:
		return usagef("--compare-workers: it needs --shard-replicas 2")
	}
	return validateCluster(x.Cluster)
}

// validateCluster keeps the name usable as one part of an etcd key.
func validateCluster(name string) error {
	if name == "" || len(name) > 63 || strings.ContainsFunc(name, func(r rune) bool {
		return !(r == '-' || r == '.' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	}) {
		return usagef("--cluster: %q is not a name of 1 to 63 letters, digits, '-', '.' and '_'", name)
	}
	return nil
}

func addFileFlags(fs *pflag.FlagSet, files *[]string, skipInvalid *bool, what string) {
	fs.StringArrayVarP(files, "filename", "f", nil, what+": a `PATH` of a file or folder (*.yaml, *.yml, *.json, folders below "+
		"included), or - for standard input; repeatable")
	fs.BoolVar(skipInvalid, "skip-invalid", false, "warn of documents that can't be used, with file and line, and go on without them")
}

func addOutputFlag(fs *pflag.FlagSet, output *string, forms ...string) {
	usage := "form of the answer: " + strings.Join(forms, ", ")
	def := ""
	if slices.Contains(forms, "text") {
		def = "text"
	}
	fs.StringVarP(output, "output", "o", def, usage)
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	named := slices.DeleteFunc(slices.Clone(allowed), func(a string) bool { return a == "" })
	return usagef("--%s: %q is not one of %s", flag, value, strings.Join(named, ", "))
}

// addDemoFlags adds those of a command that can schedule the demo's cluster; does is what the command does with it.
func addDemoFlags(fs *pflag.FlagSet, demo, devices *bool, seed *uint64, does string) {
	fs.BoolVar(demo, "demo", false, does+" a cluster of 1,523 nodes and 8,152 pods shaped like the openb GPU trace")
	fs.BoolVar(devices, "devices", false, "have the demo's pods ask for GPUs by claims of devices, not as extended resources")
	addSeedFlag(fs, seed)
}

// checkDemo refuses --devices where there is no demo.
func checkDemo(demo, devices bool) error {
	if devices && !demo {
		return usagef("--devices: it is about the demo's pods; give --demo, too")
	}
	return nil
}

func addSeedFlag(fs *pflag.FlagSet, seed *uint64) {
	fs.Uint64Var(seed, "seed", 1, "order of the demo's pods; the same seed gives the same cluster")
}
