package testbed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// Config says what bed to make.
type Config struct {
	// Dir is a folder for everything: data, logs, kubeconfigs, programs. Needed, but by New.
	Dir string
	// Data is the folder of an etcd's data, of a bed that is closed, to begin with a copy of: see
	// Data. Empty: there is nothing at first.
	Data string
	// Durable makes etcd wait for the disk, as in production. Killing its process loses
	// nothing either way.
	Durable bool
	// NoAudit leaves the audit log out: it costs a measurement something.
	NoAudit bool
	// Txns makes etcd write down every request to write: see Bed.Txns.
	Txns bool
	// OwnEtcd gives our schedulers an etcd of their own, as where the API server's may not be
	// used. It has a Txns file too: see Bed.OwnTxns.
	OwnEtcd bool
	// CoordinatorTokens is how many kubeconfigs of the coordinator's user there are besides: see
	// Bed.CoordinatorKubeconfigs.
	CoordinatorTokens int
	// Programs is a folder that BuildIn has filled; empty: what is needed is built from the
	// source as it is then.
	Programs string
	// NodeGrace is for how long the kubelet of a node may be silent until the controller nodelifecycle takes the node for not
	// ready: 1 s or more. 0: 40 s.
	NodeGrace time.Duration
	// APIServerArgs are added to the API server's flags.
	APIServerArgs []string
}

// Bed is a running control plane.
type Bed struct {
	Etcd, APIServer *Server
	// OwnEtcd is the etcd of our schedulers: Etcd itself, unless the Config wants another.
	OwnEtcd *Server
	// AdminKubeconfig, SchedulerKubeconfig and CoordinatorKubeconfig are files.
	AdminKubeconfig, SchedulerKubeconfig, CoordinatorKubeconfig string
	// CoordinatorKubeconfigs are of the same user, each with a token of its own: the audit log
	// tells their requests apart by the UID, which is CoordinatorUID of the index.
	CoordinatorKubeconfigs []string
	// AdminREST configures clients of the administrator: protobuf, no limit.
	AdminREST *rest.Config
	// Admin is such a client.
	Admin kubernetes.Interface
	// Pods follows all pods.
	Pods *PodWatch

	config Config
	creds  credentials
	group  *process.Group
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu         sync.Mutex
	programs   map[string]string
	priorities map[int32]bool
}

// readyPoll is how often the API server is asked whether it is ready.
const readyPoll = 50 * time.Millisecond

