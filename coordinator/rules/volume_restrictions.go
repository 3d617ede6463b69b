package rules

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// VolumeRestrictions is the plugin for disks, and claims, that not every pod can share.
const VolumeRestrictions = "VolumeRestrictions"

func volumeRestrictions() *Rule {
	return &Rule{
		Name: VolumeRestrictions,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS,
			FilterAsks: func(q *pb.Query) bool { return q.GetVolumeRestrictions() != nil },
		},
		Points:       []framework.Point{framework.PreFilter, framework.Filter},
		RefusesEarly: true,
		Hints:        queue.VolumeRestrictions,
		Words:        restrictionWords(),
	}
}

func restrictionWords() *Words {
	const another = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
	return &Words{
		Says: []string{"node(s) had no available disk", another, "persistentvolumeclaim "},
		Lacks: func(r *Refused) []string {
			if slices.Contains(r.Reasons, another) {
				return aloneLacks(r)
			}
			if r.Named {
				disk := ""
				names := r.named(func(p *v1.Pod) bool {
					name := sharedDisk(r.Pod, p)
					disk = cmp.Or(disk, name)
					return name != ""
				})
				if names != "" {
					return []string{disk + " is used by " + names + " on this host, and can't be shared"}
				}
			}
			return []string{listed(diskNames(r.Pod)) + " is in use on this host, and can't be shared"}
		},
		Wants: func(a *Asked) []Want {
			if len(claimProblems(a.Pod, a.Cluster)) > 0 {
				return bindingWants(a)
			}
			if names := aloneClaims(a.Pod, a.Cluster); slices.Contains(a.Reasons, another) && len(names) > 0 {
				return []Want{{Cause: "claim " + listed(names) + " is for one pod (ReadWriteOncePod), and in use", Help: "the pod that uses it ends"}}
			}
			return []Want{{Cause: "a disk that can't be shared is in use", Detail: listed(diskNames(a.Pod)),
				Help: "other nodes, or the pod that uses it ends"}}
		},
	}
}

// aloneClaims are the claims of a pod that one pod alone may use.
func aloneClaims(p *v1.Pod, c Cluster) (names []string) {
	for i := range p.Spec.Volumes {
		if name, _, ok := storage.ClaimName(p, &p.Spec.Volumes[i]); ok {
			if claim := c.Claim(p.Namespace, name); claim != nil && slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod) {
				names = append(names, name)
			}
		}
	}
	return names
}

// maxSought is at how many pods of a namespace the user of a claim, or a pod that a term is about, is looked for.
const maxSought = 4096

// aloneLacks names who uses a claim that is for one pod.
func aloneLacks(r *Refused) (out []string) {
	for _, name := range aloneClaims(r.Pod, r.Cluster) {
		text, left := "claim "+name+" is for one pod (ReadWriteOncePod), and in use", maxSought
		if r.Named {
			for p := range r.Cluster.In(r.Pod.Namespace) {
				if left--; left < 0 {
					break
				}
				if p.UID != r.Pod.UID && usesClaim(p, name) {
					text += " by " + p.Namespace + "/" + p.Name
					break
				}
			}
		}
		out = append(out, text)
	}
	return out
}

func usesClaim(p *v1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
		n, _, ok := storage.ClaimName(p, &v)
		return ok && n == name
	})
}

// sharedDisk names a disk that two pods have in common, of the kinds that can be told apart by name; "": none.
func sharedDisk(a, b *v1.Pod) string {
	for i := range a.Spec.Volumes {
		for j := range b.Spec.Volumes {
			if x := diskName(&a.Spec.Volumes[i]); x != "" && x == diskName(&b.Spec.Volumes[j]) {
				return x
			}
		}
	}
	return ""
}

// diskName names the disk that a volume is; "": it is of no kind that VolumeRestrictions looks at.
func diskName(v *v1.Volume) string {
	switch {
	case v.GCEPersistentDisk != nil:
		return "GCE disk " + v.GCEPersistentDisk.PDName
	case v.AWSElasticBlockStore != nil:
		return "EBS volume " + v.AWSElasticBlockStore.VolumeID
	case v.RBD != nil:
		return "RBD image " + v.RBD.RBDPool + "/" + v.RBD.RBDImage
	case v.ISCSI != nil:
		return "iSCSI target " + v.ISCSI.IQN
	}
	return ""
}

// diskNames are the disks of a pod.
func diskNames(p *v1.Pod) (names []string) {
	for i := range p.Spec.Volumes {
		if name := diskName(&p.Spec.Volumes[i]); name != "" {
			names = append(names, name)
		}
	}
	return names
}
