package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/judge/audit"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// size is how large a cluster is and how fast it lives.
type size struct {
	nodes, pods int
	// rate is how many pods are created a second until there are all, and trickle afterwards.
	rate, trickle float64
	// churn is how many pods are deleted or end a second, and change how many nodes change.
	churn, change float64
	seed          uint64
}

// load is what happens to the cluster besides: pods are created and go, nodes change. It
// remembers what the API server granted.
type load struct {
	s *chaosCluster
	size
	limit *rate.Limiter

	mu      sync.Mutex
	asked   int
	random  *rand.Rand      // guarded by mu
	created []string        // guarded by mu
	deleted map[string]bool // guarded by mu; also those that were to be deleted
	nodes   []string        // guarded by mu
	changes int             // guarded by mu
}

func newLoad(s *chaosCluster, size size) *load {
	return &load{
		s: s, size: size, limit: rate.NewLimiter(rate.Limit(size.rate), 20),
		random: rand.New(rand.NewPCG(size.seed, 0)), deleted: map[string]bool{},
	}
}

// fill creates the nodes, and what chooses pods.
func (l *load) fill() {
	l.s.T.Helper()
	web := build.Service("default", "web", "app", "web")
	web.Spec.Ports = []v1.ServicePort{{Port: 80}}
	l.s.Create(web)
	var all []runtime.Object
	for range l.size.nodes {
		all = append(all, l.node())
	}
	l.s.CreateAll(all...)
}

// node makes up the next node: of three sizes, in three zones, some with a taint.
func (l *load) node() *v1.Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := len(l.nodes)
	s := []struct{ cpu, memory, pods string }{{"2", "8Gi", "6"}, {"4", "16Gi", "9"}, {"6", "24Gi", "14"}}[i%3]
	b := build.Node(fmt.Sprintf("n%05d", i)).CPU(s.cpu).Memory(s.memory).Pods(s.pods).Zone(zone(i / 3))
	b.Label(v1.LabelHostname, fmt.Sprintf("n%05d", i))
	if i%10 == 7 {
		b.Taint("dedicated=batch:NoSchedule")
	}
	l.nodes = append(l.nodes, b.Obj().Name)
	return b.Obj()
}

func zone(i int) string { return fmt.Sprintf("zone-%c", 'a'+i%3) }

// pod makes up the next pod. Together they ask for a little more CPU than there is, and
// for more host ports.
func (l *load) pod() *v1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.random
	b := build.Pod(fmt.Sprintf("p%06d", l.asked)).UID("")
	l.asked++
	millis := func(low, high int) string { return fmt.Sprintf("%dm", low+r.IntN((high-low)/50)*50) }
	mebis := func(low, high int) string { return fmt.Sprintf("%dMi", low+r.IntN((high-low)/64)*64) }
	switch kind := r.IntN(100); {
	case kind < 52:
		b.CPU(millis(300, 1250)).Memory(mebis(512, 4096))
	case kind < 72:
		b.CPU(millis(1500, 2500)).Memory(mebis(1024, 6144)).Init("init", "cpu", "1")
	case kind < 80:
		b.CPU("100m").HostPort([]string{"", "10.0.0.1"}[r.IntN(2)], v1.ProtocolTCP, 8000).NodeSelector(v1.LabelTopologyZone, zone(0))
	case kind < 87:
		group := fmt.Sprintf("g%d", r.IntN(20))
		b.CPU(millis(300, 700)).Label("group", group).Apart(build.Around(v1.LabelHostname, "group="+group))
	case kind < 93:
		b.CPU(millis(500, 1000)).Label("app", "web").Memory("1Gi")
	case kind < 98:
		b.CPU(millis(500, 1500)).Toleration("dedicated=batch:NoSchedule").Sidecar("log", "cpu", "100m")
	default:
		b.CPU("7") // no node has that
	}
	p := b.Obj()
	if r.IntN(2) == 0 {
		p.Spec.SchedulerName = "packer"
	}
	return p
}

