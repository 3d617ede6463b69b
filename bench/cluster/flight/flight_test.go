package flight

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/submit"
	"github.com/shardsched/shardsched/bench/judge/oracle/conformance"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

var seed = flag.Uint64("seed", 1, "of what comes, changes and goes")

// How much there is: steps times perStep pods.
const (
	nodes   = 100
	steps   = 10
	perStep = 48
)

// crowd is a cluster in which everything changes.
type crowd struct {
	*testbed.Cluster
	random *rand.Rand
	nodes  int             // how many were made
	pods   int             // how many were made
	alive  map[string]bool // pods that nobody has deleted, by namespace/name
}

// TestDecisionsOnARealAPIServerAreUpstreams kills one of two workers midway.
func TestDecisionsOnARealAPIServerAreUpstreams(t *testing.T) {
	t.Logf("seed %d", *seed)
	c := &crowd{
		Cluster: testbed.New(t, testbed.Config{NoAudit: true}),
		random:  rand.New(rand.NewPCG(*seed, 3)), alive: map[string]bool{},
	}
	file := filepath.Join(c.Dir(), "flight.record")
	c.Controllers("resourceclaim", "garbagecollector") // they make claims, free them, and delete them with their pods
	c.fill()
	// One leader decides all: what is held to is one term.
	const long = "leaderElection: {leaseDuration: 120s, renewDeadline: 100s, retryPeriod: 2s}"
	leader := c.Coordinator(testbed.Scheduler{Args: []string{"--record", file}, Config: long})
	killable := c.Worker("worker-0")
	c.Worker("worker-1")
	c.untilWorkers(leader.Listen, 2)

	for step := range steps {
		came := make(chan error, 1)
		batch := c.batch()
		ctx := c.Context()
		c.Go(func(context.Context) { came <- c.Bed.CreateAll(ctx, batch...) })
		switch step {
		case steps / 3:
			killable.Kill()
		case 2 * steps / 3:
			c.Worker("worker-2")
		}
		for range nodes / 4 {
			c.changeNode()
		}
		c.losePods(slices.Sorted(maps.Keys(c.alive)))
		if err := <-came; err != nil {
			t.Fatal(err)
		}
		var born []string
		for _, p := range batch {
			born = append(born, "default/"+p.(*v1.Pod).Name)
			c.alive[born[len(born)-1]] = true
		}
		c.losePods(born) // some while they are being bound
	}
	decided := func(p *v1.Pod) bool { return testbed.IsBound(p) || testbed.IsUnschedulable(p) }
	c.Until("are decided", decided, slices.Sorted(maps.Keys(c.alive))...)
	c.wantAsked(leader)
	testbed.Stop(leader.Process)
	judge(t, file)
}

// wantAsked checks that it was the workers who judged.
func (c *crowd) wantAsked(leader *testbed.SchedulerProcess) {
	c.T.Helper()
	_, text, err := leader.Get(c.Context(), "/metrics", c.AdminToken())
	if err != nil {
		c.T.Fatal(err)
	}
	answered := regexp.MustCompile(`(?m)^shardsched_fanout_requests_total\{.*outcome="answered".*\} (.*)$`).FindStringSubmatch(text)
	if answered == nil {
		c.T.Fatal("got no answers of workers in the metrics, want some")
	}
	if n, err := strconv.ParseFloat(answered[1], 64); err != nil || n < steps {
		c.T.Errorf("got %s answers of workers, %v; want %d or more", answered[1], err, steps)
	}
	c.T.Logf("%s answers of workers", answered[1])
}

