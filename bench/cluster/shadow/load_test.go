package shadow

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// How much there is: waves times perWave pods.
const (
	nodes   = 300
	waves   = 6
	perWave = 120
	// crowded are the nodes whose pods have to leave for more important ones.
	crowded = 12
)

// crowd is a cluster in which pods come and go, and nodes change.
type crowd struct {
	*testbed.Cluster
	random *rand.Rand
	prefix string          // of the pods' names
	pods   int             // how many were made
	alive  map[string]bool // pods that nobody has deleted, by namespace/name
}

func newCrowd(c *testbed.Cluster, prefix string, seed uint64) *crowd {
	return &crowd{Cluster: c, random: rand.New(rand.NewPCG(seed, 5)), prefix: prefix, alive: map[string]bool{}}
}

// fill creates the nodes, a Service whose pods spread by default, and classes of volumes.
func (c *crowd) fill() {
	c.T.Helper()
	web := build.Service("default", "web", "app", "web")
	web.Spec.Ports = []v1.ServicePort{{Port: 80}}
	all := []runtime.Object{web, build.WaitingClass("made", testbed.Provisioner), build.WaitingClass("there", "")}
	for i := range nodes {
		name := fmt.Sprintf("n%03d", i)
		kind := i % 3
		if i < crowded {
			kind = 0
		}
		size := []struct{ cpu, memory, pods string }{{"4", "16Gi", "10"}, {"8", "32Gi", "16"}, {"16", "64Gi", "24"}}[kind]
		b := build.Node(name).CPU(size.cpu).Memory(size.memory).Pods(size.pods).Zone(zone(i/3)).Label(v1.LabelHostname, name).
			Label("disk", []string{"ssd", "spinning"}[i%2])
		switch {
		case i < crowded:
			b.Label("pool", "crowded").Taint("pool=crowded:NoSchedule")
		case i%10 == 4:
			b.Taint("dedicated=batch:NoSchedule")
		case i%10 == 7:
			b.Taint("old=yes:PreferNoSchedule")
		}
		all = append(all, b.Obj())
	}
	for i := range 3 * waves {
		v := build.Volume(fmt.Sprint("disk-", i), "there").CSI("disk.example", fmt.Sprint("disk-", i)).On(v1.LabelTopologyZone, zone(i)).Obj()
		v.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		all = append(all, v)
	}
	c.CreateAll(all...)
}

func zone(i int) string { return fmt.Sprintf("zone-%c", 'a'+i%3) }

// crowdPool fills the crowded nodes with unimportant pods.
func (c *crowd) crowdPool() {
	c.T.Helper()
	for j := range 3 {
		var all []runtime.Object
		var keys []string
		for i := range crowded {
			name := fmt.Sprintf("%slow-%d-%d", c.prefix, i, j)
			all = append(all, inPool(build.Pod(name).CPU("1200m").Priority(int32(10*j))))
			keys = append(keys, "default/"+name)
		}
		c.CreateAll(all...)
		c.Until("are bound", testbed.IsBound, keys...)
	}
}

// inPool has a pod go to the crowded nodes. It leaves at once when it has to: there is a kubelet.
func inPool(b *build.PodBuilder) *v1.Pod {
	p := b.Toleration("pool=crowded:NoSchedule").NodeSelector("pool", "crowded").Obj()
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	return p
}

// run has the waves come, and returns when every pod that is left has a node or was found none for.
func (c *crowd) run() {
	c.T.Helper()
	for range waves {
		var wave []runtime.Object
		var born []string
		for range perWave {
			all := c.pod()
			wave = append(wave, all[:len(all)-1]...)
			born = append(born, "default/"+all[len(all)-1].(*v1.Pod).Name)
			wave = append(wave, all[len(all)-1])
		}
		came := make(chan error, 1)
		ctx := c.Context()
		c.Go(func(context.Context) { came <- c.Bed.CreateAll(ctx, wave...) })
		for range nodes / 50 {
			c.changeNode()
		}
		c.losePods(slices.Sorted(maps.Keys(c.alive)))
		if err := <-came; err != nil {
			c.T.Fatal(err)
		}
		for _, key := range born {
			c.alive[key] = true
		}
	}
	last := build.Pod(c.prefix + "-last").Obj()
	last.Spec.SchedulerName = "nobody"
	c.Create(last)
	c.Until("have come", func(p *v1.Pod) bool { return p != nil }, "default/"+last.Name)
	decided := func(p *v1.Pod) bool { // one that is gone had to leave its node
		return testbed.IsGone(p) || testbed.IsBound(p) || testbed.IsUnschedulable(p)
	}
	c.Until("are decided", decided, slices.Sorted(maps.Keys(c.alive))...)
}

