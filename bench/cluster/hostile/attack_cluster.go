package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// attackCluster is a cluster in which an attack takes place.
type attackCluster struct {
	size
	bed                 *testbed.Bed
	scheduler           *testbed.SchedulerProcess
	hostile, bystanders string               // namespaces
	tenant              kubernetes.Interface // the attacker's client
	schedulerName       string               // that the attacker's pods name
	made                atomic.Int64         // pods of the attacker
}

// configuration is both sides': no limits of their own but what is far above what the
// machine can do, and upstream's leader election.
const configuration = `
clientConnection: {qps: 10000, burst: 10000}
leaderElection: {leaderElect: true, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s}
`

// startScheduler starts a side, and returns when it is ready.
func startScheduler(ctx context.Context, bed *testbed.Bed, side string, localWorkers int) (*testbed.SchedulerProcess, error) {
	s := testbed.Scheduler{Config: configuration}
	if side == upstream {
		return bed.Upstream(ctx, s)
	}
	s.Args = []string{fmt.Sprintf("--local-workers=%d", localWorkers)}
	return bed.Coordinator(ctx, s)
}

// newAttackCluster makes the namespaces of an attack, and the attacker.
func newAttackCluster(ctx context.Context, bed *testbed.Bed, o size, name string) (*attackCluster, error) {
	s := &attackCluster{size: o, bed: bed, hostile: "hostile-" + name, bystanders: "bystanders-" + name}
	if err := bed.Create(ctx, build.Namespace(s.hostile), build.Namespace(s.bystanders)); err != nil {
		return nil, err
	}
	const user = "tenant"
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		// What the role edit is made of, by a controller that need not run.
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := bed.Admin.RbacV1().RoleBindings(s.hostile).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(bed.AdminREST)
	c.Impersonate.UserName = user
	var err error
	if s.tenant, err = kubernetes.NewForConfig(c); err != nil {
		return nil, err
	}
	return s, s.admitted(ctx)
}

// admitted waits until the API server's authorizer has seen the attacker's binding.
func (s *attackCluster) admitted(ctx context.Context) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: s.hostile, Verb: "create", Resource: "pods"},
	}}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		got, err := s.tenant.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("ask what the attacker may do: %w", err)
		}
		return got.Status.Allowed, nil
	})
}

// play runs an attack, and tells what came of it.
func (s *attackCluster) play(ctx context.Context, a *attack, profile string) (*figures, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	settled := max(1, int(s.settleFor.Seconds()*float64(s.rate)))
	calm := settled + max(1, int(s.calmFor.Seconds()*float64(s.rate)))
	all := calm + int(s.attackFor.Seconds()*float64(s.rate))
	v, err := newVictims(ctx, s.bed, s.bystanders, all, s.rate)
	if err != nil {
		return nil, err
	}
	before, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	f := &figures{Attack: a.name, Victims: all - calm}
	m := &meter{process: s.scheduler.Process}
	g, in := errgroup.WithContext(ctx)
	v.begin = time.Now()
	metering, stop := context.WithCancel(in)
	g.Go(func() error { m.run(metering); return nil })
	g.Go(func() error { defer stop(); return s.measure(in, v, m, f, calm) })
	g.Go(func() error { return v.come(in) })
	g.Go(func() error {
		if !sleep(in, time.Until(v.due(calm))) {
			return nil
		}
		under, cancel := context.WithDeadline(in, v.due(all))
		defer cancel()
		return a.run(under, s, s.attackFor)
	})
	if profile != "" {
		g.Go(func() error {
			sleep(in, time.Until(v.due(calm)))
			return s.scheduler.Profile(in, s.attackFor, profile)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	f.CalmP50, f.CalmP99, _ = v.latencies(settled, calm)
	f.P50, f.P99, f.Unbound = v.latencies(calm, all)
	after, err := s.leader(ctx)
	f.LeaderStays = err == nil && after == before && s.scheduler.Running()
	return f, nil
}

// measure reads the meters when the phases change.
func (s *attackCluster) measure(ctx context.Context, v *victims, m *meter, f *figures, calm int) error {
	sleep(ctx, time.Until(v.due(calm)))
	_, f.CalmMiB = m.take()
	before := s.count()
	sleep(ctx, time.Until(v.due(len(v.sent))))
	after, seconds := s.count(), s.attackFor.Seconds()
	f.Made, f.Cores = int(after.made-before.made), (after.cpu-before.cpu)/seconds
	f.LogKiB, f.EtcdKiB = (after.log-before.log)/seconds/1024, (after.etcd-before.etcd)/seconds/1024
	v.await(ctx, s.wait)
	f.EndMiB, f.PeakMiB = m.take()
	return ctx.Err()
}

// counts only grow.
type counts struct{ made, cpu, log, etcd float64 }

func (s *attackCluster) count() counts {
	cpu, _ := s.scheduler.CPUSeconds() // of one that has ended there is none
	return counts{made: float64(s.made.Load()), cpu: cpu, log: written(s.scheduler.File), etcd: written(s.bed.OwnTxns())}
}

// leader is who holds the schedulers' Lease, and how often that has changed.
func (s *attackCluster) leader(ctx context.Context) (string, error) {
	l, err := s.bed.Admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "kube-scheduler", metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil || l.Spec.LeaseTransitions == nil {
		return "", fmt.Errorf("the schedulers' Lease %v: %w", l, err)
	}
	return fmt.Sprintf("%s, transition %d", *l.Spec.HolderIdentity, *l.Spec.LeaseTransitions), nil
}

// one measures an attack on one side, on a control plane of its own.
func (o *options) one(ctx context.Context, data, programs, dir, side string, a *attack) (*figures, error) {
	bed, err := testbed.Start(ctx, testbed.Config{Dir: dir, Data: data, Programs: programs, NoAudit: true, OwnEtcd: true})
	if err != nil {
		return nil, err
	}
	defer bed.Close()
	s, err := newAttackCluster(ctx, bed, o.size, a.name)
	if err != nil {
		return nil, err
	}
	if side == bystander {
		s.schedulerName = "somebody-else"
	}
	if a.before != nil {
		if err := a.before(ctx, s); err != nil {
			return nil, err
		}
	}
	if s.scheduler, err = startScheduler(ctx, bed, side, o.localWorkers); err != nil {
		return nil, err
	}
	defer testbed.Stop(s.scheduler.Process)
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	profile := ""
	if o.profiles != "" {
		profile = filepath.Join(o.profiles, a.name+"-"+side+".pprof")
	}
	f, err := s.play(ctx, a, profile)
	if err == nil {
		f.Side = side
	}
	return f, err
}

// settle returns when the scheduler has bound a pod: a scheduler says that it is ready before it leads.
func (s *attackCluster) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, testbed.Patience)
	defer cancel()
	const name = "first"
	if err := s.bed.Create(ctx, build.Pod(name).Namespace(s.bystanders).CPU("10m").Obj()); err != nil {
		return err
	}
	_, err := s.bed.Pods.Until(ctx, "are bound", func(p *v1.Pod) bool { return testbed.IsBound(p) }, s.bystanders+"/"+name)
	return err
}
