package cli

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// column is what a table shows of the objects of a kind, between name and age. An empty value
// is shown as <none>.
type column struct {
	header string
	value  func(objects.Object) string
}

// show makes a column of objects of one type.
func show[T objects.Object](header string, value func(T) string) column {
	return column{header, func(obj objects.Object) string {
		if t, ok := obj.(T); ok {
			return value(t)
		}
		return ""
	}}
}

// columnsOf are those that kubectl shows, as far as they say something where nobody runs
// anything.
func columnsOf(kind objects.Kind) []column {
	switch kind {
	case objects.KindService:
		return []column{
			show("TYPE", func(s *v1.Service) string { return string(s.Spec.Type) }),
			show("SELECTOR", func(s *v1.Service) string { return selectorOf(s.Spec.Selector) }),
		}
	case objects.KindReplicationController:
		return []column{
			show("DESIRED", func(c *v1.ReplicationController) string { return number(c.Spec.Replicas) }),
			show("SELECTOR", func(c *v1.ReplicationController) string { return selectorOf(c.Spec.Selector) }),
		}
	case objects.KindReplicaSet:
		return []column{
			show("DESIRED", func(s *appsv1.ReplicaSet) string { return number(s.Spec.Replicas) }),
			show("SELECTOR", func(s *appsv1.ReplicaSet) string { return metav1.FormatLabelSelector(s.Spec.Selector) }),
		}
	case objects.KindStatefulSet:
		return []column{
			show("DESIRED", func(s *appsv1.StatefulSet) string { return number(s.Spec.Replicas) }),
			show("SELECTOR", func(s *appsv1.StatefulSet) string { return metav1.FormatLabelSelector(s.Spec.Selector) }),
		}
	case objects.KindPodDisruptionBudget:
		return []column{
			show("MIN AVAILABLE", func(b *policyv1.PodDisruptionBudget) string { return share(b.Spec.MinAvailable) }),
			show("MAX UNAVAILABLE", func(b *policyv1.PodDisruptionBudget) string { return share(b.Spec.MaxUnavailable) }),
			show("SELECTOR", func(b *policyv1.PodDisruptionBudget) string { return metav1.FormatLabelSelector(b.Spec.Selector) }),
		}
	case objects.KindPersistentVolume:
		return volumeColumns()
	case objects.KindPersistentVolumeClaim:
		return claimColumns()
	case objects.KindDeviceClass, objects.KindResourceSlice, objects.KindResourceClaim:
		return deviceColumns(kind)
	case objects.KindPodGroup:
		return []column{
			show("POLICY", func(g *schedulingv1alpha2.PodGroup) string { return policyOf(g) }),
			show("WORKLOAD", func(g *schedulingv1alpha2.PodGroup) string {
				if ref := g.Spec.PodGroupTemplateRef; ref != nil && ref.Workload != nil {
					return ref.Workload.WorkloadName
				}
				return ""
			}),
			show("STATUS", podGroupStatus),
		}
	case objects.KindPriorityClass:
		return []column{
			show("VALUE", func(c *schedulingv1.PriorityClass) string { return fmt.Sprint(c.Value) }),
			show("GLOBAL-DEFAULT", func(c *schedulingv1.PriorityClass) string { return fmt.Sprint(c.GlobalDefault) }),
			show("PREEMPTION", func(c *schedulingv1.PriorityClass) string {
				return or((*string)(c.PreemptionPolicy))
			}),
		}
	case objects.KindRuntimeClass:
		return []column{show("HANDLER", func(c *nodev1.RuntimeClass) string { return c.Handler })}
	}
	return storageColumns(kind)
}

func policyOf(g *schedulingv1alpha2.PodGroup) string {
	if g.Spec.SchedulingPolicy.Gang != nil {
		return "Gang"
	}
	return "Basic"
}

// podGroupStatus is in kubectl's words.
func podGroupStatus(g *schedulingv1alpha2.PodGroup) string {
	status := "Pending"
	for _, c := range g.Status.Conditions {
		switch {
		case c.Type == schedulingv1alpha2.DisruptionTarget:
			return c.Reason
		case c.Type == schedulingv1alpha2.PodGroupScheduled && c.Status == metav1.ConditionTrue:
			status = "Scheduled"
		case c.Type == schedulingv1alpha2.PodGroupScheduled:
			status = "Unschedulable"
		}
	}
	return status
}

func volumeColumns() []column {
	return []column{
		show("CAPACITY", func(v *v1.PersistentVolume) string { return amount(v.Spec.Capacity, v1.ResourceStorage) }),
		show("ACCESS MODES", func(v *v1.PersistentVolume) string { return modes(v.Spec.AccessModes) }),
		show("STATUS", func(v *v1.PersistentVolume) string { return string(v.Status.Phase) }),
		show("CLAIM", func(v *v1.PersistentVolume) string {
			if v.Spec.ClaimRef == nil {
				return ""
			}
			return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
		}),
		show("STORAGECLASS", func(v *v1.PersistentVolume) string { return v.Spec.StorageClassName }),
	}
}

func claimColumns() []column {
	return []column{
		show("STATUS", func(c *v1.PersistentVolumeClaim) string { return string(c.Status.Phase) }),
		show("VOLUME", func(c *v1.PersistentVolumeClaim) string { return c.Spec.VolumeName }),
		show("REQUEST", func(c *v1.PersistentVolumeClaim) string { return amount(c.Spec.Resources.Requests, v1.ResourceStorage) }),
		show("ACCESS MODES", func(c *v1.PersistentVolumeClaim) string { return modes(c.Spec.AccessModes) }),
		show("STORAGECLASS", func(c *v1.PersistentVolumeClaim) string { return or(c.Spec.StorageClassName) }),
	}
}

