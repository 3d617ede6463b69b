package summary

import (
	"fmt"
	"strings"
	"unicode"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// maxPodGroups is how many pod groups are shown, and maxNamed how many nodes or victims of each by name.
	maxPodGroups = 20
	maxNamed     = 8
)

// podGroups tells of each pod group of a simulation whether it starts, where, and who has to leave.
func (p *page) podGroups(list []*pb.PodGroupOutcome) {
	if len(list) == 0 {
		return
	}
	p.heading("Pod groups")
	for _, x := range list[:min(len(list), maxPodGroups)] {
		g := x.GetStatus()
		starts := g.GetState() == "scheduled"
		word := p.paint(green, "starts")
		if !starts {
			word = p.paint(yellow, "does not start")
		}
		p.linef("%s %s: %s", oneLine(g.GetNamespace()+"/"+g.GetName()), word, oneLine(g.GetVerdict()))
		if where := placesOf(x.GetNodes()); where != "" {
			p.linef("  %s", where)
		}
		if n := len(x.GetVictims()); n > 0 {
			p.linef("  %s to leave for it: %s", plural(uint64(n), "pod"), named(x.GetVictims()))
		}
	}
	if left := len(list) - maxPodGroups; left > 0 {
		p.linef("… and %d more", left)
	}
}

// placesOf tells where members are, domain by domain.
func placesOf(nodes []*pb.PodGroupNode) string {
	var parts []string
	for i := 0; i < len(nodes); {
		domain, members := nodes[i].GetDomain(), uint64(0)
		var names []string
		for ; i < len(nodes) && nodes[i].GetDomain() == domain; i++ {
			members += uint64(nodes[i].GetMembers())
			names = append(names, fmt.Sprintf("%s (%d)", nodes[i].GetNode(), nodes[i].GetMembers()))
		}
		part := plural(members, "member") + " on " + plural(uint64(len(names)), "node")
		if domain != "" {
			part += " in " + oneLine(domain)
		}
		parts = append(parts, part+": "+named(names))
	}
	return strings.Join(parts, "; ")
}

// named are some names, and how many more there are.
func named(names []string) string {
	text := oneLine(strings.Join(names[:min(len(names), maxNamed)], ", "))
	if left := len(names) - maxNamed; left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// oneLine is somebody else's text without what a terminal would take for something else.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
