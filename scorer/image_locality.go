package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Sizes between which ImageLocality grades; the upper one is for each container.
const (
	minImageBytes = 23 << 20
	maxImageBytes = 1000 << 20
)

// imageLocality is the plugin ImageLocality: it prefers nodes that have the pod's
// images, the more so the larger they are and the more nodes have them.
type imageLocality struct {
	images []*pb.ImageTerm
	// most is the upper threshold.
	most int64
}

func (r *imageLocality) make(q *pb.Query) *imageLocality {
	*r = imageLocality{images: q.GetImages().GetImages(), most: maxImageBytes * q.GetImages().GetContainers()}
	return r
}

func (r *imageLocality) plugin() pb.Plugin { return pb.Plugin_PLUGIN_IMAGE_LOCALITY }

// grade is the score for the sum of the scaled sizes of the images that a row has.
func (r *imageLocality) grade(sum int64) int64 {
	return maxNodeScore * (min(max(sum, minImageBytes), r.most) - minImageBytes) / (r.most - minImageBytes)
}

func (r *imageLocality) column(_ *Evaluator, t *Table, rows bitmap, into []int64) (some bitmap) {
	clear(into)
	touched := false
	for _, x := range r.images {
		if m := t.images.find(x.GetName()); m != nil {
			m.addTo(into, x.GetScaledBytes(), rows)
			touched = true
		}
	}
	if !touched {
		return nil
	}
	for row, sum := range into {
		if sum != 0 {
			into[row] = r.grade(sum)
		}
	}
	return rows
}

// addTo is for pods of which the table knows one image at the most: all of its rows have the same score.
func (r *imageLocality) addTo(into *localScores, weight int64) bool {
	var known *image
	score := int64(0)
	for _, x := range r.images {
		m := into.table.images.find(x.GetName())
		if m == nil {
			continue
		}
		if known != nil {
			return false
		}
		known, score = m, r.grade(x.GetScaledBytes())
	}
	if score != 0 {
		into.images = append(into.images, imageScore{image: known, score: weight * score})
	}
	return true
}

func (r *imageLocality) score(_ *Evaluator, v view) int64 {
	sum := int64(0)
	for _, x := range r.images {
		if m := v.t.images.find(x.GetName()); m != nil && m.has(v.row) {
			sum += x.GetScaledBytes()
		}
	}
	return r.grade(sum)
}
