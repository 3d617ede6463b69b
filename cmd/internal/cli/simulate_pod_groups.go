package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shardsched/shardsched/coordinator"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// simulatedPodGroups is how many pod groups a simulation tells of: those first that do not run.
const simulatedPodGroups = 1000

// podGroupOutcomes tells what became of each pod group: where it is or why it waits, and who had to leave for it.
func podGroupOutcomes(ctx context.Context, s *coordinator.Scheduler) (out []*pb.PodGroupOutcome, err error) {
	var all []*pb.PodGroupStatus
	for token := ""; ; {
		page, err := s.PodGroups(ctx, &pb.ListPodGroupsRequest{Limit: podGroupPage, ContinueToken: token})
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetPodGroups()...)
		if token = page.GetContinueToken(); token == "" {
			break
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	victims, err := podGroupVictims(ctx, s)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b *pb.PodGroupStatus) int { return cmp.Compare(startRank(a), startRank(b)) })
	for _, g := range all[:min(len(all), simulatedPodGroups)] {
		x := &pb.PodGroupOutcome{Status: g, Victims: victims[g.GetNamespace()+"/"+g.GetName()]}
		g.Since = nil // of no meaning to who reads of a simulation
		if x.Nodes, err = podGroupNodes(ctx, s, g); err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// startRank puts those first that do not start.
func startRank(g *pb.PodGroupStatus) int {
	if g.GetState() == "scheduled" {
		return 1
	}
	return 0
}

// podGroupNodes are the nodes of a pod group's members, with how many each has.
func podGroupNodes(ctx context.Context, s *coordinator.Scheduler, g *pb.PodGroupStatus) ([]*pb.PodGroupNode, error) {
	byNode := map[string]*pb.PodGroupNode{}
	for token := ""; ; {
		page, err := s.PodGroup(ctx, &pb.ExplainPodGroupRequest{
			Namespace: g.GetNamespace(), Name: g.GetName(), Limit: podGroupPage, ContinueToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, m := range page.GetMembers() {
			if m.GetNode() == "" {
				continue
			}
			n := byNode[m.GetNode()]
			if n == nil {
				n = &pb.PodGroupNode{Node: m.GetNode(), Domain: m.GetDomain()}
				byNode[m.GetNode()] = n
			}
			n.Members++
		}
		if token = page.GetContinueToken(); token == "" {
			break
		}
	}
	return slices.SortedFunc(maps.Values(byNode), func(a, b *pb.PodGroupNode) int {
		return cmp.Or(strings.Compare(a.GetDomain(), b.GetDomain()), strings.Compare(a.GetNode(), b.GetNode()))
	}), nil
}

// podGroupVictims are the pods that had to leave, by the pod group that they left for.
func podGroupVictims(ctx context.Context, s *coordinator.Scheduler) (map[string][]string, error) {
	out := map[string][]string{}
	for token := ""; ; {
		page, err := s.Decisions(ctx, &pb.ListDecisionsRequest{Outcome: pb.OutcomePreempting, Limit: podGroupPage, ContinueToken: token})
		if err != nil {
			return nil, fmt.Errorf("who had to leave: %w", err)
		}
		for _, d := range page.GetDecisions() {
			if g := d.GetDecision().GetPodGroup(); g != "" {
				out[g] = append(out[g], d.GetDecision().GetVictims()...)
			}
		}
		if token = page.GetContinueToken(); token == "" {
			break
		}
	}
	for g, list := range out {
		slices.Sort(list)
		out[g] = slices.Compact(list)
	}
	return out, nil
}
