package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/cmd/internal/serving/authority"
	"github.com/shardsched/shardsched/coordinator/upkeep"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

// guardedEtcd is an etcd that knows its clients by certificate.
func guardedEtcd(t *testing.T, a *authority.Authority) (endpoint string) {
	t.Helper()
	f := a.Issue(t.TempDir(), authority.Subject{CommonName: "etcd"})
	return etcdWith(t, transport.TLSInfo{CertFile: f.Cert, KeyFile: f.Key, TrustedCAFile: f.CA, ClientCertAuth: true})
}

// etcdWith is an etcd on 127.0.0.1.
func etcdWith(t *testing.T, clients transport.TLSInfo) (endpoint string) {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.LogLevel, c.EnableGRPCGateway = t.TempDir(), "fatal", false
	l, err := net.Listen("tcp", "127.0.0.1:0") // the address that the certificate is for, on a port that is free
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	here, peers := url.URL{Scheme: "https", Host: l.Addr().String()}, url.URL{Scheme: "http", Host: freeAddress()}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{here}, []url.URL{here}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ClientTLSInfo = clients
	server, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	return here.String()
}

// etcdUser is how a user of the common name reaches etcd.
func etcdUser(t *testing.T, a *authority.Authority, endpoint, name string) Etcd {
	f := a.Issue(t.TempDir(), authority.Subject{CommonName: name, DNS: []string{name}})
	return Etcd{Endpoints: []string{endpoint}, CAFile: f.CA, CertFile: f.Cert, KeyFile: f.Key}
}

