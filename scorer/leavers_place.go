package scorer

import (
	"cmp"
	"container/heap"
	"math"
)

// Placement is where members of several classes go once pods have left, and which rows it uses.
type Placement struct {
	of *Leavers
	// Rows are the members' rows, in their order; Index is less than 0 where no row takes the member.
	Rows []PlacedRow
	// Placed counts the members that a row takes.
	Placed int
	// asked tells, of the rows that are used, which amounts members ask for there.
	asked map[int32][]bool
	// queues are the rows of each class, the best first.
	queues []rowQueue
}

// PlacedRow is a row that takes a member.
type PlacedRow struct {
	RowRef
	Index int32 // of Leavers; less than 0: none
}

// Place finds a row for each member, in order, if all that may have to leave leave; classes are the members', by index. A member goes
// where the pods that have to leave are of the least priority, then the fewest, and stays there.
//
// Differs from upstream: there, members go where the scores have them on the emptied cluster, whoever has to leave for that.
func (x *Leavers) Place(classes []int) *Placement {
	p := &Placement{of: x, asked: map[int32][]bool{}, queues: make([]rowQueue, len(x.amounts)/x.width())}
	for class := range p.queues {
		q := &p.queues[class]
		*q = rowQueue{of: x, class: class}
		for row := range x.rows {
			if at, ok := x.standing(class, int32(row)); ok {
				q.list = append(q.list, at)
			}
		}
		heap.Init(q)
	}
	for _, class := range classes {
		row := p.queues[class].take()
		if row < 0 {
			p.Rows = append(p.Rows, PlacedRow{Index: -1})
			continue
		}
		p.put(class, row)
		p.Rows = append(p.Rows, PlacedRow{x.rows[row], row})
		p.Placed++
	}
	return p
}

// put takes from a row what a member of a class takes.
func (p *Placement) put(class int, row int32) {
	left, asked := p.of.leftOf(row), p.asked[row]
	if asked == nil {
		asked = make([]bool, len(left))
		p.asked[row] = asked
	}
	for i, amount := range p.of.amountsOf(class) {
		left[i] -= amount
		asked[i] = asked[i] || amount > 0
	}
}

// Uses tells whether a member is on the row of a pod.
func (p *Placement) Uses(pod int32) bool {
	row := p.of.Pods[pod].row
	return row >= 0 && p.asked[row] != nil
}

// Back has pods come back that have left, if all members keep their rows, and tells whether they have.
func (p *Placement) Back(pods []int32) bool {
	p.of.Back(pods)
	for _, i := range pods {
		row := p.of.Pods[i].row
		if row < 0 || p.asked[row] == nil {
			continue
		}
		for k, left := range p.of.leftOf(row) {
			if left < 0 && p.asked[row][k] {
				p.of.Leave(pods)
				return false
			}
		}
	}
	return true
}

// standing is what a row costs that takes a member of a class; false: it takes none, whoever leaves.
func (x *Leavers) standing(class int, row int32) (rowStanding, bool) {
	at := rowStanding{row: row, priority: math.MinInt64}
	if x.passes[row]>>class&1 == 0 {
		return at, false
	}
	amounts, from := x.amountsOf(class), int32(0)
	if row > 0 {
		from = x.ends[row-1]
	}
	x.saved = append(x.saved[:0], x.leftOf(row)...)
	defer func() { copy(x.leftOf(row), x.saved) }()
	// The row's pods stand with the most important first. Between two rows stand pods of rows that take no member.
	for i := x.ends[row] - 1; !covers(x.leftOf(row), amounts); i-- {
		if i < from {
			return at, false
		}
		if p := &x.Pods[i]; p.row == row {
			x.move(p, +1)
			at.priority = max(at.priority, int64(p.Priority))
			at.pods++
		}
	}
	return at, true
}

// covers tells whether what is left is enough.
func covers(left, amounts []int64) bool {
	for i, amount := range amounts {
		if amount > 0 && left[i] < amount {
			return false
		}
	}
	return true
}

// rowStanding is what has to leave a row for one member more: the highest priority, and how many pods.
type rowStanding struct {
	priority int64
	pods     int32
	row      int32
}

func (a rowStanding) compare(b rowStanding) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.pods, b.pods), cmp.Compare(a.row, b.row))
}

// rowQueue is a heap of rows for a class, as they stood when they were put in: since then, they may have become worse.
type rowQueue struct {
	of    *Leavers
	class int
	list  []rowStanding
}

func (q *rowQueue) Len() int           { return len(q.list) }
func (q *rowQueue) Less(i, j int) bool { return q.list[i].compare(q.list[j]) < 0 }
func (q *rowQueue) Swap(i, j int)      { q.list[i], q.list[j] = q.list[j], q.list[i] }
func (q *rowQueue) Push(any)           {}
func (q *rowQueue) Pop() any {
	n := len(q.list) - 1
	last := q.list[n]
	q.list = q.list[:n]
	return last
}

// take is the best row; less than 0: none takes a member. It stays in the queue.
func (q *rowQueue) take() int32 {
	for len(q.list) > 0 {
		now, ok := q.of.standing(q.class, q.list[0].row)
		switch {
		case !ok:
			heap.Pop(q)
		case now != q.list[0]:
			q.list[0] = now
			heap.Fix(q, 0)
		default:
			return now.row
		}
	}
	return -1
}
