package embedetcd_test

import (
	"context"
	"strings"
	"testing"
	"time"

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
	s := start(t, embedetcd.Config{DataDir: dir})
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

func TestTwoMembersShareAMachine(t *testing.T) {
	a := start(t, embedetcd.Config{DataDir: t.TempDir()})
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
	a := start(t, embedetcd.Config{DataDir: t.TempDir()})
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