// pod makes up the next pod, last, after what it needs.
func (c *crowd) pod() (all []runtime.Object) {
	kind, group := c.pods%18, fmt.Sprintf("g%d", c.random.IntN(4))
	name := fmt.Sprintf("%s%04d", c.prefix, c.pods)
	b := build.Pod(name).CPU(fmt.Sprintf("%dm", 100+50*c.random.IntN(14))).Memory(fmt.Sprintf("%dMi", 256*(1+c.random.IntN(6))))
	c.pods++
	switch kind {
	case 0, 1, 2: // plain
	case 3, 4:
		b.Label("app", "web") // spread by default
	case 5:
		b.Label("spread", group).Spread(build.Hard(v1.LabelTopologyZone, 1, "spread="+group))
	case 6:
		b.Label("spread", group).Spread(build.Hard(v1.LabelHostname, 1, "spread="+group), build.Soft(v1.LabelTopologyZone, 1, "app=web"))
	case 7:
		b.Label("apart", group).Apart(build.Around(v1.LabelHostname, "apart="+group))
	case 8:
		b.Label("lonely", group).Apart(build.Around(v1.LabelTopologyZone, "lonely="+group)) // soon has no zone left
	case 9:
		b.Label("near", group).PreferNear(50, build.Around(v1.LabelTopologyZone, "near="+group)).PreferApart(20, build.Around(v1.LabelHostname, "app=web"))
	case 10:
		b.Required(build.Labels(build.Match("disk", v1.NodeSelectorOpIn, "ssd"))).
			Preferred(30, build.Labels(build.Match(v1.LabelTopologyZone, v1.NodeSelectorOpNotIn, zone(0))))
	case 11:
		b.Toleration("dedicated=batch:NoSchedule").NodeSelector("disk", "ssd")
	case 12:
		b.HostPort("", v1.ProtocolTCP, 8080).NodeSelector(v1.LabelTopologyZone, zone(1))
	case 13:
		b.CPU("17") // no node has that
	case 14:
		b.Priority(50)
	case 15, 16: // all others of a node have to leave for it
		return []runtime.Object{inPool(b.CPU("3").Priority(int32(1000 * (kind - 14))))}
	default:
		class := []string{"made", "there"}[c.pods%2]
		all = append(all, build.Claim(name, class).Obj())
		b.Claim(name)
	}
	return append(all, b.Obj())
}

// changeNode makes a node change.
func (c *crowd) changeNode() {
	c.T.Helper()
	ctx, api := c.Context(), c.Admin.CoreV1().Nodes()
	name := fmt.Sprintf("n%03d", crowded+c.random.IntN(nodes-crowded))
	patch := func(text string, subresources ...string) error {
		_, err := api.Patch(ctx, name, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
		return err
	}
	var err error
	switch c.random.IntN(7) {
	case 0:
		err = patch(`{"spec": {"unschedulable": true}}`)
	case 1:
		err = patch(`{"spec": {"unschedulable": null}}`)
	case 2:
		err = patch(`{"spec": {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]}}`)
	case 3:
		err = patch(fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, v1.LabelTopologyZone, zone(c.random.IntN(3))))
	case 4:
		err = patch(`{"metadata": {"labels": {"disk": "ssd"}}}`)
	case 5:
		err = patch(`{"status": {"allocatable": {"cpu": "3", "pods": "8"}}}`, "status")
	default:
		err = patch(`{"status": {"allocatable": {"cpu": "12", "pods": "20"}}}`, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) {
		c.T.Fatalf("change node %s: %v", name, err)
	}
}

// losePods deletes a few of the pods.
func (c *crowd) losePods(keys []string) {
	c.T.Helper()
	c.random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:min(perWave/20, len(keys))]
	for _, key := range keys {
		delete(c.alive, key)
	}
	c.Delete(keys...)
}
