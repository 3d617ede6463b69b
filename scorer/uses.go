package scorer

// Uses adds up how the table is used: it asks take for every resource, pods included, and tells what that
// returns how much each row that holds a node has of it and how much its pods request.
func (t *Table) Uses(take func(resource string) func(allocatable, requested int64)) {
	for r := range t.resources {
		add := take(r.name)
		for row := range t.live.all {
			add(r.allocatable.at(row), r.requested.at(row))
		}
	}
	add := take("pods")
	for row := range t.live.all {
		add(t.allowedPods[row], t.pods[row])
	}
}

// Amounts tells take how much a row that holds a node has of each of its resources, pods included, and how much its pods request.
func (t *Table) Amounts(row uint32, take func(resource string, allocatable, requested int64)) {
	for _, r := range t.fixed {
		take(r.name, r.allocatable.at(row), r.requested.at(row))
	}
	take("pods", t.allowedPods[row], t.pods[row])
	for _, r := range t.scalarsOf[row] {
		take(r.name, r.allocatable.at(row), r.requested.at(row))
	}
}

// Amount is how much a row that holds a node has of one resource, and how much its pods request.
func (t *Table) Amount(row uint32, resource string) (allocatable, requested int64) {
	if resource == "pods" {
		return t.allowedPods[row], t.pods[row]
	}
	r := t.resource(newResourceRef(resource))
	if r == nil {
		return 0, 0
	}
	return r.allocatable.at(row), r.requested.at(row)
}

// Unschedulable tells whether a row's node is cordoned.
func (t *Table) Unschedulable(row uint32) bool { return t.unschedulable.has(row) }
