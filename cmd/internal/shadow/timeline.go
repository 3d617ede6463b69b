package shadow

import "time"

// timeline samples both worlds. The distance of its points doubles where they would be too many.
type timeline struct {
	points []Point
	every  time.Duration
	next   time.Time
}

// firstEvery is how far the first points are apart.
const firstEvery = time.Second

// due tells whether it is time for a point.
func (t *timeline) due(now time.Time) bool { return !now.Before(t.next) }

// add adds a point.
func (t *timeline) add(p Point) {
	if t.every == 0 {
		t.every = firstEvery
	}
	if len(t.points) == MaxPoints-1 { // one place is for the last
		for i := range MaxPoints / 2 {
			t.points[i] = t.points[2*i]
		}
		t.points = t.points[:MaxPoints/2]
		t.every *= 2
	}
	t.points = append(t.points, p)
	t.next = p.At.Add(t.every)
}
