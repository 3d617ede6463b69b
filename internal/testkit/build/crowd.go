package build

import (
	"fmt"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// CrowdSize says how much there is of what.
type CrowdSize struct {
	Nodes, Present, Pending int
	// Kinds of pods: few make for many that are about each other.
	Kinds int
	// Nominated is how many of a hundred pending pods are nominated to a node.
	Nominated int
	// Claims lets pods have claims and disks.
	Claims bool
}

// Crowd makes a small cluster whose pods are about each other: a few kinds, many of each,
// that spread, want near and apart, share claims and take what others leave, on nodes
// of which some lack a label, or share one that others have for themselves. Equal
// sources give equal clusters.
func Crowd(r *rand.Rand, size CrowdSize) Cluster {
	c := crowd{Rand: r, size: size}
	c.plain()
	for i := range size.Nodes {
		c.addNode(i)
	}
	if size.Claims {
		c.storage()
	}
	for i := range max(size.Kinds, 1) {
		c.kinds = append(c.kinds, c.kind(i))
	}
	for i := range size.Present {
		p := c.pod(fmt.Sprintf("present-%d", i))
		p.Spec.NodeName = c.node()
		if chance(r, 15) {
			at := metav1.Unix(1, 0)
			p.DeletionTimestamp = &at
		}
		c.out.Present = append(c.out.Present, p)
	}
	for i := range size.Pending {
		p := c.pod(fmt.Sprintf("pod-%d", i))
		if chance(r, size.Nominated) {
			p.Status.NominatedNodeName = c.node()
		}
		c.out.Pending = append(c.out.Pending, p)
	}
	return c.out
}

// crowd is a cluster in the making.
type crowd struct {
	*rand.Rand
	size  CrowdSize
	out   Cluster
	kinds []kind
	// hostnames says what nodes have for a hostname: 0 their own, 1 some have none, 2 some
	// share one.
	hostnames    int
	zones, racks int
	claims       int
}

// kind makes pods that differ in little.
type kind struct {
	pod func(name string) *PodBuilder
	// claim gives each pod a claim of its own; nil: none.
	claim func(c *crowd, name, namespace string)
}

func (c *crowd) add(list ...objects.Object) { c.out.Others = append(c.out.Others, list...) }

// oneIn is true once in n times.
func (c *crowd) oneIn(n int) bool { return c.IntN(n) == 0 }

// node names a node, or now and then one that is not there.
func (c *crowd) node() string { return fmt.Sprintf("node-%d", c.IntN(c.size.Nodes+1)) }

// plain makes what pods may belong to.
func (c *crowd) plain() {
	c.hostnames = oneOf(c.Rand, 0, 0, 0, 1, 2)
	c.zones, c.racks = 1+c.IntN(3), 1+c.IntN(4)
	c.add(Namespace("default", "team", "a"), Namespace("other", "team", "b"))
	if c.oneIn(2) {
		c.add(Service("default", "web", "app", "a"))
	}
	if c.oneIn(3) {
		c.add(Service("other", "web", "app", "b"))
	}
	if c.oneIn(2) {
		c.add(ReplicaSet("default", "rs", "app in (a,b)"))
	}
}

func (c *crowd) addNode(i int) {
	name := fmt.Sprintf("node-%d", i)
	b := Node(name).CPU(oneOf(c.Rand, "4", "8", "16")).Memory(oneOf(c.Rand, "4Gi", "16Gi")).Pods(oneOf(c.Rand, "4", "8", "20"))
	switch {
	case c.hostnames == 1 && c.oneIn(4):
	case c.hostnames == 2 && c.oneIn(3):
		b.Label(v1.LabelHostname, "shared")
	default:
		b.Label(v1.LabelHostname, name)
	}
	if !c.oneIn(6) {
		b.Zone(fmt.Sprintf("z%d", c.IntN(c.zones)))
	}
	if !c.oneIn(4) {
		b.Label("rack", fmt.Sprintf("r%d", c.IntN(c.racks)))
	}
	for _, t := range []string{"slow:PreferNoSchedule", "dedicated:NoSchedule"} {
		if c.oneIn(8) {
			b.Taint(t)
		}
	}
	n := b.Obj()
	if !c.oneIn(3) {
		n.Status.DeclaredFeatures = []string{"RestartAllContainersOnContainerExits"}
	}
	c.out.Nodes = append(c.out.Nodes, n)
}

// topologyKey is one that most nodes have, and now and then one that none has.
func (c *crowd) topologyKey() string {
	return oneOf(c.Rand, v1.LabelTopologyZone, v1.LabelTopologyZone, v1.LabelHostname, v1.LabelHostname, v1.LabelHostname,
		"rack", "rack", "nowhere")
}

// apps are the values of the label app.
var apps = []string{"a", "b", "c"}

// selector is one about the label app, most often of the pods' own.
func (c *crowd) selector(own string) *metav1.LabelSelector {
	switch c.IntN(10) {
	case 0:
		return nil
	case 1:
		return Selector("")
	case 2, 3:
		return Selector("app=" + oneOf(c.Rand, apps...))
	case 4:
		return Selector("app notin (" + oneOf(c.Rand, apps...) + ")")
	}
	return Selector("app=" + own)
}

func (c *crowd) constraint(app string) Constraint {
	x := Hard(c.topologyKey(), int32(1+c.IntN(2)), "")
	x.LabelSelector = c.selector(app)
	if c.oneIn(2) {
		x.WhenUnsatisfiable = v1.ScheduleAnyway
	} else if c.oneIn(3) {
		domains := int32(1 + c.IntN(4))
		x.MinDomains = &domains
	}
	if c.oneIn(4) {
		policy := oneOf(c.Rand, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore)
		x.NodeAffinityPolicy = &policy
	}
	if c.oneIn(4) {
		policy := oneOf(c.Rand, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore)
		x.NodeTaintsPolicy = &policy
	}
	if c.oneIn(5) && x.LabelSelector != nil {
		x.MatchLabelKeys = []string{"version"}
	}
	return x
}

func (c *crowd) term(app string) PodTerm {
	t := Around(c.topologyKey(), "")
	t.LabelSelector = c.selector(app)
	switch c.IntN(8) {
	case 0:
		t.Namespaces = []string{"other"}
	case 1:
		t.NamespaceSelector = Selector(oneOf(c.Rand, "", "team=a", "team=b", "team in (a,b)", "team notin (a)"))
	case 2:
		t.Namespaces = []string{"default"}
		t.NamespaceSelector = Selector("team=b")
	}
	return t
}

// kind draws a kind of pods.
func (c *crowd) kind(i int) kind {
	var rules []func(*PodBuilder)
	rule := func(f func(*PodBuilder)) { rules = append(rules, f) }
	app, namespace := oneOf(c.Rand, apps...), oneOf(c.Rand, "default", "default", "default", "other")
	cpu, priority := oneOf(c.Rand, "", "100m", "500m", "1500m"), oneOf[int32](c.Rand, 0, 0, 0, 10)
	rule(func(b *PodBuilder) {
		if cpu != "" {
			b.CPU(cpu)
		}
		b.Namespace(namespace).Label("app", app).Priority(priority)
	})
	if c.oneIn(4) {
		rule(func(b *PodBuilder) { b.Label("version", oneOf(c.Rand, "1", "2")) })
	}
	for range 1 + c.IntN(3) {
		rule(c.rule(app))
	}
	out := kind{pod: func(name string) *PodBuilder {
		b := Pod(fmt.Sprintf("kind-%d-%s", i, name))
		for _, f := range rules {
			f(b)
		}
		return b
	}}
	if c.size.Claims && c.oneIn(2) {
		out.claim = c.ownClaim()
	} else if c.size.Claims && c.oneIn(2) {
		rule(c.mount(namespace))
	}
	return out
}

// rule draws one thing that the pods of a kind ask for.
func (c *crowd) rule(app string) func(*PodBuilder) {
	x, t, weight := c.constraint(app), c.term(app), int32(1+c.IntN(100))
	switch c.IntN(20) {
	case 0, 1, 2, 13, 14:
		return func(b *PodBuilder) { spreadOnce(b, x) }
	case 3:
		t = Around(t.TopologyKey, "app="+app) // the first may go anywhere, the others follow
		return func(b *PodBuilder) { b.Near(t) }
	case 4:
		return func(b *PodBuilder) { b.Near(t) }
	case 5, 6, 15:
		return func(b *PodBuilder) { b.Apart(t) }
	case 7, 16:
		return func(b *PodBuilder) { b.PreferNear(weight, t) }
	case 8, 17:
		return func(b *PodBuilder) { b.PreferApart(weight, t) }
	case 9:
		zone := Labels(Match(v1.LabelTopologyZone, v1.NodeSelectorOpIn, "z0", "z2"))
		if c.oneIn(2) {
			return func(b *PodBuilder) { b.Required(zone) }
		}
		return func(b *PodBuilder) { b.Preferred(weight, zone) }
	case 10:
		return func(b *PodBuilder) { b.Toleration("dedicated:NoSchedule") }
	case 11, 18:
		return func(b *PodBuilder) { b.Owner("apps/v1", "ReplicaSet", "rs") }
	case 12:
		return func(b *PodBuilder) { b.HostPort("", "", 80) }
	}
	return restartsAll
}

// spreadOnce adds a constraint unless the pod has one of its topology key and action: an API
// server lets no pod have two.
func spreadOnce(b *PodBuilder, x Constraint) {
	if !slices.ContainsFunc(b.pod.Spec.TopologySpreadConstraints, func(c Constraint) bool {
		return c.TopologyKey == x.TopologyKey && c.WhenUnsatisfiable == x.WhenUnsatisfiable
	}) {
		b.Spread(x)
	}
}

// restartsAll makes a pod need a feature that nodes must declare.
func restartsAll(b *PodBuilder) {
	k := b.last()
	never := v1.ContainerRestartPolicyNever
	k.RestartPolicy = &never
	k.RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
}

// pod makes a pod of one of the kinds.
func (c *crowd) pod(name string) *v1.Pod {
	k := c.kinds[c.IntN(len(c.kinds))]
	b := k.pod(name)
	if k.claim != nil {
		claim := "own-" + name
		b.Claim(claim)
		k.claim(c, claim, b.pod.Namespace)
	}
	p := b.Obj()
	p.UID = "uid-" + p.UID
	return p
}

const csiDriver = "csi.test"

// storage makes classes and volumes, and says how many a node takes.
func (c *crowd) storage() {
	c.add(WaitingClass("local", ""), WaitingClass("made", csiDriver), StorageClass("now", csiDriver))
	if c.oneIn(3) {
		yes := true
		c.add(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: csiDriver}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &yes}})
		for i := range c.zones {
			c.add(c.capacity(i))
		}
	}
	for _, n := range c.out.Nodes {
		if !c.oneIn(3) {
			limits := CSINode(n.Name, csiDriver, int32(1+c.IntN(4)))
			if c.oneIn(2) {
				one := int32(1)
				limits.Spec.Drivers = append(limits.Spec.Drivers, storagev1.CSINodeDriver{
					Name: "pd.csi.storage.gke.io", NodeID: n.Name, Allocatable: &storagev1.VolumeNodeResources{Count: &one},
				})
			}
			c.add(limits)
		}
	}
	for i := range 1 + c.IntN(12) {
		v := Volume(fmt.Sprintf("free-%d", i), "local").Size(oneOf(c.Rand, "1Gi", "2Gi", "5Gi"))
		switch c.IntN(4) {
		case 0:
			v.On(v1.LabelTopologyZone, fmt.Sprintf("z%d", c.IntN(c.zones)))
		case 1, 2:
			v.On(v1.LabelHostname, c.node())
		}
		if c.oneIn(2) {
			v.CSI(csiDriver, v.volume.Name)
		}
		c.add(v.Obj())
	}
}

