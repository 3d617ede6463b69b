package compile

import (
	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/count"
)

// World is what compiling reads of the cluster beside the pod.
type World interface {
	Images
	// Topology tells how many distinct values a label has over the nodes, and how many
	// nodes carry it.
	Topology(key string) (distinct, nodes int)
	// Counters is where queries get their counters from.
	Counters() *count.Registry
	// Cluster is what makes pods belong together.
	Cluster() *cluster.Cluster
	// Volumes is the cluster's storage; nil: there is none.
	Volumes() Volumes
}

// alone is a world of nothing but images.
type alone struct {
	Images
	counters *count.Registry
	cluster  *cluster.Cluster
}

// Alone is a world without storage, Services and other pods, in which no node has a label.
func Alone(images Images) World {
	return alone{images, count.New(), cluster.New()}
}

func (alone) Topology(string) (distinct, nodes int) { return 0, 0 }
func (a alone) Counters() *count.Registry           { return a.counters }
func (a alone) Cluster() *cluster.Cluster           { return a.cluster }
func (alone) Volumes() Volumes                      { return nil }