func deviceColumns(kind objects.Kind) []column {
	switch kind {
	case objects.KindDeviceClass:
		return []column{show("EXTENDED RESOURCE", func(c *resourcev1.DeviceClass) string { return or(c.Spec.ExtendedResourceName) })}
	case objects.KindResourceSlice:
		return []column{
			show("NODE", func(s *resourcev1.ResourceSlice) string { return or(s.Spec.NodeName) }),
			show("DRIVER", func(s *resourcev1.ResourceSlice) string { return s.Spec.Driver }),
			show("POOL", func(s *resourcev1.ResourceSlice) string { return s.Spec.Pool.Name }),
			show("DEVICES", func(s *resourcev1.ResourceSlice) string { return fmt.Sprint(len(s.Spec.Devices)) }),
		}
	}
	return []column{
		show("STATE", claimState),
		show("DEVICES", func(c *resourcev1.ResourceClaim) string {
			var names []string
			if a := c.Status.Allocation; a != nil {
				for _, r := range a.Devices.Results {
					names = append(names, r.Pool+"/"+r.Device)
				}
			}
			return few(names)
		}),
		show("RESERVED FOR", func(c *resourcev1.ResourceClaim) string {
			var names []string
			for _, r := range c.Status.ReservedFor {
				names = append(names, r.Name)
			}
			return few(names)
		}),
	}
}

// claimState is in kubectl's words.
func claimState(c *resourcev1.ResourceClaim) string {
	var states []string
	switch {
	case c.Status.Allocation != nil:
		states = append(states, "allocated")
	case c.DeletionTimestamp == nil:
		states = append(states, "pending")
	}
	if c.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	if len(c.Status.ReservedFor) > 0 {
		states = append(states, "reserved")
	}
	return strings.Join(states, ",")
}

// few are the first names of a list, and how many more there are.
func few(names []string) string {
	const shown = 4
	if len(names) <= shown {
		return strings.Join(names, ",")
	}
	return fmt.Sprintf("%s,+%d", strings.Join(names[:shown], ","), len(names)-shown)
}

func storageColumns(kind objects.Kind) []column {
	switch kind {
	case objects.KindStorageClass:
		return []column{
			show("PROVISIONER", func(c *storagev1.StorageClass) string { return c.Provisioner }),
			show("RECLAIMPOLICY", func(c *storagev1.StorageClass) string { return or(c.ReclaimPolicy) }),
			show("VOLUMEBINDINGMODE", func(c *storagev1.StorageClass) string { return or(c.VolumeBindingMode) }),
		}
	case objects.KindCSINode:
		return []column{show("DRIVERS", func(n *storagev1.CSINode) string { return drivers(n.Spec.Drivers) })}
	case objects.KindCSIDriver:
		return []column{show("STORAGECAPACITY", func(d *storagev1.CSIDriver) string {
			return fmt.Sprint(d.Spec.StorageCapacity != nil && *d.Spec.StorageCapacity)
		})}
	case objects.KindCSIStorageCapacity:
		return []column{
			show("STORAGECLASS", func(c *storagev1.CSIStorageCapacity) string { return c.StorageClassName }),
			show("CAPACITY", func(c *storagev1.CSIStorageCapacity) string { return quantity(c.Capacity) }),
			show("MAXIMUM SIZE", func(c *storagev1.CSIStorageCapacity) string { return quantity(c.MaximumVolumeSize) }),
			show("TOPOLOGY", func(c *storagev1.CSIStorageCapacity) string { return metav1.FormatLabelSelector(c.NodeTopology) }),
		}
	case objects.KindVolumeAttachment:
		return []column{
			show("ATTACHER", func(a *storagev1.VolumeAttachment) string { return a.Spec.Attacher }),
			show("PV", func(a *storagev1.VolumeAttachment) string { return or(a.Spec.Source.PersistentVolumeName) }),
			show("NODE", func(a *storagev1.VolumeAttachment) string { return a.Spec.NodeName }),
			show("ATTACHED", func(a *storagev1.VolumeAttachment) string { return fmt.Sprint(a.Status.Attached) }),
		}
	}
	return nil
}

func selectorOf(m map[string]string) string {
	if len(m) == 0 {
		return ""
	}
	return labels.FormatLabels(m)
}

// share is a number of pods or a percentage, as kubectl shows it.
func share(x *intstr.IntOrString) string {
	if x == nil {
		return "N/A"
	}
	return x.String()
}

func number(n *int32) string {
	if n == nil {
		return "1"
	}
	return fmt.Sprint(*n)
}

// or is the text that a pointer points to; empty: it points to none.
func or[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

func quantity(q *resource.Quantity) string {
	if q == nil {
		return ""
	}
	return q.String()
}

// modes are the access modes in kubectl's short form.
func modes(list []v1.PersistentVolumeAccessMode) string {
	short := map[v1.PersistentVolumeAccessMode]string{
		v1.ReadWriteOnce: "RWO", v1.ReadOnlyMany: "ROX", v1.ReadWriteMany: "RWX", v1.ReadWriteOncePod: "RWOP",
	}
	var parts []string
	for _, m := range list {
		parts = append(parts, short[m])
	}
	return strings.Join(parts, ",")
}

// drivers are the names of a node's drivers, each with its limit where it has one.
func drivers(list []storagev1.CSINodeDriver) string {
	var parts []string
	for _, d := range list {
		part := d.Name
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			part += fmt.Sprintf(":%d", *d.Allocatable.Count)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
