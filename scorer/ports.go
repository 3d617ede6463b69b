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

func compareHostPorts(a, b hostPort) int {
	if c := strings.Compare(a.ip, b.ip); c != 0 {
		return c
	}
	if c := cmp.Compare(a.protocol, b.protocol); c != 0 {
		return c
	}
	return cmp.Compare(a.port, b.port)
}

// conflicts tells whether a pod that wants h collides with one that holds held.
func (h *hostPort) conflicts(held *hostPort) bool {
	return h.port == held.port && h.protocol == held.protocol &&
		(h.ip == held.ip || h.ip == everyAddress || held.ip == everyAddress)
}

// holders is the place of a port in a sorted list, and how many pods hold it.
func holders(list []portUse, h hostPort) (at int, pods uint32) {
	at, found := slices.BinarySearchFunc(list, h, func(u portUse, h hostPort) int { return compareHostPorts(u.hostPort, h) })
	if found {
		pods = list[at].pods
	}
	return at, pods
}

// takePort counts one more holder of a port.
func takePort(list []portUse, h hostPort) []portUse {
	at, pods := holders(list, h)
	if pods > 0 {
		list[at].pods++
		return list
	}
	return slices.Insert(list, at, portUse{hostPort: h, pods: 1})
}

// freePort counts one holder less of a port that is held.
func freePort(list []portUse, h hostPort) []portUse {
	at, pods := holders(list, h)
	if pods > 1 {
		list[at].pods--
		return list
	}
	return slices.Delete(list, at, at+1)
}
