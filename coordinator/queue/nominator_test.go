package queue

import (
	"fmt"
	"strings"
)

// nominated prints who is nominated where.
func (s *script) nominated() string {
	var out []string
	for _, node := range s.q.NominatedNodes() {
		var names []string
		for _, p := range s.q.Nominated(node) {
			names = append(names, p.Obj.Name)
		}
		out = append(out, fmt.Sprintf("%s: %s", node, strings.Join(names, " ")))
	}
	if len(out) == 0 {
		return "nobody"
	}
	return strings.Join(out, ", ")
}

// nominationEnds updates a pod, or deletes it without words, as the scheduler's loop does:
// the event of its nomination comes behind.
func (s *script) nominationEnds(name string, args []string) string {
	old := s.pods[name].Obj
	if len(args) == 0 {
		s.q.Delete(old.UID)
		return s.moved(NominationEnded(old, nil))
	}
	now := pod(name, args)
	s.q.Update(now)
	return s.moved(NominationEnded(old, now))
}
