package scorer

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestHostPortsConflict(t *testing.T) {
	const tcp, udp = 1, 2
	for _, c := range []struct {
		name       string
		wanted, in hostPort
		want       bool
	}{
		{"the same", hostPort{"10.0.0.1", 80, tcp}, hostPort{"10.0.0.1", 80, tcp}, true},
		{"two addresses", hostPort{"10.0.0.1", 80, tcp}, hostPort{"10.0.0.2", 80, tcp}, false},
		{"every address is wanted", hostPort{"0.0.0.0", 80, tcp}, hostPort{"10.0.0.2", 80, tcp}, true},
		{"every address is held", hostPort{"10.0.0.1", 80, tcp}, hostPort{"0.0.0.0", 80, tcp}, true},
		{"two protocols", hostPort{"0.0.0.0", 80, tcp}, hostPort{"0.0.0.0", 80, udp}, false},
		{"two ports", hostPort{"0.0.0.0", 80, tcp}, hostPort{"0.0.0.0", 81, tcp}, false},
		{"IPv6 has no address for all", hostPort{"::", 80, tcp}, hostPort{"::1", 80, tcp}, false},
	} {
		if got := c.wanted.conflicts(&c.in); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

func drawPorts(t *rapid.T, name string) []*pb.HostPort {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *pb.HostPort {
		return &pb.HostPort{
			Ip:       rapid.SampledFrom([]string{"!", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::"}).Draw(t, "address"),
			Protocol: pb.Protocol(rapid.IntRange(1, 2).Draw(t, "protocol")), Port: rapid.Uint32Range(1, 12).Draw(t, "port"),
		}
	}), 0, 20).Draw(t, name)
}

func TestPortsConflictAsEachPairDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := sortedPorts(drawPorts(t, "wanted"), nil), sortedPorts(drawPorts(t, "held"), nil)
		if got, want := conflictOfMany(a, b), pairsConflict(a, b); got != want {
			t.Fatalf("%v and %v: got a conflict %t, want %t", a, b, got, want)
		}
	})
}

// TestPortsCountTheirHolders lets pods come and go, some of them with a port twice.
func TestPortsCountTheirHolders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, list := map[hostPort]uint32{}, []portUse(nil)
		var pods [][]*pb.HostPort
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			sign := uint32(1)
			var pod []*pb.HostPort
			if len(pods) > 0 && rapid.Bool().Draw(t, "goes") {
				sign, pod, pods = ^uint32(0), pods[0], pods[1:]
				list = freePorts(list, sortedPorts(pod, nil))
			} else {
				pod = drawPorts(t, "pod")
				pods = append(pods, pod)
				list = takePorts(list, sortedPorts(pod, nil))
			}
			for _, p := range pod {
				if want[newHostPort(p)] += sign; want[newHostPort(p)] == 0 {
					delete(want, newHostPort(p))
				}
			}
			got := map[hostPort]uint32{}
			for i, u := range list {
				if got[u.hostPort] = u.pods; i > 0 && comparePorts(&list[i-1].hostPort, &u.hostPort) >= 0 {
					t.Fatalf("got %v, want it sorted", list)
				}
			}
			if !maps.Equal(got, want) || !areHeld(list, list) {
				t.Fatalf("got %v, want %v", got, want)
			}
			for h, n := range want {
				if areHeld([]portUse{{h, n + 1}}, list) {
					t.Fatalf("got %v held %d times, want %d", h, n+1, n)
				}
			}
		}
	})
}

// TestManyPorts lets pods with nearly all ports come and go, where each look at a pair of ports, and each move of
// the ports behind one, would take minutes.
func TestManyPorts(t *testing.T) {
	table := loadTable(t, 0, benchRows(1))
	pods := [2]*pb.PodUsage{{}, {}}
	q := &pb.Query{ClassId: 1, Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_PORTS}}
	for port := range uint32(60_000) {
		for _, ip := range []string{"0.0.0.0", "10.0.0.1"}[:1+port%2] {
			list := &pods[port%2].HostPorts
			*list = append(*list, &pb.HostPort{Ip: ip, Protocol: pb.Protocol_PROTOCOL_TCP, Port: 1 + port})
		}
		q.HostPorts = append(q.HostPorts, &pb.HostPort{Ip: "0.0.0.0", Protocol: pb.Protocol_PROTOCOL_UDP, Port: 1 + port})
	}
	class, e := newClass(t, q), NewEvaluator(nil)
	for range 10 {
		for _, u := range pods {
			must(table.Apply(&pb.Delta{Change: &pb.Delta_AddPod{AddPod: u}, Decision: 1}))
		}
		for range 10 {
			if got := evaluate(e, table, class, Options{Candidates: 1}); got.Feasible != 1 {
				t.Fatalf("got %d nodes, want the one", got.Feasible)
			}
		}
		for _, u := range pods {
			must(table.Apply(&pb.Delta{Change: &pb.Delta_RemovePod{RemovePod: u}}))
		}
	}
	if n := len(table.ports[0]); n != 1 { // the node's own
		t.Errorf("got %d ports held, want 1", n)
	}
}
