package compile

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Images tells how the container images are spread over the cluster.
type Images interface {
	// Spread tells the size of an image, as the first node that has it reported
	// it, and on how many nodes it is. The name is the one that nodes report; ok is
	// false where no node has it.
	Spread(name string) (sizeBytes int64, nodes int, ok bool)
	// TotalNodes is the number of nodes in the cluster.
	TotalNodes() int
}

// maxThresholdBytes is the sum of image sizes, for each container, from which on
// ImageLocality gives its highest score.
const maxThresholdBytes = 1000 << 20

// podImages is ImageLocality's part of a plan: what to ask Images for.
type podImages struct {
	// names has an entry for each init container, container and image volume.
	names []string
	// containers is the number of init containers and containers.
	containers int64
}

// imagesOf collects the images of a pod by their normalised names, where ImageLocality scores.
func imagesOf(p *v1.Pod, prof *Profile) podImages {
	if !prof.scoresBy(pb.Plugin_PLUGIN_IMAGE_LOCALITY) {
		return podImages{}
	}
	out := podImages{containers: int64(max(1, len(p.Spec.InitContainers)+len(p.Spec.Containers)))}
	for i := range p.Spec.InitContainers {
		out.names = append(out.names, normalise(p.Spec.InitContainers[i].Image))
	}
	for i := range p.Spec.Containers {
		out.names = append(out.names, normalise(p.Spec.Containers[i].Image))
	}
	for i := range p.Spec.Volumes {
		if v := p.Spec.Volumes[i].Image; v != nil {
			out.names = append(out.names, normalise(v.Reference))
		}
	}
	slices.Sort(out.names) // they are summed: the order plays no part
	return out
}

// normalise adds the tag that a container runtime would: "latest" where neither a
// tag nor a digest follows the last slash.
func normalise(name string) string {
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		return name + ":latest"
	}
	return name
}

// spreads appends, for each image, what a node that has it gains in bytes; 0 for
// an image that counts for nothing.
func (i *podImages) spreads(images Images, into []int64) []int64 {
	total := images.TotalNodes()
	for _, name := range i.names {
		into = append(into, i.scaled(images, name, total))
	}
	return into
}

// scaled is the size of an image scaled down by the share of nodes that have it,
// in upstream's arithmetic. Beyond the upper threshold it makes no difference.
func (i *podImages) scaled(images Images, name string, total int) int64 {
	if !usable(name) {
		return 0
	}
	size, nodes, ok := images.Spread(name)
	if !ok || size <= 0 || nodes <= 0 || total <= 0 {
		return 0
	}
	most := maxThresholdBytes * i.containers
	scaled := float64(size) * (float64(nodes) / float64(total))
	if scaled >= float64(most) {
		return most
	}
	return int64(scaled)
}

// query is what ImageLocality asks, given the answer of spreads.
func (i *podImages) query(spreads []int64) *pb.ImageQuery {
	q := &pb.ImageQuery{Containers: i.containers}
	for n, name := range i.names {
		if spreads[n] > 0 {
			q.Images = append(q.Images, &pb.ImageTerm{Name: name, ScaledBytes: spreads[n]})
		}
	}
	return q
}
