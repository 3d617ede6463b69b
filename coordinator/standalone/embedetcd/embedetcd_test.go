package embedetcd_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
)

func start(t *testing.T, cfg embedetcd.Config) *embedetcd.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg.Logger = zap.NewNop()
	s, err := embedetcd.Start(ctx, cfg)
	if err != nil {
		t.Fatalf("Start(%+v): %v", cfg, err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestDataSurvivesARestartOnTheSamePort(t *testing.T) {
	dir := t.TempDir()
	s := start(t, embedetcd.Config{DataDir: dir, Listen: "127.0.0.1:0"})
	c, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	put, err := c.Put(t.Context(), "k", "v")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()

	again := start(t, embedetcd.Config{DataDir: dir, Listen: s.Endpoint()})
	if got, want := again.Endpoint(), s.Endpoint(); got != want {
		t.Errorf("endpoint after the restart: got %s, want %s", got, want)
	}
	got, err := c.Get(t.Context(), "k")
	if err != nil {
		t.Fatalf("the client of before the restart: %v", err)
	}
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" || got.Kvs[0].ModRevision != put.Header.Revision {
		t.Errorf("after the restart: got %v, want k=v at revision %d", got.Kvs, put.Header.Revision)
	}
}

// TestAMemberWithoutAnAddressOpensNoPort looks at the sockets of this process, and has the member's own client do all that needs a
// connection: writes, watches, leases, and maintenance of its endpoint.
func TestAMemberWithoutAnAddressOpensNoPort(t *testing.T) {
	before := listening(t)
	dir := t.TempDir()
	s := start(t, embedetcd.Config{DataDir: dir, Volatile: true})
	if got := listening(t); !maps.Equal(got, before) || s.Endpoint() != "" {
		t.Errorf("sockets that listen: got %v and endpoint %q, want %v and none", got, s.Endpoint(), before)
	}
	c, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch := c.Watch(ctx, "k")
	granted, err := c.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	put, err := c.Put(ctx, "k", "v", clientv3.WithLease(granted.ID))
	if err != nil {
		t.Fatal(err)
	}
	if got := <-watch; len(got.Events) != 1 || got.Events[0].Kv.ModRevision != put.Header.Revision {
		t.Errorf("watch: got %+v, want the write at revision %d", got, put.Header.Revision)
	}
	if kept, err := c.KeepAliveOnce(ctx, granted.ID); err != nil || kept.TTL != 60 {
		t.Errorf("lease: got %+v, %v, want it to live for 60 s", kept, err)
	}
	status, err := c.Status(ctx, c.Endpoints()[0])
	if err != nil || status.DbSizeQuota != 8<<30 {
		t.Errorf("status: got %+v, %v, want a quota of 8 GiB", status, err)
	}
	s.Close()
	again := start(t, embedetcd.Config{DataDir: dir})
	c, err = again.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := c.Get(ctx, "k"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("after a restart: got %v, %v, want k", got, err)
	}
}

// TestTemporaryFoldersOfTheKilledGo has one that is in use stay, as one whose lock is fresh does.
func TestTemporaryFoldersOfTheKilledGo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	temporary := func() string {
		dir, err := embedetcd.Temporary()
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	var dirs []string
	for range 4 {
		dirs = append(dirs, temporary())
	}
	inUse, killed, fresh, withoutLock := dirs[0], dirs[1], dirs[2], dirs[3]
	start(t, embedetcd.Config{DataDir: inUse})
	for _, dir := range []string{killed, fresh} {
		start(t, embedetcd.Config{DataDir: dir}).Close()
	}
	for _, dir := range []string{inUse, killed} {
		lock, old := filepath.Join(dir, "lock"), time.Now().Add(-time.Hour)
		if err := os.Chtimes(lock, old, old); err != nil {
			t.Fatal(err)
		}
	}
	next := temporary()
	for dir, stays := range map[string]bool{inUse: true, killed: false, fresh: true, withoutLock: true, next: true} {
		if _, err := os.Stat(dir); (err == nil) != stays {
			t.Errorf("%s: got %v, want it to stay: %v", dir, err, stays)
		}
	}
}

// listening are the inodes of all TCP sockets of this process that listen.
func listening(t *testing.T) map[string]bool {
	t.Helper()
	own := map[string]bool{}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	all := map[string]bool{}
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const listen = "0A"
			if f := strings.Fields(line); len(f) > 9 && f[3] == listen && own[f[9]] {
				all[f[9]] = true
			}
		}
	}
	return all
}

func TestTwoMembersShareAMachine(t *testing.T) {
	a := start(t, embedetcd.Config{DataDir: t.TempDir(), Listen: "127.0.0.1:0"})
	b := start(t, embedetcd.Config{DataDir: t.TempDir(), Listen: "localhost:0"})
	if a.Endpoint() == b.Endpoint() {
		t.Errorf("both listen on %s", a.Endpoint())
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		cfg  embedetcd.Config
		want string
	}{
		"no data directory":       {embedetcd.Config{}, "no data directory"},
		"an address for everyone": {embedetcd.Config{DataDir: dir, Listen: "0.0.0.0:2379"}, "is not loopback"},
		"a name":                  {embedetcd.Config{DataDir: dir, Listen: "example.com:2379"}, "is not loopback"},
		"no port":                 {embedetcd.Config{DataDir: dir, Listen: "127.0.0.1"}, "missing port"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := embedetcd.Start(t.Context(), tc.cfg)
			if err == nil {
				s.Close()
				t.Fatalf("got no error, want one with %q", tc.want)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q, want it to contain %q", err, tc.want)
			}
		})
	}
}

func TestAPortThatIsTakenIsAnError(t *testing.T) {
	a := start(t, embedetcd.Config{DataDir: t.TempDir(), Listen: "127.0.0.1:0"})
	b, err := embedetcd.Start(t.Context(), embedetcd.Config{DataDir: t.TempDir(), Listen: a.Endpoint(), Logger: zap.NewNop()})
	if err == nil {
		b.Close()
		t.Fatalf("a second member started on %s", a.Endpoint())
	}
	if !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %q, want it to name the address already in use", err)
	}
}

func TestADataDirectoryHasOneUser(t *testing.T) {
	dir := t.TempDir()
	a := start(t, embedetcd.Config{DataDir: dir})
	b, err := embedetcd.Start(t.Context(), embedetcd.Config{DataDir: dir, Logger: zap.NewNop()})
	if err == nil {
		b.Close()
		t.Fatal("a second member started in the same directory")
	}
	if !strings.Contains(err.Error(), "is in use by another process") {
		t.Errorf("got %q, want it to say that the directory is in use", err)
	}
	a.Close()
	start(t, embedetcd.Config{DataDir: dir})
}
