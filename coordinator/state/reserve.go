package state

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/coordinator/volumes"
	"github.com/shardsched/shardsched/scorer"
)

// Reserved is what a placement holds besides its room: of volumes and of devices. What can not be had is an error.
type Reserved struct {
	// Pod is the pod, once its claims are complete with what its status says of them.
	Pod                  *v1.Pod
	Volumes              *volumes.Work
	Claims               *devices.Work
	NoVolumes, NoDevices error
}

// Failure is why the pod can not be placed, as Reserve of the plugin says it; nil: it can.
func (r *Reserved) Failure() error {
	switch {
	case r.NoVolumes != nil:
		return fmt.Errorf("running Reserve plugin %q: %w", rules.VolumeBinding, r.NoVolumes)
	case r.NoDevices != nil:
		return fmt.Errorf("running Reserve plugin %q: %w", rules.DynamicResources, r.NoDevices)
	}
	return nil
}

// Reserve reserves volumes and devices for a pod on the node of a row. Without volumes there is no need of devices, which the
// evaluator finds.
func (s *State) Reserve(p *v1.Pod, prof *compile.Profile, class *compile.Class, row cache.Row, eval *scorer.Evaluator) Reserved {
	got := Reserved{Pod: p}
	node := s.Table(int(row.Shard)).Name(row.Index)
	if prof.BindsVolumes() && storage.HasClaims(p) {
		got.Volumes, got.NoVolumes = s.reserveVolumes(p, node)
	}
	if class.Claims && got.NoVolumes == nil {
		got.Claims, got.NoDevices = s.ReserveDevices(p, class, row, node, eval)
	}
	return got
}

func (s *State) reserveVolumes(p *v1.Pod, node string) (work *volumes.Work, err error) {
	defer s.RecoverInto(&err)
	return s.volumes.Reserve(p, s.Node(node))
}

// ReserveDevices gives devices of a node to a pod's claims. Other pods see them in use from now on. An error leaves everything as
// it was, but for the evaluator after a panic.
func (s *State) ReserveDevices(p *v1.Pod, class *compile.Class, row cache.Row, node string,
	eval *scorer.Evaluator) (work *devices.Work, err error) {
	defer s.RecoverInto(&err)
	all := eval.Allocate(s.Table(int(row.Shard)), row.Index, class.Scorer)
	if all.Fatal != nil {
		return nil, errors.New(s.FatalText(p, all.Fatal))
	}
	found, extended, err := foundOf(class.Query.GetResourceClaims(), &all)
	if err != nil {
		return nil, err
	}
	work, told, err := s.devices.Reserve(p, node, found, extended)
	if err != nil {
		return nil, err
	}
	if err := s.tellDevices(&told); err != nil {
		return nil, errors.Join(err, s.UnreserveDevices(work))
	}
	return work, nil
}

// FatalText is the text of a row that fails a pod, with the names of the pod's claims.
func (s *State) FatalText(p *v1.Pod, f *scorer.FatalText) string {
	names := s.devices.ClaimNames(p)
	return f.In(func(i int32) (string, string) {
		if int(i) >= len(names) {
			return p.Namespace, ""
		}
		return names[i].Namespace, names[i].Name
	})
}
