package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/bench/judge/audit"
)

// etcdEnv makes the test binary an etcd: its value is an etcdConfig.
const etcdEnv = "SHARDSCHED_E2E_ETCD"

const etcdReady = "etcd serves"

func TestMain(m *testing.M) {
	if config := os.Getenv(etcdEnv); config != "" {
		fmt.Fprintln(os.Stderr, serveEtcd(config))
		os.Exit(1)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// etcdConfig is what the etcd process is told.
type etcdConfig struct {
	DataDir string
	// Listen is the clients' host:port.
	Listen string
	// Txns is the file of its audit.Recorder.
	Txns string
}

// serveEtcd runs an etcd until the process is killed.
func serveEtcd(config string) error {
	var c etcdConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Errorf("%s: %w", etcdEnv, err)
	}
	txns, err := os.OpenFile(c.Txns, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	z := zap.NewProductionConfig()
	z.Level = zap.NewAtomicLevelAt(zap.WarnLevel)
	logger, err := z.Build()
	if err != nil {
		return err
	}
	e := embed.NewConfig()
	e.Dir = c.DataDir
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	clients := []url.URL{{Scheme: "http", Host: c.Listen}}
	peers := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e.ListenClientUrls, e.AdvertiseClientUrls = clients, clients
	e.ListenPeerUrls, e.AdvertisePeerUrls = peers, peers
	e.InitialCluster = e.InitialClusterFromName(e.Name)
	e.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	e.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainUnaryInterceptor(audit.NewRecorder(txns).Unary)}
	server, err := embed.StartEtcd(e)
	if err != nil {
		return err
	}
	<-server.Server.ReadyNotify()
	fmt.Println(etcdReady)
	return <-server.Err()
}

// etcd is an etcd process that can be killed and started again with its data.
type etcd struct {
	r       *rig
	dir     string
	listen  string
	lives   int
	process *process.Process
	client  *clientv3.Client
}

// newEtcd starts an etcd on a free port. The port may be taken by another between the
// two; then there is another port.
func newEtcd(r *rig) *etcd {
	r.t.Helper()
	e := &etcd{r: r, dir: r.t.TempDir()}
	for attempt := 1; ; attempt++ {
		e.listen = process.MustFreeAddress(r.t)
		err := e.start()
		if err == nil {
			break
		}
		if attempt == 3 {
			r.t.Fatal(err)
		}
		r.t.Logf("etcd on %s: %v; trying another port", e.listen, err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.listen}, Logger: zap.NewNop()})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	e.client = c
	return e
}

func (e *etcd) endpoint() string { return "http://" + e.listen }

// txns is the file of the etcd's n-th life.
func (e *etcd) txns(life int) string {
	return filepath.Join(e.r.dir, fmt.Sprintf("txns-%d.jsonl", life))
}

// start begins the next life and returns when etcd answers.
func (e *etcd) start() error {
	e.lives++
	config, err := json.Marshal(etcdConfig{DataDir: filepath.Join(e.dir, "data"), Listen: e.listen, Txns: e.txns(e.lives)})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := e.r.group.Start("etcd", "/usr/bin/env", etcdEnv+"="+string(config), self)
	if err != nil {
		return err
	}
	e.process = p
	_, err = p.Line(e.r.ctx, etcdReady)
	return err
}

// kill ends it as a power cut would.
func (e *etcd) kill() {
	e.r.log("kill -9 etcd")
	e.process.Kill()
}

func (e *etcd) restart() {
	e.r.t.Helper()
	if err := e.start(); err != nil {
		e.r.t.Fatalf("restart etcd: %v", err)
	}
	e.r.log("etcd is back")
}

// recorded are all requests to write that etcd got, over all its lives.
func (e *etcd) recorded() []audit.Txn {
	e.r.t.Helper()
	var all []audit.Txn
	for life := 1; life <= e.lives; life++ {
		f, err := os.Open(e.txns(life))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			e.r.t.Fatal(err)
		}
		txns, err := audit.ReadTxns(f)
		f.Close()
		if err != nil {
			e.r.t.Fatalf("%s: %v", f.Name(), err)
		}
		all = append(all, txns...)
	}
	return all
}
