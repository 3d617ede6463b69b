package compile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Priority is a pod's priority; a pod without one has 0.
func Priority(p *v1.Pod) int32 {
	if p.Spec.Priority != nil {
		return *p.Spec.Priority
	}
	return 0
}

// Usage is what a pod takes of its node, as NodeInfo counts it. Host ports are sorted by protocol, port and address.
func Usage(p *v1.Pod) *pb.PodUsage {
	p = tamed(p)
	held := heldRequests(p)
	return usage(requests{held: held, nonZero: heldNonZero(p, held)}, hostPorts(p))
}

// usage is what a pod of these requests and ports takes.
func usage(asked requests, ports []*pb.HostPort) *pb.PodUsage {
	return &pb.PodUsage{
		Requests:           resources(asked.held, nil),
		NonZeroMilliCpu:    amount(asked.nonZero[v1.ResourceCPU], milli),
		NonZeroMemoryBytes: amount(asked.nonZero[v1.ResourceMemory], ones),
		HostPorts:          ports,
	}
}

// SameUsage tells whether two pods certainly have the same Usage, as two objects of one pod mostly
// do: they have the same containers, and nothing else that Usage reads. Otherwise the
// usages have to be compared.
func SameUsage(a, b *v1.Pod) bool {
	return a == b || sameContainers(a.Spec.Containers, b.Spec.Containers) && sameContainers(a.Spec.InitContainers, b.Spec.InitContainers) &&
		onlyContainers(a) && onlyContainers(b)
}

// sameContainers tells whether two lists are one in memory, or certainly the same in what Usage reads. An API server's
// update of a pod shares no memory with what it replaces.
func sameContainers(a, b []v1.Container) bool {
	if len(a) != len(b) || len(a) == 0 || &a[0] == &b[0] {
		return len(a) == len(b)
	}
	for i := range a {
		if x, y := &a[i], &b[i]; x.Name != y.Name || isSidecar(x) != isSidecar(y) || !slices.Equal(x.Ports, y.Ports) ||
			!maps.Equal(x.Resources.Requests, y.Resources.Requests) {
			return false
		}
	}
	return true
}

// onlyContainers tells whether a pod's usage follows from its containers.
func onlyContainers(p *v1.Pod) bool {
	return len(p.Spec.Overhead) == 0 && p.Spec.Resources == nil && !hasStatusResources(p)
}

// maxPort is the highest port there is.
const maxPort = 65535

// hostPorts lists the host ports that a pod takes for as long as it runs: those
// of its containers and sidecars, sorted by comparePorts, each once.
func hostPorts(p *v1.Pod) []*pb.HostPort {
	var out []*pb.HostPort
	add := func(c *v1.Container) {
		for i := range c.Ports {
			if h := hostPort(&c.Ports[i]); h != nil {
				out = append(out, h)
			}
		}
	}
	for i := range p.Spec.InitContainers {
		if isSidecar(&p.Spec.InitContainers[i]) {
			add(&p.Spec.InitContainers[i])
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	slices.SortFunc(out, comparePorts)
	return slices.CompactFunc(out, func(a, b *pb.HostPort) bool { return comparePorts(a, b) == 0 })
}

// hostPort translates a port, with upstream's defaults; nil where it takes none of
// the node's.
func hostPort(port *v1.ContainerPort) *pb.HostPort {
	if port.HostPort <= 0 || port.HostPort > maxPort || !usable(port.HostIP) {
		return nil
	}
	h := &pb.HostPort{Ip: port.HostIP, Port: uint32(port.HostPort)}
	if h.Ip == "" {
		h.Ip = "0.0.0.0"
	}
	switch port.Protocol {
	case "", v1.ProtocolTCP:
		h.Protocol = pb.Protocol_PROTOCOL_TCP
	case v1.ProtocolUDP:
		h.Protocol = pb.Protocol_PROTOCOL_UDP
	case v1.ProtocolSCTP:
		h.Protocol = pb.Protocol_PROTOCOL_SCTP
	default:
		return nil
	}
	return h
}

// comparePorts orders by protocol, port, address: ports that conflict stand together.
func comparePorts(a, b *pb.HostPort) int {
	return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), strings.Compare(a.Ip, b.Ip))
}