// Start starts etcd and the API server, and returns when they answer. The context
// bounds the start; Close ends the bed.
func Start(ctx context.Context, c Config) (*Bed, error) {
	for _, dir := range []string{"bin", "logs", "config"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	b := &Bed{config: c, programs: map[string]string{}, priorities: map[int32]bool{}}
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	b.group = process.NewGroup(filepath.Join(c.Dir, "logs"))
	if err := b.start(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Data is the folder of etcd's data of a bed in dir.
func Data(dir string) string { return filepath.Join(dir, "etcd") }

func (b *Bed) start(ctx context.Context) (err error) {
	if err := b.copyData(); err != nil {
		return err
	}
	if b.creds, err = newCredentials(b.path("credentials"), b.config.CoordinatorTokens); err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	if err := b.startEtcd(ctx); err != nil {
		return err
	}
	if err := b.startAPIServer(ctx); err != nil {
		return err
	}
	if err := b.grant(ctx); err != nil {
		return fmt.Errorf("roles: %w", err)
	}
	b.Pods, err = b.watchPods(ctx)
	return err
}

// Close ends all processes and everything that runs here, and returns when they are gone.
func (b *Bed) Close() {
	b.cancel()
	b.tasks.Wait()
	b.group.Close()
}

// Processes are all processes of the bed so far.
func (b *Bed) Processes() []*process.Process { return b.group.Processes() }

// Run starts a process that ends with the bed.
func (b *Bed) Run(name, program string, args ...string) (*process.Process, error) {
	return b.group.Start(name, program, args...)
}

// Dir is a folder of the bed: what is there ends with it where the test says so.
func (b *Bed) Dir() string { return b.config.Dir }

// Txns is the file of what etcd was asked to write, where the Config wanted it.
func (b *Bed) Txns() string { return b.path("txns.jsonl") }

// OwnTxns is that of our schedulers' own etcd.
func (b *Bed) OwnTxns() string { return b.path("own-txns.jsonl") }

// Go runs a task beside the bed until Close ends its context.
func (b *Bed) Go(task func(context.Context)) { b.tasks.Go(func() { task(b.ctx) }) }

func (b *Bed) path(parts ...string) string {
	return filepath.Join(append([]string{b.config.Dir}, parts...)...)
}

// binary builds a program, once for the bed.
func (b *Bed) binary(ctx context.Context, p program) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if file := b.programs[p.name]; file != "" {
		return file, nil
	}
	if b.config.Programs != "" {
		return filepath.Join(b.config.Programs, p.name), nil
	}
	file, err := p.build(ctx, b.path("bin"))
	if err == nil {
		b.programs[p.name] = file
	}
	return file, err
}

// startEtcd starts etcd, and another one for our schedulers where they are to have one.
func (b *Bed) startEtcd(ctx context.Context) (err error) {
	txns := ""
	if b.config.Txns {
		txns = b.Txns()
	}
	if b.Etcd, err = b.newEtcd(ctx, "etcd", txns); err != nil {
		return err
	}
	b.OwnEtcd = b.Etcd
	if b.config.OwnEtcd {
		b.OwnEtcd, err = b.newEtcd(ctx, "own-etcd", b.OwnTxns())
	}
	return err
}

// copyData gives etcd the data to begin with.
func (b *Bed) copyData() error {
	if b.config.Data == "" {
		return nil
	}
	to := Data(b.config.Dir)
	if err := os.CopyFS(to, os.DirFS(b.config.Data)); err != nil {
		return err
	}
	return os.Chmod(to, 0o700) // etcd wants its folder to itself
}

// newEtcd starts an etcd of one member.
func (b *Bed) newEtcd(ctx context.Context, name, txns string) (*Server, error) {
	file, err := b.binary(ctx, etcdProgram)
	if err != nil {
		return nil, err
	}
	s := &Server{group: b.group, name: name, program: file, ready: func(ctx context.Context, p *process.Process) error {
		_, err := p.Line(ctx, "etcd serves")
		return err
	}}
	return s, startSomewhere(ctx, s, func(host, port string) []string {
		args := []string{"-data-dir", b.path(name), "-listen", host + ":" + port}
		if !b.config.Durable {
			args = append(args, "-unsafe-no-fsync")
		}
		if txns != "" {
			args = append(args, "-txns", txns)
		}
		return args
	})
}

// EtcdEndpoint is the URL of the API server's etcd, OwnEtcdEndpoint that of our schedulers'.
func (b *Bed) EtcdEndpoint() string { return "http://" + b.Etcd.Address }

// OwnEtcdEndpoint is the URL of the etcd of our schedulers.
func (b *Bed) OwnEtcdEndpoint() string { return "http://" + b.OwnEtcd.Address }

// Logs are the last lines of each process's output.
func (b *Bed) Logs(n int) string {
	var s strings.Builder
	for _, p := range b.Processes() {
		fmt.Fprintf(&s, "--- the last lines of %s (running %v)\n%s\n", p.Name, p.Running(), strings.Join(p.Tail(n), "\n"))
	}
	return s.String()
}

// Controllers starts controllers by their names, and returns when they run: deployment, replicaset, statefulset, daemonset, job,
// cronjob, disruption, namespace, garbagecollector, persistentvolume, resourceclaim, nodelifecycle, tainteviction are upstream's;
// kubelet makes bound pods running and takes deleted ones away; heartbeat says that nodes are alive, which nodelifecycle asks for;
// provisioner makes the volumes of classes with the provisioner named Provisioner.
func (b *Bed) Controllers(ctx context.Context, names ...string) (*process.Process, error) {
	file, err := b.binary(ctx, controllersProgram)
	if err != nil {
		return nil, err
	}
	args := []string{"-kubeconfig=" + b.AdminKubeconfig, "-controllers=" + strings.Join(names, ",")}
	if b.config.NodeGrace > 0 {
		args = append(args, "-node-grace="+b.config.NodeGrace.String())
	}
	p, err := b.Run("controllers", file, args...)
	if err != nil {
		return nil, err
	}
	_, err = p.Line(ctx, "controllers run")
	return p, err
}

// StopsAfter is the annotation of a pod whose containers take a while to end, such as 2s, with the
// controller "kubelet": no longer than its grace period.
const StopsAfter = "hollow.shardsched.io/stops-after"

// WorksFor is the annotation of a pod of a Job that says how long it works, with the controller "kubelet": 10 s without it.
const WorksFor = "hollow.shardsched.io/works-for"

// Provisioner is the name of the CSI driver whose volumes the controller "provisioner"
// makes. A class's parameter "topology" names the node label that says where a volume
// can be used (none: everywhere), its parameter "full" a node that has no room.
const Provisioner = "hollow.shardsched.io"
