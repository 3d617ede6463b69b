package compile

import (
	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/count"
)

// ClusterState is what compiling reads of the cluster beside the pod.
type ClusterState interface {
	Images
	// Topology tells what the nodes make of a label key. It costs the same whether nodes have the
	// key or not, and however many there are.
	Topology(key string) Topology
	// Domains is how many values a label key has that nodes have, rounded up to a power of two: it changes seldom
	// while a cluster grows.
	Domains(key string) int
	// TopologyVersion moves where Topology or Domains of any key may be another than before. It begins with 1.
	TopologyVersion() uint64
	// Counters is where queries get their counters from.
	Counters() *count.Registry
	// Cluster is what makes pods belong together.
	Cluster() *cluster.Cluster
	// Volumes is the cluster's storage; nil: there is none.
	Volumes() Volumes
	// Devices knows what claims ask of devices; nil: there are none.
	Devices() Devices
}

// Topology is what the nodes make of a label key.
type Topology byte

// What they make of it: no node has the label, no two nodes share a value of it, or some do.
const (
	Absent Topology = iota
	Unique
	Shared
)

// alone is a cluster of nothing but images.
type alone struct {
	Images
	counters *count.Registry
	cluster  *cluster.Cluster
}

// EmptyCluster is a cluster without storage, Services and other pods, in which no node has a label.
func EmptyCluster(images Images) ClusterState {
	return alone{images, count.New(), cluster.New()}
}

func (alone) Topology(string) Topology    { return Absent }
func (alone) Domains(string) int          { return 0 }
func (alone) TopologyVersion() uint64     { return 0 }
func (a alone) Counters() *count.Registry { return a.counters }
func (a alone) Cluster() *cluster.Cluster { return a.cluster }
func (alone) Volumes() Volumes            { return nil }
func (alone) Devices() Devices            { return nil }
