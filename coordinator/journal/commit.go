package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// commitBytes is how many bytes of members a part of a commit has at the most, but for one member alone: several parts share a request to
// etcd, which takes 1.5 MiB. 8,192 members with the longest names are 10 parts.
const commitBytes = 256 << 10

// Commit is where the members of a pod group go that is placed.
type Commit struct {
	PodGroup types.NamespacedName
	// Term is the leader's, and Seq the number of the first decision.
	Term, Seq uint64
	Members   []*pb.GangMember
	// Keys are what the parts are kept under, also of those that don't count, as they are not all there.
	Keys []string
}

// parts are what is kept of a commit, by key.
func (c *Commit) parts() map[string]*pb.GangCommit {
	var cuts [][]*pb.GangMember
	from, size := 0, 0
	for i, m := range c.Members {
		n := proto.Size(m)
		n = protowire.SizeTag(6) + protowire.SizeBytes(n)
		if size += n; size > commitBytes && i > from {
			cuts, from, size = append(cuts, c.Members[from:i]), i, n
		}
	}
	cuts = append(cuts, c.Members[from:])
	out := map[string]*pb.GangCommit{}
	c.Keys = c.Keys[:0]
	for i, members := range cuts {
		part := &pb.GangCommit{
			PodGroup: c.PodGroup.String(), Term: c.Term, Seq: c.Seq, Part: uint32(i), Parts: uint32(len(cuts)), Members: members,
		}
		key := keyOf(part)
		out[key], c.Keys = part, append(c.Keys, key)
	}
	return out
}

// keyOf is what a part is kept under.
func keyOf(x *pb.GangCommit) string {
	return fmt.Sprintf("%s/%016x-%016x-%04x", x.GetPodGroup(), x.GetTerm(), x.GetSeq(), x.GetPart())
}

// Commits puts parts together: one commit for each pod group, with the member's node by the newest commit that has all of its parts.
// What can't be read is nil. Its keys are among the others' of the pod group, or in a commit without members.
func Commits(parts map[string]*pb.GangCommit) []Commit {
	type id struct {
		group     string
		term, seq uint64
	}
	whole := map[id][]*pb.GangCommit{}
	groups := map[string][]string{} // keys
	for key, x := range parts {
		group := key[:max(strings.LastIndexByte(key, '/'), 0)]
		groups[group] = append(groups[group], key)
		if x != nil && keyOf(x) == key {
			id := id{group, x.GetTerm(), x.GetSeq()}
			whole[id] = append(whole[id], x)
		}
	}
	byGroup := map[string][]*pb.GangCommit{}
	for id, list := range whole {
		other := func(x *pb.GangCommit) bool { return x.GetParts() != list[0].GetParts() }
		if len(list) == int(list[0].GetParts()) && !slices.ContainsFunc(list, other) {
			byGroup[id.group] = append(byGroup[id.group], list...)
		}
	}
	var out []Commit
	for group, keys := range groups {
		namespace, name, _ := strings.Cut(group, "/")
		c := Commit{PodGroup: types.NamespacedName{Namespace: namespace, Name: name}, Keys: keys}
		slices.Sort(c.Keys)
		c.merge(byGroup[group])
		out = append(out, c)
	}
	slices.SortFunc(out, older)
	return out
}

// merge takes the members of commits of a pod group.
func (c *Commit) merge(parts []*pb.GangCommit) {
	slices.SortFunc(parts, func(a, b *pb.GangCommit) int { return strings.Compare(keyOf(a), keyOf(b)) })
	at := map[string]int{}
	for _, x := range parts {
		c.Term, c.Seq = x.GetTerm(), x.GetSeq()
		for _, m := range x.GetMembers() {
			if i, known := at[m.GetUid()]; known {
				c.Members[i] = m
				continue
			}
			at[m.GetUid()] = len(c.Members)
			c.Members = append(c.Members, m)
		}
	}
}

// older orders commits by their decisions.
func older(a, b Commit) int {
	return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Seq, b.Seq), strings.Compare(a.PodGroup.String(), b.PodGroup.String()))
}
