package extender

import (
	"context"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

var _ fwk.Extender = framed{}

// framed is an extender as plugins see it. Its calls block the plugin, for no longer than the
// extender's timeout once it is their turn.
type framed struct{ *Extender }

// Framed are extenders as Handle.Extenders gives them to plugins.
func Framed(list []*Extender) []fwk.Extender {
	out := make([]fwk.Extender, len(list))
	for i, e := range list {
		out[i] = framed{e}
	}
	return out
}

// Filter returns the nodes that will do, and the reasons of others.
func (f framed) Filter(pod *v1.Pod, infos []fwk.NodeInfo) ([]fwk.NodeInfo, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
	if !f.IsFilter() {
		return infos, extenderv1.FailedNodesMap{}, extenderv1.FailedNodesMap{}, nil
	}
	x, err := f.FilterNodes(context.Background(), pod, nodes(infos))
	if err != nil {
		return nil, nil, nil, err
	}
	kept := make([]fwk.NodeInfo, len(x.Kept))
	for i, at := range x.Kept {
		kept[i] = infos[at]
	}
	return kept, x.Failed, x.Unresolvable, nil
}

// Prioritize returns the nodes' scores, and what they are to be multiplied with.
func (f framed) Prioritize(pod *v1.Pod, infos []fwk.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	list, err := f.Scores(context.Background(), pod, nodes(infos))
	if err != nil {
		return nil, 0, err
	}
	if !f.IsPrioritizer() {
		return &list, 0, nil
	}
	return &list, f.weight, nil
}

// Bind has the extender bind a pod.
func (f framed) Bind(b *v1.Binding) error {
	return f.bind(context.Background(),
		&extenderv1.ExtenderBindingArgs{PodName: b.Name, PodNamespace: b.Namespace, PodUID: b.UID, Node: b.Target.Name})
}

// ProcessPreemption returns the nodes and victims that will do.
func (f framed) ProcessPreemption(pod *v1.Pod, victims map[string]*extenderv1.Victims,
	lister fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	return f.Victims(context.Background(), pod, victims, func(node string) ([]*v1.Pod, error) {
		info, err := lister.Get(node)
		if err != nil {
			return nil, err
		}
		infos := info.GetPods()
		out := make([]*v1.Pod, len(infos))
		for i, p := range infos {
			out[i] = p.GetPod()
		}
		return out, nil
	})
}

func nodes(infos []fwk.NodeInfo) []*v1.Node {
	out := make([]*v1.Node, len(infos))
	for i, n := range infos {
		out[i] = n.Node()
	}
	return out
}
