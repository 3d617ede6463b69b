package scorer

import (
	"cmp"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// everyAddress is the address that stands for all of a node's.
const everyAddress = "0.0.0.0"

// hostPort is a port of a node.
type hostPort struct {
	ip       string
	port     uint16
	protocol uint8
}

// portUse is a port with the number of the row's pods that hold it.
//
// Differs from upstream: its NodeInfo keeps a set, so the port is free again as soon
// as one of two pods that hold it is gone. Here it stays taken until both are.
type portUse struct {
	hostPort
	pods uint32
}

// newHostPort reads a port. The address of nearly all ports is shared.
func newHostPort(p *pb.HostPort) hostPort {
	h := hostPort{ip: p.GetIp(), port: uint16(p.GetPort()), protocol: uint8(p.GetProtocol())}
	if h.ip == everyAddress {
		h.ip = everyAddress
	}
	return h
}

// comparePorts orders by protocol, port, address: ports that conflict stand together.
func comparePorts(a, b *hostPort) int {
	if c := cmp.Compare(a.protocol, b.protocol); c != 0 {
		return c
	}
	if c := cmp.Compare(a.port, b.port); c != 0 {
		return c
	}
	return strings.Compare(a.ip, b.ip)
}

// conflicts tells whether a pod that wants h collides with one that holds held.
func (h *hostPort) conflicts(held *hostPort) bool {
	return h.port == held.port && h.protocol == held.protocol &&
		(h.ip == held.ip || h.ip == everyAddress || held.ip == everyAddress)
}

// shortList is how many ports of two lists each are compared sooner than searched.
const shortList = 8

// conflict tells whether a port of one sorted list collides with one of another.
func conflict(a, b []portUse) bool {
	if len(a) > shortList || len(b) > shortList {
		return conflictOfMany(a, b)
	}
	return pairsConflict(a, b)
}

// pairsConflict is conflict for short lists.
func pairsConflict(a, b []portUse) bool {
	for i := range b {
		for j := range a {
			if a[j].conflicts(&b[i].hostPort) {
				return true
			}
		}
	}
	return false
}

// conflictOfMany is conflict for long lists: a pod may want, and a node hold, every port there is. Those of the
// shorter list are searched in the longer.
func conflictOfMany(a, b []portUse) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	for i := range a {
		h := a[i].hostPort
		first, _ := findPort(b, hostPort{port: h.port, protocol: h.protocol})
		b = b[first:]
		if len(b) > 0 && b[0].port == h.port && b[0].protocol == h.protocol &&
			(h.ip == everyAddress || isIn(b, h) || isIn(b, hostPort{everyAddress, h.port, h.protocol})) {
			return true
		}
	}
	return false
}

// findPort is the index of a port in a sorted list.
func findPort(list []portUse, h hostPort) (at int, found bool) {
	return slices.BinarySearchFunc(list, h, func(u portUse, h hostPort) int { return comparePorts(&u.hostPort, &h) })
}

func isIn(list []portUse, h hostPort) bool {
	_, found := findPort(list, h)
	return found
}

// fewPorts is how many ports of a pod are read without an allocation.
const fewPorts = 2

// sortedPorts appends ports to an empty list, sorted, each once with how often it is there.
func sortedPorts(list []*pb.HostPort, into []portUse) []portUse {
	into = slices.Grow(into, len(list))
	for _, p := range list {
		into = append(into, portUse{newHostPort(p), 1})
	}
	slices.SortFunc(into, func(a, b portUse) int { return comparePorts(&a.hostPort, &b.hostPort) })
	n := 0
	for _, u := range into {
		if n > 0 && into[n-1].hostPort == u.hostPort {
			into[n-1].pods++
			continue
		}
		into[n] = u
		n++
	}
	return into[:n]
}

// areHeld tells whether all ports of a list are held as often as it has them.
func areHeld(list, held []portUse) bool {
	for i := range list {
		at, found := findPort(held, list[i].hostPort)
		if !found || held[at].pods < list[i].pods {
			return false
		}
	}
	return true
}

// takePorts counts the ports of another list in. Both are sorted.
func takePorts(list, more []portUse) []portUse {
	if len(more) == 0 {
		return list
	}
	from, added := len(list)-1, 0
	for i := range more {
		if at, found := findPort(list, more[i].hostPort); found {
			list[at].pods += more[i].pods
		} else {
			added++
		}
	}
	list = slices.Grow(list, added)[:len(list)+added]
	// From the last to the first: what is not moved yet stands before what is written.
	for i, to := len(more)-1, len(list)-1; to > from; {
		c := 1
		if from >= 0 {
			c = comparePorts(&more[i].hostPort, &list[from].hostPort)
		}
		switch {
		case c == 0: // counted above
			i--
		case c > 0:
			list[to] = more[i]
			i, to = i-1, to-1
		default:
			list[to] = list[from]
			from, to = from-1, to-1
		}
	}
	return list
}

// freePorts is takePorts undone, for ports that are held.
func freePorts(list, fewer []portUse) []portUse {
	if len(fewer) == 0 {
		return list
	}
	n, _ := findPort(list, fewer[0].hostPort)
	at := n
	for ; at < len(list) && len(fewer) > 0; at++ {
		u := list[at]
		for len(fewer) > 0 && comparePorts(&fewer[0].hostPort, &u.hostPort) < 0 {
			fewer = fewer[1:]
		}
		if len(fewer) > 0 && fewer[0].hostPort == u.hostPort {
			u.pods -= min(u.pods, fewer[0].pods)
		}
		if u.pods > 0 {
			list[n] = u
			n++
		}
	}
	return slices.Delete(list, n, at)
}
