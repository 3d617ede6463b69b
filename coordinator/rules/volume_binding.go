package rules

import (
	"fmt"
	"slices"
	"strings"

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
		Words: bindingWords(),
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

func bindingWords() *Words {
	return &Words{
		Says: []string{
			"node(s) didn't match PersistentVolume's node affinity", "node(s) didn't find available persistent volumes to bind",
			"node(s) did not have enough free storage", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
			"pod has unbound immediate PersistentVolumeClaims", "waiting for ephemeral volume controller", "persistentvolumeclaim ",
		},
		Lacks: func(r *Refused) []string {
			var out []string
			for _, c := range claimsOf(r.Pod, r.Cluster) {
				if text := bindingLack(r, c); text != "" {
					out = append(out, text)
				}
			}
			return out
		},
		Wants: bindingWants,
	}
}

// podClaim is a claim of a pod; object is nil where it does not exist, made tells that it is made for the pod.
type podClaim struct {
	name   string
	made   bool
	object *v1.PersistentVolumeClaim
}

func claimsOf(p *v1.Pod, c Cluster) (out []podClaim) {
	for i := range p.Spec.Volumes {
		if name, made, ok := storage.ClaimName(p, &p.Spec.Volumes[i]); ok {
			out = append(out, podClaim{name, made, c.Claim(p.Namespace, name)})
		}
	}
	return out
}

// claimProblems words, for each claim of a pod, what keeps it from all nodes, and who acts next.
func claimProblems(p *v1.Pod, c Cluster) (out []string) {
	for _, x := range claimsOf(p, c) {
		if text := x.problemText(c); text != "" {
			out = append(out, text)
		}
	}
	return out
}

func (x *podClaim) problemText(c Cluster) string {
	what, next := x.problem(c)
	if what == "" {
		return ""
	}
	return fmt.Sprintf("claim %s: %s: %s", x.name, what, next)
}

// problem is what keeps the claim from every node, and who acts next; "": nothing keeps it as such.
func (x *podClaim) problem(c Cluster) (what, next string) {
	const anew = ", or the claim anew"
	switch {
	case x.object == nil && x.made:
		return "the claim of an ephemeral volume is not made yet", "the ephemeral volume controller makes it"
	case x.object == nil:
		return "the claim does not exist", "create it"
	case x.object.DeletionTimestamp != nil:
		return "the claim is being deleted", "create it anew once it is gone"
	case x.object.Status.Phase == v1.ClaimLost:
		return "volume " + x.object.Spec.VolumeName + " of the claim is lost", "restore the volume, or create the claim anew"
	case storage.IsBound(x.object):
		if c.Volume(x.object.Spec.VolumeName) == nil {
			return "volume " + x.object.Spec.VolumeName + " of the claim does not exist", "restore the volume, or create the claim anew"
		}
		return "", ""
	case x.object.Spec.VolumeName != "":
		return "the claim is not bound yet to volume " + x.object.Spec.VolumeName + ", which it names", "the volume controller binds it"
	}
	name := storage.ClassOf(x.object)
	class := c.StorageClass(name)
	switch {
	case name == "":
		return "the claim has no StorageClass and no volume", "the volume controller binds it once there is a volume that fits"
	case class == nil:
		return "StorageClass " + name + " does not exist", "create the class" + anew + " with another"
	}
	if late, err := storage.BindsLate(class); err != nil || late {
		return "", ""
	}
	if !storage.Provisions(class) {
		return "StorageClass " + name + " binds at once and provisions nothing",
			"the volume controller binds the claim once there is a volume that fits"
	}
	return "StorageClass " + name + " binds at once, and there is no volume yet", "its provisioner " + class.Provisioner + " makes one"
}

// bindingLack words what keeps one claim from a node; "": nothing does.
func bindingLack(r *Refused, x podClaim) string {
	if text := x.problemText(r.Cluster); text != "" {
		return text
	}
	if storage.IsBound(x.object) {
		volume := r.Cluster.Volume(x.object.Spec.VolumeName)
		if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
			return ""
		}
		if words := termLacks(volume.Spec.NodeAffinity.Required, r.Node); len(words) > 0 {
			return fmt.Sprintf("claim %s: its volume %s wants %s", x.name, volume.Name, strings.Join(words, ", "))
		}
		return ""
	}
	if on := x.object.Annotations[storage.AnnSelectedNode]; on != "" && on != r.Node.Name {
		return fmt.Sprintf("claim %s: its provisioner makes a volume for node %s", x.name, on)
	}
	class := r.Cluster.StorageClass(storage.ClassOf(x.object))
	size := storage.RequestOf(x.object)
	switch {
	case !storage.Provisions(class):
		return fmt.Sprintf("claim %s: no free volume of StorageClass %s with %s is for this node, and the class provisions none",
			x.name, class.Name, size.String())
	case slices.ContainsFunc(r.Reasons, func(s string) bool { return strings.Contains(s, "free storage") }):
		return fmt.Sprintf("claim %s: driver %s has no room for %s here", x.name, class.Provisioner, size.String())
	}
	return fmt.Sprintf("claim %s: StorageClass %s provisions no volume for this node (allowedTopologies)", x.name, class.Name)
}

func bindingWants(a *Asked) []Want {
	var out []Want
	claims := claimsOf(a.Pod, a.Cluster)
	for _, x := range claims {
		if what, next := x.problem(a.Cluster); what != "" {
			out = append(out, Want{Cause: what, Detail: "claim " + x.name, Help: next})
		}
	}
	if len(out) > 0 {
		return out
	}
	reasons := strings.Join(a.Reasons, " ")
	unbound, capacity := strings.Contains(reasons, "to bind"), strings.Contains(reasons, "free storage")
	for _, x := range claims {
		if w := x.wants(a.Cluster, capacity); x.object != nil && storage.IsBound(x.object) != (unbound || capacity) && w.Cause != "" {
			out = append(out, w)
		}
	}
	if len(out) == 0 {
		return []Want{{Cause: "volumes are not within reach of these nodes", Help: "volumes for these nodes, or room on those that have them"}}
	}
	return out
}

// wants words what a claim that is there wants of a node: its volume's nodes, or a volume; capacity: it is the driver that has no room.
func (x *podClaim) wants(c Cluster, capacity bool) Want {
	w := Want{Detail: "claim " + x.name}
	if x.object == nil {
		return Want{}
	}
	if storage.IsBound(x.object) {
		volume := c.Volume(x.object.Spec.VolumeName)
		if volume == nil || volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
			return Want{}
		}
		var terms []string
		for i := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
			terms = append(terms, termText(&volume.Spec.NodeAffinity.Required.NodeSelectorTerms[i]))
		}
		w.Cause, w.Help = "volumes are for other nodes", "room on nodes that have the volume in reach"
		w.Detail += ": volume " + volume.Name + " is for " + short(strings.Join(terms, ", or "))
		return w
	}
	class, size := c.StorageClass(storage.ClassOf(x.object)), storage.RequestOf(x.object)
	w.Detail += ", " + size.String()
	switch {
	case class == nil:
		return Want{}
	case capacity:
		w.Cause, w.Help = "driver "+class.Provisioner+" has no room for the volume", "more storage of the driver, or room on nodes that have it"
	case !storage.Provisions(class):
		w.Cause = "no free volume of StorageClass " + class.Name
		w.Help = "a volume for these nodes (the class provisions none), or room on nodes that have one"
	default:
		w.Cause = "StorageClass " + class.Name + " provisions volumes for other nodes alone (allowedTopologies)"
		w.Help = "room on those nodes, or other allowedTopologies"
	}
	return w
}
