package compile

import (
	"bytes"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Respecified tells whether a pending pod asks for other nodes than before. In Kubernetes the
// fields that are compared here never change, so no hint of the queue looks at them. In our own
// store they may change.
func Respecified(old, now *v1.Pod) bool {
	if old.Generation != 0 && old.Generation == now.Generation {
		return false
	}
	return !maps.Equal(old.Spec.NodeSelector, now.Spec.NodeSelector) ||
		!bytes.Equal(writtenAffinity(old), writtenAffinity(now)) ||
		!SameUsage(old, now) && !slices.EqualFunc(Usage(old).GetHostPorts(), Usage(now).GetHostPorts(),
			func(a, b *pb.HostPort) bool { return proto.Equal(a, b) })
}

// writtenAffinity is a pod's affinity as bytes: to compare thousands of terms by reflection takes ten times as long.
func writtenAffinity(p *v1.Pod) []byte {
	if p.Spec.Affinity == nil {
		return nil
	}
	b, _ := p.Spec.Affinity.Marshal() // Marshal fails only where a buffer is too small
	return b
}