// judge replays a record.
func judge(t *testing.T, file string) {
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	flight := &conformance.Flight{Record: in, Most: 10}
	result, err := flight.Replay(klog.NewContext(t.Context(), klog.Logger{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range result.Differences {
		t.Errorf("%v", d)
	}
	if result.Ended != "" {
		t.Errorf("the record ends before its time: %s", result.Ended)
	}
	if result.Decisions <= 400 || result.Refusals < 20 || result.Changes < steps*perStep || result.Terms != 1 || result.Claims < 40 {
		t.Errorf("got %v, want 1 term, more than 400 decisions, 20 refusals, 40 claims given devices and a change for each of %d pods",
			result, steps*perStep)
	}
	t.Log(result)
}

// untilWorkers waits until the leader asks n workers.
func (c *crowd) untilWorkers(leader string, n int) {
	c.T.Helper()
	client, ctx := submit.New(leader), c.Context()
	defer client.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var resp *pb.ListWorkersResponse
		err := client.Do(ctx, func(ctx context.Context, s pb.SchedulerServiceClient) (err error) {
			resp, err = s.ListWorkers(ctx, &pb.ListWorkersRequest{})
			return err
		})
		if err != nil {
			c.T.Fatal(err)
		}
		if len(resp.GetWorkers()) == n {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.T.Fatalf("the leader knows %d workers, want %d: %v", len(resp.GetWorkers()), n, ctx.Err())
		}
	}
}

// fill creates the nodes, and the Service whose pods spread by default.
func (c *crowd) fill() {
	c.T.Helper()
	web := build.Service("default", "web", "app", "web")
	web.Spec.Ports = []v1.ServicePort{{Port: 80}}
	all := append([]runtime.Object{web}, claimable()...)
	for range nodes {
		all = append(all, c.node()...)
	}
	c.CreateAll(all...)
}

// node makes up the next node: of three sizes, in three zones, some with a taint, and every other with devices.
func (c *crowd) node() []runtime.Object {
	name := fmt.Sprintf("n%03d", c.nodes)
	size := []struct{ cpu, memory, pods string }{{"2", "8Gi", "5"}, {"4", "16Gi", "8"}, {"6", "24Gi", "12"}}[c.nodes%3]
	b := build.Node(name).CPU(size.cpu).Memory(size.memory).Pods(size.pods).Zone(zone(c.nodes / 3))
	b.Label(v1.LabelHostname, name).Label("disk", []string{"ssd", "spinning"}[c.nodes%2])
	switch c.nodes % 10 {
	case 4:
		b.Taint("dedicated=batch:NoSchedule")
	case 7:
		b.Taint("old=yes:PreferNoSchedule")
	}
	list := []runtime.Object{b.Obj()}
	if c.nodes%2 == 0 {
		list = append(list, slice(name, 1, 1+c.nodes%3))
	}
	c.nodes++
	return list
}

func zone(i int) string { return fmt.Sprintf("zone-%c", 'a'+i%3) }

// batch makes up the next pods.
func (c *crowd) batch() (list []runtime.Object) {
	for range perStep {
		list = append(list, c.pod())
	}
	return list
}

// pod makes up the next pod.
func (c *crowd) pod() *v1.Pod {
	millis := func(low, high int) string { return fmt.Sprintf("%dm", low+c.random.IntN((high-low)/50)*50) }
	kind, group := c.pods%16, fmt.Sprintf("g%d", c.random.IntN(4))
	b := build.Pod(fmt.Sprintf("p%04d", c.pods)).CPU(millis(100, 900)).Memory("512Mi")
	c.pods++
	switch kind {
	case 0, 1: // plain
	case 2:
		b.Label("app", "web") // spread by default
	case 3:
		b.Label("spread", group).Spread(build.Hard(v1.LabelTopologyZone, 1, "spread="+group))
	case 4:
		b.Label("spread", group).Spread(build.Hard(v1.LabelHostname, 1, "spread="+group), build.Soft(v1.LabelTopologyZone, 1, "app=web"))
	case 5:
		b.Label("apart", group).Apart(build.Around(v1.LabelHostname, "apart="+group))
	case 6:
		b.Label("lonely", group).Apart(build.Around(v1.LabelTopologyZone, "lonely="+group)) // soon has no zone left
	case 7:
		b.Label("near", group).PreferNear(50, build.Around(v1.LabelTopologyZone, "near="+group)).PreferApart(20, build.Around(v1.LabelHostname, "app=web"))
	case 8:
		b.Required(build.Labels(build.Match("disk", v1.NodeSelectorOpIn, "ssd"))).
			Preferred(30, build.Labels(build.Match(v1.LabelTopologyZone, v1.NodeSelectorOpNotIn, zone(0))))
	case 9:
		b.Toleration("dedicated=batch:NoSchedule").NodeSelector("disk", "ssd")
	case 10:
		b.HostPort("", v1.ProtocolTCP, 8080).NodeSelector(v1.LabelTopologyZone, zone(1))
	case 11:
		b.CPU("7") // no node has that, until one is resized
	default:
		ask(b.Obj(), kind-12, group)
	}
	return b.Obj()
}

// changeNode makes a node come, go or change.
func (c *crowd) changeNode() {
	c.T.Helper()
	ctx, api := c.Context(), c.Admin.CoreV1().Nodes()
	name := fmt.Sprintf("n%03d", c.random.IntN(c.nodes))
	patch := func(text string, subresources ...string) error {
		_, err := api.Patch(ctx, name, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
		return err
	}
	var err error
	switch c.random.IntN(16) {
	case 0, 1:
		err = c.Bed.CreateAll(ctx, c.node()...)
	case 2: // its pods stay
		err = api.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	case 3:
		err = patch(`{"spec": {"unschedulable": true}}`)
	case 4:
		err = patch(`{"spec": {"unschedulable": null}}`)
	case 5:
		err = patch(`{"spec": {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]}}`)
	case 6:
		err = patch(`{"spec": {"taints": null}}`)
	case 7:
		err = patch(fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, v1.LabelTopologyZone, zone(c.random.IntN(3))))
	case 8:
		err = patch(`{"metadata": {"labels": {"disk": "ssd"}}}`)
	case 9:
		err = patch(`{"metadata": {"labels": {"disk": null}}}`)
	case 10:
		err = patch(`{"status": {"allocatable": {"cpu": "1500m", "pods": "4"}}}`, "status")
	case 11:
		err = patch(`{"status": {"allocatable": {"cpu": "8", "pods": "16"}}}`, "status")
	default:
		err = c.changeDevices(name)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		c.T.Fatalf("change node %s: %v", name, err)
	}
}

// losePods deletes a few of the pods.
func (c *crowd) losePods(keys []string) {
	c.T.Helper()
	c.random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:min(perStep/10, len(keys))]
	for _, key := range keys {
		delete(c.alive, key)
	}
	c.Delete(keys...)
}
