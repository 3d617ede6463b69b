package config

const (
	// minNodesToFind is how many feasible nodes upstream always looks for, and leastPercent the lowest percentage that it chooses by
	// itself: it begins with half of the nodes, and takes one of a hundred less for each 125 nodes.
	minNodesToFind = 100
	leastPercent   = 5
	fewPercent     = 50
	nodesAPercent  = 125
)

// NodesToFind is after how many feasible nodes upstream stops looking for a pod of a profile, in a cluster of so many nodes, by
// percentageOfNodesToScore. This scheduler looks at all.
func (c *Config) NodesToFind(profile string, nodes int) int {
	percent := int(*c.completed.PercentageOfNodesToScore)
	for i := range c.profiles {
		if own := c.completed.Profiles[i].PercentageOfNodesToScore; c.profiles[i].name == profile && own != nil {
			percent = int(*own)
		}
	}
	if nodes < minNodesToFind || percent >= 100 {
		return nodes
	}
	if percent == 0 {
		percent = max(fewPercent-nodes/nodesAPercent, leastPercent)
	}
	return max(nodes*percent/100, minNodesToFind)
}
