package testbed

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// Scheduler says how to run a scheduler: upstream's or ours.
type Scheduler struct {
	// Name labels the process; empty: kube-scheduler or coordinator.
	Name string
	// Config is a KubeSchedulerConfiguration in YAML, without apiVersion and kind.
	// Where it says nothing of them, clients are not limited and leaders are
	// elected with a short lease.
	Config string
	// Kubeconfig is whom it acts as; empty: Bed.SchedulerKubeconfig for upstream's, Bed.CoordinatorKubeconfig for ours.
	Kubeconfig string
	// Cluster is the name of the cluster in etcd (ours); empty: testbed.
	Cluster string
	// EmbeddedEtcd is the HOST:PORT of an etcd in the coordinator's process, instead of the
	// bed's; empty: there is none (ours).
	EmbeddedEtcd string
	// Swap has it do without any other process than the API server: an etcd in its own, without a port and in a
	// temporary folder (ours).
	Swap bool
	// Args are added to its flags.
	Args []string
	// Program is PluginsOurs or PluginsTheirs, the scheduler with plugins compiled in; empty: the
	// scheduler alone.
	Program string
}

// program is what runs.
func (s *Scheduler) program(usual program) program {
	if s.Program == "" {
		return usual
	}
	return pluginProgram(s.Program)
}

// SchedulerProcess is a running scheduler.
type SchedulerProcess struct {
	*process.Process
	// HTTPS is the host:port of its secure endpoints.
	HTTPS string
	// Listen is the host:port of its client API (ours).
	Listen string
	bed    *Bed
}

// Leases of a test: short, so that takeovers are, and long enough for two busy cores.
const (
	leaseDuration = "4s"
	renewDeadline = "3s"
	retryPeriod   = "500ms"
)

// configuration completes a scheduler's file and writes it.
func (b *Bed) configuration(s Scheduler) (file string, err error) {
	var c map[string]any
	if err := yaml.Unmarshal([]byte(s.Config), &c); err != nil {
		return "", fmt.Errorf("configuration of %s: %w", s.Name, err)
	}
	if c == nil {
		c = map[string]any{}
	}
	complete(c, map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1",
		"kind":       "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{"kubeconfig": s.Kubeconfig, "qps": 10000, "burst": 10000,
			"contentType": "application/vnd.kubernetes.protobuf"},
		"leaderElection": map[string]any{"leaseDuration": leaseDuration, "renewDeadline": renewDeadline, "retryPeriod": retryPeriod},
	})
	out, err := yaml.Marshal(c)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(b.path("config"), s.Name+"-*.yaml")
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = f.Write(out)
	return f.Name(), err
}

// complete adds what is missing, map by map.
func complete(c, defaults map[string]any) {
	for k, d := range defaults {
		has, ok := c[k]
		if !ok {
			c[k] = d
			continue
		}
		inner, isMap := has.(map[string]any)
		if dm, ok := d.(map[string]any); ok && isMap {
			complete(inner, dm)
		}
	}
}

// flags are those that upstream's scheduler and ours share.
func (b *Bed) flags(s *Scheduler, name, kubeconfig string) (flags []string, https string, err error) {
	if s.Name == "" {
		s.Name = name
	}
	if s.Kubeconfig == "" {
		s.Kubeconfig = kubeconfig
	}
	file, err := b.configuration(*s)
	if err != nil {
		return nil, "", err
	}
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	return []string{
		"--config=" + file, "--bind-address=" + loopback, "--secure-port=" + port,
		"--authentication-kubeconfig=" + s.Kubeconfig, "--authorization-kubeconfig=" + s.Kubeconfig,
	}, net.JoinHostPort(loopback, port), nil
}

// Upstream starts upstream's kube-scheduler and returns when it is ready.
func (b *Bed) Upstream(ctx context.Context, s Scheduler) (*SchedulerProcess, error) {
	file, err := b.binary(ctx, s.program(upstreamProgram))
	if err != nil {
		return nil, err
	}
	flags, https, err := b.flags(&s, "kube-scheduler", b.SchedulerKubeconfig)
	if err != nil {
		return nil, err
	}
	return b.startScheduler(ctx, s, file, https, append(flags, s.Args...))
}

