package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
)

// PrioritySort is the order of the queue.
const PrioritySort = "PrioritySort"

func prioritySort() *Rule {
	return &Rule{
		Name:   PrioritySort,
		Points: []framework.Point{framework.QueueSort},
		Loop:   true,
	}
}
