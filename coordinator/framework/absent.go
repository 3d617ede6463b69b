package framework

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// noNodes is a snapshot of no node.
type noNodes struct{}

func (noNodes) NodeInfos() fwk.NodeInfoLister           { return noNodes{} }
func (noNodes) StorageInfos() fwk.StorageInfoLister     { return noNodes{} }
func (noNodes) PodGroupStates() fwk.PodGroupStateLister { return noPodGroups{} }
func (noNodes) List() ([]fwk.NodeInfo, error)           { return nil, nil }
func (noNodes) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return nil, nil
}
func (noNodes) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) { return nil, nil }
func (noNodes) Get(name string) (fwk.NodeInfo, error)                         { return nil, notFound(name) }
func (noNodes) IsPVCUsedByPods(string) bool                                   { return false }

func notFound(node string) error { return fmt.Errorf("nodeinfo not found for node name %q", node) }

// noPodGroups knows no pod group.
type noPodGroups struct{}

func (noPodGroups) PodGroupStates() fwk.PodGroupStateLister { return noPodGroups{} }
func (noPodGroups) Get(namespace, name string) (fwk.PodGroupState, error) {
	return nil, fmt.Errorf("pod group state not found for pod group %s/%s", namespace, name)
}

// noEvents drops events.
type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
func (n noEvents) WithLogger(klog.Logger) events.EventRecorderLogger                           { return n }

// csiNodes gives the CSINodes that an informer has.
type csiNodes struct{ lister storagelisters.CSINodeLister }

// csiNodesOf is nil without a factory.
func csiNodesOf(f informers.SharedInformerFactory) fwk.CSIManager {
	if f == nil {
		return nil
	}
	return csiNodes{f.Storage().V1().CSINodes().Lister()}
}

func (c csiNodes) CSINodes() fwk.CSINodeLister                 { return c }
func (c csiNodes) List() ([]*storagev1.CSINode, error)         { return c.lister.List(labels.Everything()) }
func (c csiNodes) Get(name string) (*storagev1.CSINode, error) { return c.lister.Get(name) }
