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
