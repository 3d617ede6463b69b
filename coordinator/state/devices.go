package state

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	searched "github.com/shardsched/shardsched/scorer/devices"
)

// OpenDevices has the state know of devices and their claims from now on.
func (s *State) OpenDevices(cfg devices.Config) { s.devices = devices.New(cfg) }

// Devices is part of compile.ClusterState.
func (s *State) Devices() compile.Devices {
	if s.devices == nil {
		return nil
	}
	return s.devices
}

// Claims is what is known of devices and claims; nil: OpenDevices was not called.
func (s *State) Claims() *devices.Cache { return s.devices }

// changeDevices takes in a change of an object that devices may know; now is nil where it is gone.
func (s *State) changeDevices(old, now objects.Object) error {
	if s.devices == nil {
		return nil
	}
	var told devices.Changes
	if now != nil {
		told = s.devices.Set(now)
	} else {
		told = s.devices.Delete(old)
	}
	return s.tellDevices(&told)
}

// tellDevices tells the tables what has changed, and keeps the changes of claims for TakeClaimChanges.
func (s *State) tellDevices(told *devices.Changes) error {
	if told.IsNone() {
		return nil
	}
	s.claimsVersion++
	s.claimChanges = append(s.claimChanges, told.Claims...)
	list, err := told.Slices(s.devices)
	for i := range list {
		err = errors.Join(err, s.tellSlice(&list[i]))
	}
	for uses := told.Uses(s.devices); len(uses) > 0; {
		node, n := uses[0].Node, 0
		var same []*pb.DeviceUse
		for ; n < len(uses) && uses[n].Node == node; n++ {
			same = append(same, uses[n].DeviceUse)
		}
		if uses = uses[n:]; node == "" {
			err = errors.Join(err, s.UseSharedDevices(same...))
		} else {
			err = errors.Join(err, s.mended(node, s.UseDevices(node, same...)))
		}
	}
	return err
}

func (s *State) tellSlice(x *devices.PlacedSlice) error {
	switch {
	case x.Node == "" && x.Message == nil:
		return s.RemoveSharedSlice(x.Driver, x.Pool, x.Name)
	case x.Node == "":
		return s.SetSharedSlice(x.Message)
	case x.Message == nil:
		return s.mended(x.Node, s.RemoveSlice(x.Node, x.Driver, x.Pool, x.Name))
	}
	return s.mended(x.Node, s.SetSlice(x.Node, x.Message))
}

// ClaimsVersion moves with whatever is known of claims and devices: a pod's claims may be another's by then.
func (s *State) ClaimsVersion() uint64 { return s.claimsVersion }

// TakeClaimChanges returns the claims that have changed since the last call.
func (s *State) TakeClaimChanges() []devices.ClaimChange {
	list := s.claimChanges
	s.claimChanges = nil
	return list
}

// UnreserveDevices gives back what a pod that is not bound has reserved of devices.
func (s *State) UnreserveDevices(w *devices.Work) (err error) {
	if w == nil {
		return nil
	}
	defer s.RecoverInto(&err)
	told := s.devices.Unreserve(w)
	return s.tellDevices(&told)
}

// UndoDevices takes back what ReserveDevices has reserved, before anybody was told of it.
func (s *State) UndoDevices(w *devices.Work) error {
	told := len(s.claimChanges)
	err := s.UnreserveDevices(w)
	s.claimChanges = s.claimChanges[:told]
	return err
}

// SettleDevices takes in that a pod is bound, and its claims are written.
func (s *State) SettleDevices(w *devices.Work) (err error) {
	if w == nil {
		return nil
	}
	defer s.RecoverInto(&err)
	told := s.devices.Settle(w)
	return s.tellDevices(&told)
}

// CompleteDevices does what a pod's claims need in memory, where there is nowhere to write it. It returns the claims that
// have changed, and the pod with what its status says of the claim for its extended resources.
func (s *State) CompleteDevices(p *v1.Pod, w *devices.Work) (claims []*resourcev1.ResourceClaim, told *v1.Pod, err error) {
	defer s.RecoverInto(&err)
	claims, status, changes := s.devices.Complete(w)
	if err := s.tellDevices(&changes); err != nil {
		return nil, p, err
	}
	if status == nil {
		return claims, p, nil
	}
	x := *p
	x.Status.ExtendedResourceClaimStatus = status
	return claims, &x, nil
}

// CompletePlan carries out in memory what PostFilter has planned: a claim changes, or goes.
func (s *State) CompletePlan(p devices.Plan) (now, gone *resourcev1.ResourceClaim, err error) {
	defer s.RecoverInto(&err)
	now, gone, told := s.devices.CompletePlan(p)
	return now, gone, s.tellDevices(&told)
}

// foundOf says to package devices what the table has found.
func foundOf(q *pb.ResourceClaimsQuery, a *scorer.DeviceAllocation) ([]devices.Found, *devices.FoundExtended, error) {
	n := len(q.GetClaims())
	if len(a.Claims) < n {
		return nil, nil, errors.New("claim allocation not found for node")
	}
	found := make([]devices.Found, n)
	for i, c := range q.GetClaims() {
		found[i] = foundFor(len(c.GetRequests()), a.Claims[i])
	}
	if len(a.Special) == 0 {
		return found, nil, nil
	}
	x := &devices.FoundExtended{Found: foundFor(len(a.Special), a.Claims[n])}
	for i := range a.Special {
		r := &a.Special[i]
		x.Requests = append(x.Requests, devices.FoundRequest{Name: r.Name, Class: r.Alternatives[0].Class, Count: r.Alternatives[0].Count})
	}
	for _, m := range a.Mappings {
		x.Mappings = append(x.Mappings, devices.FoundMapping{Container: m.Container, Resource: m.Resource, Request: m.Request})
	}
	return found, x, nil
}

// foundFor is what was found for a claim of so many requests.
func foundFor(requests int, results []scorer.DeviceResult) devices.Found {
	f := devices.Found{Chosen: make([]int, requests)}
	for i := range results {
		r := &results[i]
		f.Chosen[r.Request] = r.Alternative
		f.Results = append(f.Results, devices.FoundDevice{
			Request: r.Request, Alternative: r.Alternative, Slice: r.Slice, Device: devices.Device{Driver: r.Driver, Pool: r.Pool, Name: r.Device},
			Admin: r.Admin, Share: r.Share, Consumed: amounts(r.Consumed),
		})
	}
	return f
}

func amounts(list []searched.Counter) []*pb.DeviceAmount {
	var out []*pb.DeviceAmount
	for _, c := range list {
		out = append(out, &pb.DeviceAmount{Name: c.Name, Quantity: &pb.DeviceQuantity{
			High: c.Value.High, Low: c.Value.Low, Format: pb.QuantityFormat(c.Value.Format) + 1,
		}})
	}
	return out
}