// capacity says how much can be made in a zone.
func (c *crowd) capacity(zone int) *storagev1.CSIStorageCapacity {
	size := resource.MustParse(oneOf(c.Rand, "512Mi", "10Gi"))
	return &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Name: fmt.Sprintf("capacity-%d", zone), Namespace: "default"},
		StorageClassName: "made",
		NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: fmt.Sprintf("z%d", zone)}},
		Capacity:         &size,
	}
}

// ownClaim draws what the claims are like that each pod of a kind has for itself.
func (c *crowd) ownClaim() func(c *crowd, name, namespace string) {
	class := oneOf(c.Rand, "local", "local", "local", "made", "made", "made", "bound", "bound", "bound", "now")
	size := oneOf(c.Rand, "1Gi", "1Gi", "2Gi")
	return func(c *crowd, name, namespace string) {
		b := Claim(name, class).Namespace(namespace).Size(size)
		if class == "bound" {
			c.bind(b)
		}
		c.add(b.Obj())
	}
}

// bind gives a claim a volume.
func (c *crowd) bind(b *ClaimBuilder) {
	c.claims++
	v := Volume(fmt.Sprintf("bound-%d", c.claims), "")
	if !c.oneIn(3) {
		v.CSI(csiDriver, v.volume.Name)
	}
	switch c.IntN(4) {
	case 0:
		v.On(v1.LabelTopologyZone, "z0", "z1")
	case 1:
		v.Label(v1.LabelTopologyZone, "z0__z2")
	}
	c.add(v.Bound(b.Bound(v.volume.Name).Obj()).Obj())
}

// mount draws what the pods of a kind share.
func (c *crowd) mount(namespace string) func(*PodBuilder) {
	c.claims++
	b := Claim(fmt.Sprintf("shared-%d", c.claims), "local").Namespace(namespace)
	switch c.IntN(16) {
	case 0, 1:
		return func(b *PodBuilder) {
			b.Mount(v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}})
		}
	case 2, 3:
		return func(b *PodBuilder) {
			disk := oneOf(c.Rand, "pd-1", "pd-2")
			b.Mount(v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: disk, ReadOnly: true}})
		}
	case 4, 5:
		b.Mode(v1.ReadWriteOncePod)
		c.bind(b)
	case 6:
		b.Mode(v1.ReadWriteOncePod)
	case 7, 8, 9:
		c.bind(b)
	case 10, 11:
		b = Claim(b.claim.Name, "made").Namespace(namespace)
	case 12:
		return func(b *PodBuilder) { b.Claim("missing") }
	}
	claim := b.Obj()
	c.add(claim)
	return func(b *PodBuilder) { b.Claim(claim.Name) }
}
