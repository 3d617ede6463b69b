package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// forwarder passes connections on, and counts them.
type forwarder struct {
	net.Listener
	n atomic.Int64
}

// forward opens one to an address that comes later.
func forward(t *testing.T, to <-chan string) *forwarder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		address, ok := <-to
		for ok {
			from, err := l.Accept()
			if err != nil {
				return
			}
			f.n.Add(1)
			go func() {
				defer from.Close()
				into, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer into.Close()
				go func() { io.Copy(into, from); into.(*net.TCPConn).CloseWrite() }()
				io.Copy(from, into)
			}()
		}
	}()
	return f
}

// TestCertificatesAreRotatedUnderLoad makes certificates by the commands, for a coordinator, a worker, a client and their etcd, and
// changes certificates and authorities while pods come, over connections that live for some milliseconds: no call of the client
// fails, and no round to the worker. The etcd has been started anew with both authorities before, for it reads what it trusts only
// then. At the end the old authority opens nothing.
func TestCertificatesAreRotatedUnderLoad(t *testing.T) {
	dir := t.TempDir()
	roles, ofEtcd := filepath.Join(dir, "pki"), filepath.Join(dir, "pki-etcd")
	do := func(args ...string) {
		t.Helper()
		if code, _, errs := runCerts(t, args...); code != 0 {
			t.Fatalf("certs %s: %s", strings.Join(args, " "), errs)
		}
	}
	do("create", "--dir", roles, "--domain", "example.org", "--cluster", "c", "--hosts", "127.0.0.1")
	do("create-etcd", "--dir", ofEtcd, "--hosts", "127.0.0.1")
	do("rotate-ca", "--dir", ofEtcd)
	endpoint := etcdWith(t, transport.TLSInfo{CertFile: ofEtcd + "/etcd/tls.crt", KeyFile: ofEtcd + "/etcd/tls.key",
		TrustedCAFile: copied(t, ofEtcd+"/ca.crt"), ClientCertAuth: true})
	user := func(name string) Etcd {
		f := ofEtcd + "/" + name
		return Etcd{Endpoints: []string{endpoint}, CAFile: f + "/ca.crt", CertFile: f + "/tls.crt", KeyFile: f + "/tls.key"}
	}
	role := func(name string) serving.TLS {
		f := roles + "/" + name
		return serving.TLS{CertFile: f + "/tls.crt", KeyFile: f + "/tls.key", CAFile: f + "/ca.crt"}
	}
	const age = 20 * time.Millisecond
	runs := Runs{
		Coordinator: func(ctx context.Context, s Streams, o CoordinatorOptions) error {
			o.TLS.ConnectionAge = age
			return runCoordinator(ctx, s, o)
		},
		Worker: func(ctx context.Context, s Streams, o WorkerOptions) error {
			o.TLS.ConnectionAge = age
			return runWorker(ctx, s, o)
		},
	}
	args := func(e Etcd, f serving.TLS, first ...string) []string {
		return append(first, "--cluster", "c", "--tls-cert-file", f.CertFile, "--tls-private-key-file", f.KeyFile,
			"--tls-ca-file", f.CAFile, "--etcd-endpoints", endpoint, "--etcd-cafile", e.CAFile, "--etcd-certfile", e.CertFile, "--etcd-keyfile", e.KeyFile)
	}
	workerAt, coordinatorAt := make(chan string, 1), make(chan string, 1)
	toWorker, toCoordinator := forward(t, workerAt), forward(t, coordinatorAt)
	workerListens, metrics := freeLoopback(t), freeLoopback(t)
	// The coordinator first: it sets up the log, which is the process's.
	coordinator := startWith(t, runs, args(user("coordinator-etcd"), role("coordinator"), "coordinator", "--standalone", "--listen", "127.0.0.1:0", "--http-listen", metrics)...)
	coordinatorAt <- coordinator.line("coordinator serves clients on ")
	worker := startWith(t, runs, args(user("worker-etcd"), role("worker"), "worker", "--id", "w1", "--http-listen", "", "--advertise", toWorker.Addr().String(),
		"--listen", workerListens)...)
	worker.line("worker w1 serves on ")
	workerAt <- workerListens

	guard, err := role("writer").Open("")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(toCoordinator.Addr().String(), grpc.WithTransportCredentials(guard.ClientCredentials(serving.Coordinator, "")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	api := pb.NewSchedulerServiceClient(conn)
	for w, err := api.ListWorkers(t.Context(), &pb.ListWorkersRequest{}); len(w.GetWorkers()) == 0; w, err = api.ListWorkers(t.Context(), &pb.ListWorkersRequest{}) {
		if err != nil && !strings.Contains(err.Error(), "leader") {
			t.Log(err) // it does not lead yet
		}
	}
	apply := func(kind, name, spec string) {
		t.Helper()
		raw := fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":%q,"namespace":%q},%s}`, kind, name, map[string]string{"Pod": "default"}[kind], spec)
		if _, err := api.Apply(t.Context(), &pb.ApplyRequest{Objects: []*pb.Object{{Raw: []byte(raw)}}}); err != nil {
			t.Fatalf("want every call answered, got %v", err)
		}
	}
	for i := range 20 {
		apply("Node", fmt.Sprintf("n%d", i), `"status":{"allocatable":{"cpu":"1000","memory":"1000Gi","pods":"100000"},"conditions":[{"type":"Ready","status":"True"}]}`)
	}
	old := serving.TLS{CertFile: copied(t, roles+"/writer/tls.crt"), KeyFile: copied(t, roles+"/writer/tls.key"), CAFile: roles + "/writer/ca.crt"}
	pods := 0
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"at the start", func() {}},
		{"other certificates", func() { do("renew", "--dir", roles) }},
		{"both authorities", func() { do("rotate-ca", "--dir", roles) }},
		{"certificates of the new authority", func() { do("renew", "--dir", roles); do("renew", "--dir", ofEtcd) }},
		{"the new authority alone", func() { do("retire-ca", "--dir", roles); do("retire-ca", "--dir", ofEtcd) }},
	} {
		step.do()
		const more = 3 // connections each
		for w, c := toWorker.n.Load(), toCoordinator.n.Load(); toWorker.n.Load() < w+more || toCoordinator.n.Load() < c+more; pods++ {
			apply("Pod", fmt.Sprintf("p%d", pods), fmt.Sprintf(`"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"%dm"}}}]}`, 1+pods%500))
		}
		if _, err := connected(t, user("coordinator-etcd")).Get(t.Context(), "/shardsched/c/"); err != nil {
			t.Errorf("%s: etcd: %v", step.name, err)
		}
		t.Logf("%s: %d pods so far", step.name, pods)
	}
	told := scrape(t, metrics, role("admin"))
	for told[`shardsched_bound_pods_total`] < float64(pods) {
		time.Sleep(20 * time.Millisecond) // until it is asked again
		told = scrape(t, metrics, role("admin"))
	}
	if told[`shardsched_bound_pods_total`] != float64(pods) || told[`shardsched_fanout_requests_total{outcome="answered"}`] == 0 ||
		told[`shardsched_fanout_requests_total{outcome="failed"}`] != 0 {
		t.Errorf("want %d pods bound and no failed request to a worker, got %v bound, requests answered: %v, failed: %v", pods, told[`shardsched_bound_pods_total`],
			told[`shardsched_fanout_requests_total{outcome="answered"}`], told[`shardsched_fanout_requests_total{outcome="failed"}`])
	}
	for use, file := range map[string]string{"tls": roles + "/coordinator/tls.crt", "etcd": ofEtcd + "/coordinator-etcd/tls.crt"} {
		pair, err := tls.LoadX509KeyPair(file, strings.TrimSuffix(file, "crt")+"key")
		if err != nil {
			t.Fatal(err)
		}
		if got := told[`shardsched_certificate_expiration_timestamp_seconds{use="`+use+`"}`]; got != float64(pair.Leaf.NotAfter.Unix()) {
			t.Errorf("the end of %s: got %v, want %d", use, got, pair.Leaf.NotAfter.Unix())
		}
	}
	before, err := old.Open("")
	if err != nil {
		t.Fatal(err)
	}
	refused, err := grpc.NewClient(toCoordinator.Addr().String(), grpc.WithTransportCredentials(before.ClientCredentials(serving.Coordinator, "")))
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	if _, err := pb.NewSchedulerServiceClient(refused).ListWorkers(t.Context(), &pb.ListWorkersRequest{}); err == nil {
		t.Error("a client of the old authority: want it refused, got an answer")
	}
}

// copied is a file as it is now.
func copied(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// freeLoopback is an address of 127.0.0.1 that was free a moment ago.
func freeLoopback(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// scrape reads counters and gauges.
func scrape(t *testing.T, address string, as serving.TLS) map[string]float64 {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(as.CertFile, as.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(as.CAFile)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}
	answer, err := c.Get("https://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	out := map[string]float64{}
	for s := bufio.NewScanner(answer.Body); s.Scan(); {
		if at := strings.LastIndex(s.Text(), " "); at > 0 && s.Text()[0] != '#' {
			out[s.Text()[:at]], _ = strconv.ParseFloat(s.Text()[at+1:], 64)
		}
	}
	return out
}