// Coordinator starts a coordinator and returns when it is ready.
func (b *Bed) Coordinator(ctx context.Context, s Scheduler) (*SchedulerProcess, error) {
	file, err := b.binary(ctx, s.program(oursProgram))
	if err != nil {
		return nil, err
	}
	flags, https, err := b.flags(&s, "coordinator", b.CoordinatorKubeconfig)
	if err != nil {
		return nil, err
	}
	flags = append([]string{"coordinator"}, flags...)
	flags = append(flags, "--cluster="+s.cluster(), "--listen="+loopback+":0")
	switch {
	case s.Swap:
		flags = append(flags, "--embedded-etcd")
	case s.EmbeddedEtcd != "":
		flags = append(flags, "--embedded-etcd", "--embedded-etcd-listen="+s.EmbeddedEtcd, "--data-dir="+b.path("embedded-etcd"))
	default:
		flags = append(flags, "--etcd-endpoints="+b.OwnEtcdEndpoint())
	}
	p, err := b.startScheduler(ctx, s, file, https, append(flags, s.Args...))
	if err != nil {
		return nil, err
	}
	p.Listen, err = p.Line(ctx, "coordinator serves clients on ")
	return p, err
}

func (s *Scheduler) cluster() string {
	if s.Cluster == "" {
		return "testbed"
	}
	return s.Cluster
}

// Worker starts a worker for the coordinators of a cluster and returns at once. It is
// asked when the leader has seen it.
func (b *Bed) Worker(ctx context.Context, name, cluster string, args ...string) (*process.Process, error) {
	file, err := b.binary(ctx, oursProgram)
	if err != nil {
		return nil, err
	}
	s := Scheduler{Cluster: cluster}
	return b.Run(name, file, append([]string{"worker", "--etcd-endpoints=" + b.OwnEtcdEndpoint(), "--cluster=" + s.cluster(),
		"--id=" + name, "--listen=" + loopback + ":0", "--http-listen=", "--lease-duration=4s"}, args...)...)
}

// Shardsched is the file of our program, as the source is now.
func (b *Bed) Shardsched(ctx context.Context) (string, error) { return b.binary(ctx, oursProgram) }

// KubeScheduler is the file of upstream's.
func (b *Bed) KubeScheduler(ctx context.Context) (string, error) {
	return b.binary(ctx, upstreamProgram)
}

func (b *Bed) startScheduler(ctx context.Context, s Scheduler, file, https string, args []string) (*SchedulerProcess, error) {
	run, err := b.Run(s.Name, file, args...)
	if err != nil {
		return nil, err
	}
	p := &SchedulerProcess{Process: run, HTTPS: https, bed: b}
	if err := p.ready(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w; its last lines:\n%s", s.Name, err, strings.Join(p.Tail(20), "\n"))
	}
	return p, nil
}

// ready waits until /readyz says so.
func (p *SchedulerProcess) ready(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		status, body, err := p.Get(ctx, "/readyz", "")
		if err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return fmt.Errorf("it ended: %w", p.Err())
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w: status %d, %s, %w", ctx.Err(), status, body, err)
		}
	}
}

// Get asks a secure endpoint with a token, or without where that is empty.
func (p *SchedulerProcess) Get(ctx context.Context, path, token string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return p.get(ctx, path, token)
}

func (p *SchedulerProcess) get(ctx context.Context, path, token string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+p.HTTPS+path, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// Profile writes a CPU profile of the time that follows to a file.
func (p *SchedulerProcess) Profile(ctx context.Context, d time.Duration, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	for _, x := range []struct{ path, file string }{
		{fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(d.Seconds())), file},
		{"/debug/pprof/heap", file + ".heap"},
		{"/metrics", file + ".metrics"},
	} {
		status, body, err := p.get(ctx, x.path, p.bed.AdminToken())
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s%s: status %d: %s", p.Name, x.path, status, body)
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(x.file, []byte(body), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// AdminToken and SchedulerToken are the users' tokens.
func (b *Bed) AdminToken() string { return b.creds.adminToken }

// SchedulerToken is the token of SchedulerUser.
func (b *Bed) SchedulerToken() string { return b.creds.schedulerToken }
