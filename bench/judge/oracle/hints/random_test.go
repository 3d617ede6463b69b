package hints

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// random draws objects from few words, so that they meet often.
type random struct{ *rand.Rand }

func (r random) chance(percent int) bool { return r.IntN(100) < percent }

func oneOf[T any](r random, list ...T) T { return list[r.IntN(len(list))] }

func ptr[T any](x T) *T { return &x }

func (r random) labels() map[string]string {
	out := map[string]string{}
	for _, k := range []string{"app", "tier", "hash"} {
		if r.chance(50) {
			out[k] = oneOf(r, "a", "b")
		}
	}
	return out
}

func (r random) selector() *metav1.LabelSelector {
	key := oneOf(r, "app", "tier", "hash")
	switch r.IntN(12) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2:
		return requirement(key, metav1.LabelSelectorOpExists)
	case 3:
		return requirement(key, metav1.LabelSelectorOpDoesNotExist)
	case 4:
		return requirement(key, metav1.LabelSelectorOpNotIn, "a")
	case 5:
		if r.chance(20) {
			return requirement(key, "Equals", "a") // can not be read
		}
		return requirement(key, metav1.LabelSelectorOpIn, "a", "b")
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: oneOf(r, "a", "b")}}
}

func requirement(key string, op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func (r random) pod(name string) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = name, oneOf(r, "x", "y"), types.UID(name)
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	p.Spec.Containers = []v1.Container{{Name: "c"}}
	for range 12 {
		r.changePod(p)
	}
	return p
}

// changePod changes one thing of a pod.
func (r random) changePod(p *v1.Pod) {
	c := &p.Spec.Containers[0]
	switch r.IntN(16) {
	case 0, 1:
		p.Labels = r.labels()
	case 2:
		p.Spec.Tolerations = r.tolerations()
	case 3:
		c.Resources.Requests = v1.ResourceList{}
		for _, name := range []v1.ResourceName{"cpu", "memory", "example.com/gpu"} {
			if r.chance(50) {
				c.Resources.Requests[name] = resource.MustParse(oneOf(r, "1", "2", "3"))
			}
		}
	case 4:
		c.Ports = nil
		if r.chance(70) {
			c.Ports = []v1.ContainerPort{{HostPort: oneOf[int32](r, 0, 80, 81), HostIP: oneOf(r, "", "1.2.3.4", "0.0.0.0"), Protocol: oneOf(r, v1.ProtocolTCP, v1.ProtocolUDP)}}
		}
	case 5:
		p.Spec.NodeSelector = nil
		if r.chance(50) {
			p.Spec.NodeSelector = map[string]string{oneOf(r, "zone", "host"): oneOf(r, "1", "2")}
		}
	case 6:
		p.Spec.Affinity = r.affinity()
	case 7, 8:
		p.Spec.TopologySpreadConstraints = r.constraints()
	case 9, 10:
		p.Spec.Volumes = nil
		for i := range r.IntN(3) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", i), VolumeSource: r.volume()})
		}
	case 11:
		p.Spec.HostNetwork, p.Spec.HostUsers = r.chance(70), oneOf(r, nil, ptr(true), ptr(false))
	case 12:
		c.RestartPolicyRules = nil
		if r.chance(50) {
			c.RestartPolicyRules = []v1.ContainerRestartRule{{Action: oneOf(r, v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers)}}
		}
	case 13:
		p.Status.ResourceClaimStatuses = nil
		if r.chance(50) {
			p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: oneOf(r, "a", "b")}}
		}
	case 14:
		p.Annotations = map[string]string{"any": oneOf(r, "a", "b")}
	}
}

func (r random) tolerations() []v1.Toleration {
	var out []v1.Toleration
	for range r.IntN(3) {
		out = append(out, v1.Toleration{
			Key: oneOf(r, "", "a", "b", v1.TaintNodeUnschedulable), Operator: v1.TolerationOpExists,
			Effect: oneOf(r, "", v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute),
		})
	}
	return out
}

func (r random) affinity() *v1.Affinity {
	if r.chance(20) {
		return nil
	}
	terms := func() (out []v1.PodAffinityTerm) {
		for range r.IntN(3) {
			t := v1.PodAffinityTerm{LabelSelector: r.selector(), TopologyKey: oneOf(r, "zone", "host")}
			if r.chance(30) {
				t.Namespaces = []string{oneOf(r, "x", "y")}
			}
			if r.chance(30) {
				t.NamespaceSelector = r.selector()
			}
			out = append(out, t)
		}
		return out
	}
	a := &v1.Affinity{
		PodAffinity:     &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms()},
		PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms()},
	}
	if r.chance(50) {
		a.NodeAffinity = &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{
				Key: oneOf(r, "zone", "host"), Operator: oneOf(r, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpGt), Values: []string{oneOf(r, "1", "2", "z")},
			}},
		}}}}
	}
	return a
}

func (r random) constraints() []v1.TopologySpreadConstraint {
	var out []v1.TopologySpreadConstraint
	for range r.IntN(3) {
		c := v1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: oneOf(r, "zone", "host"), LabelSelector: r.selector(),
			WhenUnsatisfiable: oneOf(r, v1.DoNotSchedule, v1.DoNotSchedule, v1.ScheduleAnyway),
			NodeTaintsPolicy:  oneOf(r, nil, ptr(v1.NodeInclusionPolicyHonor), ptr(v1.NodeInclusionPolicyIgnore)),
		}
		if r.chance(30) {
			c.MatchLabelKeys = []string{oneOf(r, "app", "hash")}
		}
		out = append(out, c)
	}
	return out
}

