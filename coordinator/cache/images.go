package cache

import v1 "k8s.io/api/core/v1"

// image is one image name: its size as the first node reported it, and on how many
// nodes it is.
//
// Differs from upstream: the number of nodes is today's; upstream's is as old as
// the last change of each node.
type image struct {
	sizeBytes int64
	nodes     int
}

// Spread is part of compile.Images.
func (c *Cache) Spread(name string) (sizeBytes int64, nodes int, ok bool) {
	i := c.images[name]
	if i == nil {
		return 0, 0, false
	}
	return i.sizeBytes, i.nodes, true
}

// TotalNodes is part of compile.Images.
func (c *Cache) TotalNodes() int { return c.known }

// countImages moves the counts from a node's old images to its new ones; nil
// stands for none. As upstream's, a name that no other node has gets the size that
// the node reports now.
func (c *Cache) countImages(old, now *v1.Node) {
	eachImage(old, func(name string, _ int64) {
		i := c.images[name]
		i.nodes--
		if i.nodes == 0 {
			delete(c.images, name)
		}
	})
	eachImage(now, func(name string, size int64) {
		i := c.images[name]
		if i == nil {
			i = &image{sizeBytes: size}
			c.images[name] = i
		}
		i.nodes++
	})
}

// eachImage calls f once for each image name of a node.
func eachImage(n *v1.Node, f func(name string, sizeBytes int64)) {
	if n == nil || len(n.Status.Images) == 0 {
		return
	}
	seen := make(map[string]struct{}, 2*len(n.Status.Images))
	for _, i := range n.Status.Images {
		for _, name := range i.Names {
			if _, ok := seen[name]; ok {
				continue
			}
			seen[name] = struct{}{}
			f(name, i.SizeBytes)
		}
	}
}
