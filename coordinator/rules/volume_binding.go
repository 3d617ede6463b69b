package rules

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// VolumeBinding is the plugin that finds volumes for claims, and has them bound before the pod is.
const VolumeBinding = "VolumeBinding"

func volumeBinding() *Rule {
	return &Rule{
		Name: VolumeBinding,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_VOLUME_BINDING,
			FilterAsks: func(q *pb.Query) bool { return q.GetVolumeBinding() != nil },
		},
		Points: []framework.Point{
			framework.PreFilter, framework.Filter, framework.PreScore, framework.Score, framework.Reserve, framework.PreBind,
		},
		RefusesEarly: true,
		Arguments: arguments(completeVolumeBinding, validateVolumeBinding,
			func(c *compile.ProfileConfig) *configv1.VolumeBindingArgs { return &c.VolumeBinding }),
		Hints: bindingHints,
	}
}

func completeVolumeBinding(a *configv1.VolumeBindingArgs) {
	orElse(&a.BindTimeoutSeconds, 600)
}

func validateVolumeBinding(path *field.Path, a *configv1.VolumeBindingArgs) field.ErrorList {
	var errs field.ErrorList
	if *a.BindTimeoutSeconds < 0 {
		errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), *a.BindTimeoutSeconds,
			"invalid BindTimeoutSeconds, should not be a negative value"))
	}
	if a.Shape != nil {
		errs = append(errs, field.Invalid(path.Child("shape"), a.Shape,
			"unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"))
	}
	return errs
}

// bindingHints waits for all that a volume may come from: its claim, its class, volumes,
// nodes, and the drivers with the room that they have.
func bindingHints(queue.Profiles) queue.Plugin {
	return queue.Plugin{
		Alike: queue.VolumeLikeness,
		Events: []queue.Registration{
			{Resource: queue.StorageClass, Actions: queue.Add},
			{Resource: queue.StorageClass, Actions: queue.Update, If: changesTopologies},
			{Resource: queue.PersistentVolumeClaim, Actions: queue.Add | queue.Update, Helps: queue.NamesClaim},
			{Resource: queue.PersistentVolume, Actions: queue.Add | queue.Update},
			{Resource: queue.Node, Actions: queue.Add | queue.UpdateNodeLabel},
			{Resource: queue.CSINode, Actions: queue.Add},
			{Resource: queue.CSINode, Actions: queue.Update, If: changesMigration},
			{Resource: queue.CSIDriver, Actions: queue.Update, If: stopsTellingCapacity, Helps: usesDriver},
			{Resource: queue.CSIStorageCapacity, Actions: queue.Add},
			{Resource: queue.CSIStorageCapacity, Actions: queue.Update, If: raisesCapacity},
		},
	}
}

// changesTopologies: the class allows other topologies than before. Nothing else of it that
// matters can change.
func changesTopologies(e *queue.Event) bool {
	old, now := objects[*storagev1.StorageClass](e)
	return !equality.Semantic.DeepEqual(old.AllowedTopologies, now.AllowedTopologies)
}

// changesMigration: other kinds of volumes than before are left to CSI drivers on the
// node.
func changesMigration(e *queue.Event) bool {
	old, now := objects[*storagev1.CSINode](e)
	return old.Annotations[v1.MigratedPluginsAnnotationKey] != now.Annotations[v1.MigratedPluginsAnnotationKey]
}

// stopsTellingCapacity: what the driver has room for is not to be looked at any more.
func stopsTellingCapacity(e *queue.Event) bool {
	old, now := objects[*storagev1.CSIDriver](e)
	return storage.TellsCapacity(old) && !storage.TellsCapacity(now)
}

// usesDriver: the pod has an inline volume of the driver. As upstream, the drivers of its
// claims are not looked at.
func usesDriver(p *queue.Pod, e *queue.Event) bool {
	_, driver := objects[*storagev1.CSIDriver](e)
	for i := range p.Obj.Spec.Volumes {
		if csi := p.Obj.Spec.Volumes[i].CSI; csi != nil && csi.Driver == driver.Name {
			return true
		}
	}
	return false
}

// raisesCapacity: a larger volume can be made than before.
func raisesCapacity(e *queue.Event) bool {
	before, after := objects[*storagev1.CSIStorageCapacity](e)
	old, now := storage.LargestVolume(before), storage.LargestVolume(after)
	return now != nil && (old == nil || now.Value() > old.Value())
}
