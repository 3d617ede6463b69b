package queue

// Rejoin has a pod in flight, whose attempt waited for somebody, know all events so far: it
// is decided on what is now.
func (q *Queue) Rejoin(p *Pod) {
	if p.place == InFlight {
		q.flights.turn(p)
	}
}
