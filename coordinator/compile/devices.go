package compile

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
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

// isAny tells whether DynamicResources has anything to do with the pod.
func (c *PodClaims) isAny() bool { return c.Query != nil || c.isRefused() }

// isRefused tells whether its PreFilter has refused the pod, or could not be run.
func (c *PodClaims) isRefused() bool { return c.Message != "" || c.Err != nil }

// refuse is the answer of its PreFilter where that is no success: a rejection or an error.
func (c *PodClaims) refuse() (*Rejection, error) {
	switch {
	case c.Err != nil:
		return nil, fmt.Errorf("running PreFilter plugin %q: %w", DynamicResources, c.Err)
	case c.Message != "":
		return &Rejection{Plugins: []string{DynamicResources}, Message: c.Message, Unresolvable: true}, nil
	}
	return nil, nil
}

// takeClaims finds out what the pod's claims ask of devices. It names no claim, so pods are alike whose claims ask alike.
func (s *setting) takeClaims(pl *plan) {
	s.claims = PodClaims{}
	if !pl.allocates {
		return
	}
	if d := s.state.Devices(); d != nil {
		s.claims = d.Claims(s.pod, pl.prof.devicesTimeout)
	}
	if s.claims.Query == nil {
		return
	}
	var err error
	if s.bytes, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(append(s.bytes, 1), s.claims.Query); err != nil {
		s.claims = PodClaims{Err: fmt.Errorf("encode what claims ask: %w", err)}
	}
}
