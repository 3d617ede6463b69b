package cache

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TestDevicesAreKeptForNodes compares tables with what the cache was told, whichever of nodes and devices come first.
func TestDevicesAreKeptForNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(2)
		must := func(err error) {
			if err != nil {
				t.Fatalf("%v", err)
			}
		}
		want := map[string]*pb.DeviceSlice{}
		uses := map[string]*pb.DeviceUse{}
		shared := 0
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			node := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node")
			switch rapid.IntRange(0, 7).Draw(t, "change") {
			case 0:
				_, err := c.SetNode(newNode(node))
				must(err)
			case 1:
				_, err := c.RemoveNode(node)
				must(err)
			case 2, 3:
				want[node] = &pb.DeviceSlice{Name: "s", Driver: "d", Pool: node, SliceCount: 1, Devices: []*pb.Device{{Name: fmt.Sprint(len(want))}}}
				must(c.SetSlice(node, want[node]))
			case 4:
				delete(want, node)
				must(c.RemoveSlice(node, "d", node, "s"))
			case 5:
				u := &pb.DeviceUse{Driver: "d", Pool: node, Device: "0", Dedicated: rapid.Bool().Draw(t, "taken")}
				if delete(uses, node); u.Dedicated {
					uses[node] = u
				}
				must(c.UseDevices(node, u))
			case 6:
				shared = 1
				must(c.SetSharedSlice(&pb.DeviceSlice{Name: "s", Driver: "d", Pool: "all", Reach: &pb.DeviceReach{}}))
				must(c.UseSharedDevices(&pb.DeviceUse{Driver: "d", Pool: "all", Device: "0", Dedicated: true}))
			default:
				shared = 0
				must(c.RemoveSharedSlice("d", "all", "s"))
				must(c.UseSharedDevices(&pb.DeviceUse{Driver: "d", Pool: "all", Device: "0"}))
			}
		}
		for node, n := range c.nodes {
			if n.object == nil {
				continue
			}
			for x := range c.Table(int(n.row.Shard)).Devices {
				if x.Shared || x.Row != n.row.Index {
					continue
				}
				if len(x.Slices) > 0 && !proto.Equal(x.Slices[0], want[node]) || x.Uses != nil && !proto.Equal(x.Uses.Uses[0], uses[node]) {
					t.Fatalf("node %s: got %v, want %v and %v", node, x, want[node], uses[node])
				}
			}
			if got, parts := ownParts(c, n), known(want[node] != nil)+known(uses[node] != nil); got != parts {
				t.Fatalf("node %s: got %d parts, want %d", node, got, parts)
			}
		}
		for i := range c.NumShards() {
			if got := sharedParts(c, i); got != 2*shared {
				t.Fatalf("shard %d: got %d shared parts, want %d", i, got, 2*shared)
			}
		}
		if keys := len(want) + len(uses); keys == 0 && len(c.devices) > 0 {
			t.Fatalf("got devices of %d nodes, want none", len(c.devices))
		}
	})
}

func known(is bool) int {
	if is {
		return 1
	}
	return 0
}

// ownParts counts what a table has of a node's devices.
func ownParts(c *Cache, n *node) (parts int) {
	for x := range c.Table(int(n.row.Shard)).Devices {
		if !x.Shared && x.Row == n.row.Index {
			parts++
		}
	}
	return parts
}

// sharedParts counts what a table has of shared devices.
func sharedParts(c *Cache, shard int) (parts int) {
	for x := range c.Table(shard).Devices {
		parts += known(x.Shared)
	}
	return parts
}