// insist asks until the API server has answered; away for a while, or not ready, it is asked again.
func insist(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil || ctx.Err() != nil || isFinal(err) {
			return err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// isFinal tells whether an error is the API server's last word. One that starts waits ten seconds for its own caches and
// forbids then what it can not judge yet: on a slow machine that is too short.
func isFinal(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && status.Status().Code < 429 &&
		!(apierrors.IsForbidden(err) && strings.Contains(err.Error(), "not yet ready to handle request"))
}

// create creates the next pod.
func (l *load) create(ctx context.Context) {
	p := l.pod()
	err := insist(ctx, func() error {
		err := l.s.Bed.Create(ctx, p)
		if apierrors.IsAlreadyExists(err) {
			return nil // an earlier try was granted
		}
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			l.s.T.Error(err)
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.created = append(l.created, "default/"+p.Name)
	if len(l.created) == l.size.pods {
		l.limit.SetLimit(rate.Limit(l.size.trickle))
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.created)
}

// run does all of it until ctx ends.
func (l *load) run(ctx context.Context) {
	var g sync.WaitGroup
	for range 16 {
		g.Go(func() {
			for l.limit.Wait(ctx) == nil {
				l.create(ctx)
			}
		})
	}
	every := func(perSecond float64, do func(context.Context)) {
		g.Go(func() {
			tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					do(ctx)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	every(l.churn, l.lose)
	every(l.change, l.changeNode)
	g.Wait()
}

// lose takes a pod away, in one of the ways in which pods go.
func (l *load) lose(ctx context.Context) {
	l.mu.Lock()
	if len(l.created) == 0 {
		l.mu.Unlock()
		return
	}
	key, how := l.created[l.random.IntN(len(l.created))], l.random.IntN(3)
	p := l.s.Pods.Get(key)
	if p == nil || p.DeletionTimestamp != nil || how == 0 && p.Status.Phase != v1.PodRunning {
		l.mu.Unlock()
		return
	}
	if how > 0 {
		l.deleted[key] = true
	}
	l.mu.Unlock()
	pods := l.s.Admin.CoreV1().Pods(p.Namespace)
	err := insist(ctx, func() (err error) {
		switch how {
		case 0:
			_, err = pods.Patch(ctx, p.Name, types.MergePatchType, []byte(`{"status": {"phase": "Succeeded"}}`), metav1.PatchOptions{}, "status")
		case 1:
			err = pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		default: // the kubelet has the last word
			err = pods.Delete(ctx, p.Name, metav1.DeleteOptions{})
		}
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		l.s.T.Error(err)
	}
}

// changeNode makes a node come, go or change.
func (l *load) changeNode(ctx context.Context) {
	l.mu.Lock()
	how, name := l.random.IntN(10), l.nodes[l.random.IntN(len(l.nodes))]
	l.changes++
	l.mu.Unlock()
	nodes := l.s.Admin.CoreV1().Nodes()
	patch := func(text string, subresources ...string) func() error {
		return func() error {
			_, err := nodes.Patch(ctx, name, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
			return err
		}
	}
	var do func() error
	switch how {
	case 0, 1:
		n := l.node()
		do = func() error { return l.s.Bed.Create(ctx, n) }
	case 2:
		do = func() error { return nodes.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}) }
	case 3, 4:
		do = patch(`{"spec": {"unschedulable": true}}`)
	case 5, 6, 7:
		do = patch(`{"spec": {"unschedulable": null}}`)
	case 8:
		do = patch(`{"status": {"allocatable": {"cpu": "1500m"}}}`, "status")
	default:
		do = patch(`{"status": {"allocatable": {"cpu": "6", "pods": "12"}}}`, "status")
	}
	err := insist(ctx, do)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
		l.s.T.Errorf("change node %s: %v", name, err)
	}
	if how == 2 && err == nil {
		l.collect(ctx, name)
	}
}

// collect takes the pods of a node away that is gone, as the controller for that does.
func (l *load) collect(ctx context.Context, node string) {
	for _, p := range l.s.Pods.All() {
		if p.Spec.NodeName != node {
			continue
		}
		key := p.Namespace + "/" + p.Name
		l.mu.Lock()
		l.deleted[key] = true
		l.mu.Unlock()
		err := insist(ctx, func() error {
			return l.s.Admin.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		})
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			l.s.T.Error(err)
		}
	}
}

// claims are what was granted so far.
func (l *load) claims() audit.Claims {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := audit.Claims{Created: append([]string(nil), l.created...), Deleted: map[string]bool{}}
	for key := range l.deleted {
		c.Deleted[key] = true
	}
	return c
}

func TestWhatAnAPIServerSaysWhileItStartsIsNotItsLastWord(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for what, c := range map[string]struct {
		err  error
		want bool
	}{
		"forbidden":           {apierrors.NewForbidden(pods, "p", errors.New("no")), true},
		"a conflict, wrapped": {fmt.Errorf("pod default/p: %w", apierrors.NewConflict(pods, "p", errors.New("no"))), true},
		"not ready":           {apierrors.NewForbidden(pods, "p", errors.New("not yet ready to handle request")), false},
		"too many requests":   {apierrors.NewTooManyRequestsError("no"), false},
		"no connection":       {errors.New("connection refused"), false},
	} {
		if got := isFinal(c.err); got != c.want {
			t.Errorf("%s: got %v, want %v", what, got, c.want)
		}
	}
}