func connected(t *testing.T, e Etcd) *clientv3.Client {
	t.Helper()
	c, err := e.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// runRoles runs deploy/etcd/roles.sh, with an etcdctl that notes what it is asked for, and does that.
func runRoles(t *testing.T, root *clientv3.Client) {
	t.Helper()
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	if err := os.WriteFile(filepath.Join(dir, "etcdctl"), []byte("#!/bin/sh\necho \"$*\" >> "+asked+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := exec.Command("../../../deploy/etcd/roles.sh")
	script.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "CLUSTER=c"}
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		if err := etcdctl(t.Context(), root, strings.Fields(line)); err != nil {
			t.Fatalf("etcdctl %s: %v", line, err)
		}
	}
}

// etcdctl does what etcdctl would.
func etcdctl(ctx context.Context, c *clientv3.Client, args []string) error {
	var err error
	switch strings.Join(args[:2], " ") {
	case "role add":
		_, err = c.RoleAdd(ctx, args[2])
	case "role grant-permission":
		if len(args) != 6 || args[5] != "--prefix" {
			return errors.New("want a permission on a prefix")
		}
		kind, ok := map[string]clientv3.PermissionType{"read": clientv3.PermissionType(clientv3.PermRead), "write": clientv3.PermissionType(clientv3.PermWrite), "readwrite": clientv3.PermissionType(clientv3.PermReadWrite)}[args[3]]
		if !ok {
			return errors.New("want read, write or readwrite")
		}
		_, err = c.RoleGrantPermission(ctx, args[2], args[4], clientv3.GetPrefixRangeEnd(args[4]), kind)
	case "user add":
		if len(args) != 4 || args[3] != "--no-password" {
			return errors.New("want a user without a password")
		}
		_, err = c.UserAddWithOptions(ctx, args[2], "", &clientv3.UserAddOptions{NoPassword: true})
	case "user grant-role":
		_, err = c.UserGrantRole(ctx, args[2], args[3])
	case "auth enable":
		_, err = c.AuthEnable(ctx)
	default:
		err = errors.New("unknown command")
	}
	return err
}

// TestEtcdUsers runs a coordinator and a worker, with certificates all over, as the two users of etcd that
// deploy/etcd/roles.sh makes, has pods decided by the worker, and tries what the users may not. What the worker
// registers by another's id is not used.
func TestEtcdUsers(t *testing.T) {
	ofEtcd, ours := authority.New(t), authority.New(t)
	endpoint := guardedEtcd(t, ofEtcd)
	runRoles(t, connected(t, etcdUser(t, ofEtcd, endpoint, "root")))
	workerUser := etcdUser(t, ofEtcd, endpoint, "shardsched-worker")
	issue := func(role string) authority.Files {
		return ours.Issue(t.TempDir(), authority.Subject{URIs: []string{"spiffe://example.org/shardsched/c/" + role}})
	}
	args := func(e Etcd, f authority.Files, first ...string) []string {
		return append(append(first, flags(f)...), "--cluster", "c", "--listen", "127.0.0.1:0", "--http-listen", "",
			"--etcd-endpoints", endpoint, "--etcd-cafile", e.CAFile, "--etcd-certfile", e.CertFile, "--etcd-keyfile", e.KeyFile)
	}
	coordinator := start(t, args(etcdUser(t, ofEtcd, endpoint, "shardsched-coordinator"), issue("coordinator"), "coordinator", "--standalone")...)
	serves := coordinator.line("coordinator serves clients on ") // it has set up the log, which is the process's
	worker := start(t, args(workerUser, issue("worker/w1"), "worker", "--id", "w1")...)
	address := worker.line("worker w1 serves on ")
	as := connected(t, workerUser)
	impostor, err := proto.Marshal(&pb.WorkerRegistration{Id: "w2", Address: address, Cores: 2, Version: Version(), Rules: scan.Rules()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := as.Put(t.Context(), "/shardsched/c/workers/w2", string(impostor)); err != nil {
		t.Fatal(err)
	}
	writer := issue("writer")
	guard, err := serving.TLS{CertFile: writer.Cert, KeyFile: writer.Key, CAFile: writer.CA}.Open("")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{Addresses: []string{serves}, Patience: submitPatience, Dial: dialer(guard)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	workers := func() (list []*pb.WorkerStatus) {
		if err := c.Do(t.Context(), func(ctx context.Context, s pb.SchedulerServiceClient) error {
			resp, err := s.ListWorkers(ctx, &pb.ListWorkersRequest{})
			list = resp.GetWorkers()
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return list
	}
	for len(workers()) < 2 {
	}
	in, err := readInput(Streams{}, UpOptions{Demo: true}.input())
	if err != nil {
		t.Fatal(err)
	}
	if err := (&applier{client: c, lines: io.Discard}).apply(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	for workers()[0].GetRequests() == 0 || workers()[1].GetFailures()+workers()[1].GetRequests() == 0 {
	}
	if w := workers()[0]; w.GetId() != "w1" || w.GetFailures() > 0 {
		t.Errorf("want w1 asked without failures, got %v", w)
	}
	if w := workers()[1]; w.GetId() != "w2" || w.GetRequests() > 0 {
		t.Errorf("want w2, by which w1 is registered too, to answer nothing, got %v", w)
	}

	for name, try := range map[string]func() error{
		"put an object": func() error { _, err := as.Put(t.Context(), "/shardsched/c/objects/pods/x", ""); return err },
		"put a leader":  func() error { _, err := as.Put(t.Context(), "/shardsched/c/leader/x", ""); return err },
		"delete the leader": func() error {
			_, err := as.Delete(t.Context(), "/shardsched/c/leader/", clientv3.WithPrefix())
			return err
		},
		"put in the journal": func() error { _, err := as.Put(t.Context(), "/shardsched/c/queue/x", ""); return err },
		"put in the history": func() error { _, err := as.Put(t.Context(), "/shardsched/c/history/0000", ""); return err },
		"read objects": func() error {
			_, err := as.Get(t.Context(), "/shardsched/c/objects/", clientv3.WithPrefix())
			return err
		},
		"read all":                func() error { _, err := as.Get(t.Context(), "/shardsched/c/", clientv3.WithPrefix()); return err },
		"register elsewhere":      func() error { _, err := as.Put(t.Context(), "/shardsched/d/workers/x", ""); return err },
		"put another's key":       func() error { _, err := as.Put(t.Context(), "/registry/pods/x", ""); return err },
		"make itself a root":      func() error { _, err := as.UserGrantRole(t.Context(), "shardsched-worker", "root"); return err },
		"turn authentication off": func() error { _, err := as.AuthDisable(t.Context()); return err },
	} {
		if err := try(); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("a worker's user may not %s: want %v, got %v", name, rpctypes.ErrPermissionDenied, err)
		}
	}
	other := connected(t, etcdUser(t, ofEtcd, endpoint, "shardsched-coordinator"))
	// etcd lets its users compact, and tells them of alarms, but not of its size.
	registry := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(t.Context())
	looked := make(chan error, 1)
	go func() { looked <- lookAfter(ctx, other, "c", upkeep.DefaultInterval, registry) }()
	families := map[string]bool{}
	for !families["shardsched_etcd_alarms"] {
		all, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			families[f.GetName()] = true
		}
	}
	cancel()
	if err := <-looked; err != nil || families["shardsched_etcd_db_size_bytes"] {
		t.Errorf("upkeep as a coordinator's user: got %v and %v, want no error, and no size", err, families)
	}
	if _, err := other.Compact(t.Context(), 1); err != nil {
		t.Errorf("compaction by a coordinator's user: got %v", err)
	}
	if _, err := other.Get(t.Context(), "/shardsched/d/", clientv3.WithPrefix()); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("a coordinator's user reads another cluster: want %v, got %v", rpctypes.ErrPermissionDenied, err)
	}
}