func (r random) volume() v1.VolumeSource {
	var s v1.VolumeSource
	id, readOnly := oneOf(r, "a", "b"), r.chance(50)
	switch r.IntN(13) {
	case 0:
		s.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: id, ReadOnly: readOnly}
	case 1:
		s.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: oneOf(r, "vol-1", "aws://z/vol-1", "aws://z/disk", "aws:///vol-1/", "aws://z/vol-%zz"), ReadOnly: readOnly}
	case 2:
		s.ISCSI = &v1.ISCSIVolumeSource{IQN: id, ReadOnly: readOnly}
	case 3:
		s.RBD = &v1.RBDVolumeSource{CephMonitors: oneOf(r, []string{"m"}, []string{"m", "n"}, []string{"o"}), RBDPool: id, RBDImage: oneOf(r, "i", "j"), ReadOnly: readOnly}
	case 4:
		s.Cinder = &v1.CinderVolumeSource{VolumeID: id}
	case 5:
		s.AzureDisk = &v1.AzureDiskVolumeSource{Kind: oneOf(r, nil, ptr(v1.AzureManagedDisk), ptr(v1.AzureSharedBlobDisk), ptr[v1.AzureDataDiskKind]("managed"))}
	case 6:
		s.AzureFile = &v1.AzureFileVolumeSource{ShareName: id}
	case 7:
		s.VsphereVolume = &v1.VsphereVirtualDiskVolumeSource{VolumePath: id}
	case 8:
		s.PortworxVolume = &v1.PortworxVolumeSource{VolumeID: id}
	case 9:
		s.CSI = &v1.CSIVolumeSource{Driver: oneOf(r, "d", "e")}
	case 10:
		s.Ephemeral = &v1.EphemeralVolumeSource{}
	default:
		s.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: oneOf(r, "c", "d", "waiting-v0")}
	}
	return s
}

func (r random) node(name string) *v1.Node {
	n := &v1.Node{}
	n.Name = name
	for range 8 {
		r.changeNode(n)
	}
	return n
}

// changeNode changes one thing of a node.
func (r random) changeNode(n *v1.Node) {
	switch r.IntN(8) {
	case 0, 1:
		n.Labels = map[string]string{}
		for _, k := range []string{"zone", "host", "other"} {
			if r.chance(60) {
				n.Labels[k] = oneOf(r, "1", "2")
			}
		}
	case 2:
		n.Spec.Taints = nil
		for range r.IntN(3) {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: oneOf(r, "a", "b"), Effect: oneOf(r, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule)})
		}
	case 3:
		n.Spec.Unschedulable = r.chance(50)
	case 4:
		n.Status.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse(oneOf(r, "0", "1", "2"))}
		for _, name := range []v1.ResourceName{"cpu", "memory", "example.com/gpu"} {
			if r.chance(80) {
				n.Status.Allocatable[name] = resource.MustParse(oneOf(r, "1", "2", "3", "4"))
			}
		}
	case 5:
		n.Status.DeclaredFeatures = oneOf(r, nil, []string{"a"}, []string{"a", "b"})
	case 6:
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: oneOf(r, v1.ConditionTrue, v1.ConditionFalse)}}
	case 7:
		n.Annotations = map[string]string{"any": oneOf(r, "a", "b")}
	}
}

func (r random) claim() *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{}
	c.Namespace, c.Name = oneOf(r, "x", "y"), oneOf(r, "c", "d", "waiting-v0", "waiting-v1")
	return c
}

func (r random) persistentVolume() *v1.PersistentVolume {
	v := &v1.PersistentVolume{}
	v.Name, v.Labels = "pv", map[string]string{}
	for _, k := range []string{v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, "other"} {
		if r.chance(30) {
			v.Labels[k] = oneOf(r, "a", "b", "a__b", "b__a", "a__", "", " a ")
		}
	}
	return v
}

func (r random) storageClass() *storagev1.StorageClass {
	c := &storagev1.StorageClass{VolumeBindingMode: oneOf(r, nil, ptr(storagev1.VolumeBindingImmediate), ptr(storagev1.VolumeBindingWaitForFirstConsumer))}
	c.Name = "sc"
	if r.chance(50) {
		c.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{oneOf(r, "1", "2")}}}}}
	}
	return c
}

func (r random) csiNode() *storagev1.CSINode {
	n := &storagev1.CSINode{}
	n.Name = "n"
	for _, d := range []string{"d", "e"} {
		if r.chance(60) {
			driver := storagev1.CSINodeDriver{Name: d}
			if r.chance(80) {
				driver.Allocatable = &storagev1.VolumeNodeResources{Count: oneOf(r, nil, ptr[int32](0), ptr[int32](1), ptr[int32](2))}
			}
			n.Spec.Drivers = append(n.Spec.Drivers, driver)
		}
	}
	if r.chance(50) {
		n.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: oneOf(r, "", "p")}
	}
	return n
}

func (r random) csiDriver() *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{}
	d.Name, d.Spec.StorageCapacity = oneOf(r, "d", "e"), oneOf(r, nil, ptr(true), ptr(false))
	return d
}

func (r random) capacity() *storagev1.CSIStorageCapacity {
	size := func() *resource.Quantity {
		return oneOf(r, nil, ptr(resource.MustParse("1Gi")), ptr(resource.MustParse("2Gi")), ptr(resource.MustParse("1500m")))
	}
	return &storagev1.CSIStorageCapacity{Capacity: size(), MaximumVolumeSize: size()}
}

func (r random) attachment() *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{}
	a.Spec.Attacher = oneOf(r, "d", "pd.csi.storage.gke.io", "ebs.csi.aws.com", "disk.csi.azure.com", "file.csi.azure.com",
		"cinder.csi.openstack.org", "csi.vsphere.vmware.com", "pxd.portworx.com")
	return a
}
