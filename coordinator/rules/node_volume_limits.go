package rules

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeVolumeLimits is the plugin for how many volumes of a driver a node can attach.
const NodeVolumeLimits = "NodeVolumeLimits"

func nodeVolumeLimits() *Rule {
	return &Rule{
		Name: NodeVolumeLimits,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS,
			FilterAsks: func(q *pb.Query) bool { return q.GetVolumeLimits() != nil },
		},
		Points: []framework.Point{framework.PreFilter, framework.Filter},
		Hints:  queue.NodeVolumeLimits,
		Words:  limitWords(),
	}
}

func limitWords() *Words {
	return &Words{
		Says: []string{"node(s) exceed max volume count"},
		Lacks: func(r *Refused) []string {
			var out []string
			for _, d := range r.Row.FullDrivers() {
				out = append(out, fmt.Sprintf("driver %s has %d of %d volumes attached, the pod adds %d", d.Driver, d.Attached, d.Limit, d.Adds))
			}
			if len(out) == 0 { // a claim that is not there
				return claimProblems(r.Pod, r.Cluster)
			}
			return out
		},
		Wants: func(a *Asked) []Want {
			if problems := claimProblems(a.Pod, a.Cluster); len(problems) > 0 {
				return bindingWants(a)
			}
			w := Want{Cause: "as many volumes are attached as the driver can", Help: "more nodes, or pods with volumes that leave"}
			if drivers := driversOf(a.Pod, a.Cluster); len(drivers) > 0 {
				w.Detail = plural("driver", len(drivers)) + " " + listed(drivers)
			}
			return []Want{w}
		},
	}
}

// driversOf are the CSI drivers of a pod's volumes, as far as they are known.
func driversOf(p *v1.Pod, c Cluster) (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range p.Spec.Volumes {
		if csi := p.Spec.Volumes[i].CSI; csi != nil {
			add(csi.Driver)
		}
	}
	for _, x := range claimsOf(p, c) {
		if x.object == nil {
			continue
		}
		if volume := c.Volume(x.object.Spec.VolumeName); volume != nil && volume.Spec.CSI != nil {
			add(volume.Spec.CSI.Driver)
		} else if class := c.StorageClass(storage.ClassOf(x.object)); volume == nil && class != nil {
			add(class.Provisioner)
		}
	}
	return names
}
