package compile

import (
	"time"

	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Devices tells what the claims and extended resources of a pod ask of devices.
type Devices interface {
	// Claims is as of now. patience is how long devices may take to become ready.
	Claims(pod *v1.Pod, patience time.Duration) PodClaims
}

// PodClaims is DynamicResources' PreFilter: at most one of the fields is set. None: it skips.
type PodClaims struct {
	// Message is why no node takes the pod, whatever is done about other pods.
	Message string
	// Err is an error of the plugin.
	Err   error
	Query *pb.ResourceClaimsQuery
}

// NodeSelector translates a selector that can be read; nil: every node matches.
func NodeSelector(s *v1.NodeSelector) *pb.NodeSelector { return nodeSelector(s) }
