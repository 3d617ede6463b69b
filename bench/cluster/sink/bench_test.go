package sink

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// cpu is the CPU time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWrites is what a bind and an event cost this process, all included, and how many
// there are in a second; and the same upstream's way. The API server has processes of its own.
//
//	go test -run '^$' -bench Writes -benchtime 3000x ./cluster/sink
func BenchmarkWrites(b *testing.B) {
	c := testbed.New(b, testbed.Config{NoAudit: true})
	c.Create(build.Node("n1").Obj())
	clients := clientsOf(b, c, func() error { return nil })
	cfg, err := clientcmd.BuildConfigFromFlags("", c.CoordinatorKubeconfig)
	if err != nil {
		b.Fatal(err)
	}
	cfg.QPS, cfg.ContentType, cfg.DisableCompression = -1, "application/vnd.kubernetes.protobuf", true
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		b.Fatal(err)
	}
	for _, inFlight := range []int{16, 24, 64} {
		b.Run(fmt.Sprintf("binds/%d in flight", inFlight), func(b *testing.B) {
			binder := kube.NewBinder(kube.BinderConfig{Clients: clients, InFlight: inFlight})
			measure(b, c, func(pods []*v1.Pod) {
				bindings := make([]objects.Binding, len(pods))
				for i, p := range pods {
					bindings[i] = objects.Binding{Pod: p, Node: "n1"}
				}
				binder.Bind(b.Context(), bindings, func(_ int, err error) {
					if err != nil {
						b.Error(err)
					}
				})
			})
		})
	}
	b.Run("binds/client-go", func(b *testing.B) {
		measure(b, c, func(pods []*v1.Pod) {
			var wg sync.WaitGroup
			slots := make(chan struct{}, 64)
			for _, p := range pods {
				slots <- struct{}{}
				wg.Go(func() {
					err := client.CoreV1().Pods(p.Namespace).Bind(b.Context(), &v1.Binding{
						ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
						Target:     v1.ObjectReference{Kind: "Node", Name: "n1"},
					}, metav1.CreateOptions{})
					<-slots
					if err != nil {
						b.Error(err)
					}
				})
			}
			wg.Wait()
		})
	})
	b.Run("events", func(b *testing.B) {
		r := kube.NewReporter(kube.ReporterConfig{Clients: clients, Pod: func(*v1.Pod) *v1.Pod { return nil }, Hostname: "host"})
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx) })
		defer wg.Wait()
		defer cancel()
		measure(b, c, func(pods []*v1.Pod) {
			for _, p := range pods {
				r.Scheduled(p, "n1")
			}
			untilEvents(b, c, len(pods))
		})
	})
	b.Run("events/client-go", func(b *testing.B) {
		w := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
		defer w.Shutdown()
		if err := w.StartRecordingToSinkWithContext(b.Context()); err != nil {
			b.Fatal(err)
		}
		recorder := w.NewRecorder(scheme.Scheme, scheduler)
		measure(b, c, func(pods []*v1.Pod) {
			for _, p := range pods {
				recorder.Eventf(p, nil, v1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %v/%v to %v", p.Namespace, p.Name, "n1")
			}
			untilEvents(b, c, len(pods))
		})
	})
}

// measure makes b.N pods and does something with them.
func measure(b *testing.B, c *testbed.Cluster, do func([]*v1.Pod)) {
	b.StopTimer()
	all := make([]apiruntime.Object, b.N)
	for i := range all {
		p := build.Pod(fmt.Sprintf("p-%05d", i)).Obj()
		p.Spec.SchedulerName = scheduler
		all[i] = p
	}
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	if err := c.Bed.CreateAll(ctx, all...); err != nil {
		b.Fatal(err)
	}
	list, err := c.Admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	pods := make([]*v1.Pod, len(list.Items))
	for i := range pods {
		pods[i] = &list.Items[i]
	}
	runtime.GC()
	before := cpu(b)
	b.StartTimer()
	do(pods)
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	if err := c.Clear(ctx); err != nil {
		b.Fatal(err)
	}
	if err := c.Admin.EventsV1().Events("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		b.Fatal(err)
	}
	c.Create(build.Node("n1").Obj())
}

// untilEvents waits until so many are there, asking for their number only.
func untilEvents(b *testing.B, c *testbed.Cluster, want int) {
	got := 0
	err := wait.PollUntilContextTimeout(b.Context(), 50*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		l, err := c.Admin.EventsV1().Events("default").List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return false, err
		}
		got = len(l.Items)
		if l.RemainingItemCount != nil {
			got += int(*l.RemainingItemCount)
		}
		return got >= want, nil
	})
	switch {
	case wait.Interrupted(err):
		b.Logf("events: got %d, want %d", got, want)
	case err != nil:
		b.Fatal(err)
	}
}
