package audit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// amounts are resources in their smallest unit: thousandths of a core, bytes, pieces.
type amounts map[v1.ResourceName]int64

func amountsOf(l v1.ResourceList) amounts {
	a := amounts{}
	for name, q := range l {
		if name == v1.ResourceCPU {
			a[name] = q.MilliValue()
			continue
		}
		a[name] = q.Value()
	}
	return a
}

func (a amounts) add(b amounts, times int64) {
	for name, v := range b {
		a[name] += times * v
	}
}

func (a amounts) atLeast(b amounts) {
	for name, v := range b {
		a[name] = max(a[name], v)
	}
}

func (a amounts) plus(b amounts) amounts {
	sum := amounts{}
	sum.add(a, 1)
	sum.add(b, 1)
	return sum
}

// demand is what a pod takes of its node: the most that its containers need at any
// moment of its life, with its overhead and its own place.
//
//	start                                                   run
//	init 1 │ sidecars so far + init 2 │ …  │ sidecars + containers
func demand(p *v1.Pod) amounts {
	sidecars, most := amounts{}, amounts{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		r := amountsOf(c.Resources.Requests)
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			sidecars.add(r, 1)
			most.atLeast(sidecars)
			continue
		}
		most.atLeast(sidecars.plus(r))
	}
	running := sidecars.plus(nil)
	for i := range p.Spec.Containers {
		running.add(amountsOf(p.Spec.Containers[i].Resources.Requests), 1)
	}
	most.atLeast(running)
	if p.Spec.Resources != nil {
		for name, v := range amountsOf(p.Spec.Resources.Requests) {
			most[name] = v
		}
	}
	most.add(amountsOf(p.Spec.Overhead), 1)
	most[v1.ResourcePods] = 1
	return most
}

// port is a host port that a pod takes.
type port struct {
	ip       string // empty: every address
	protocol v1.Protocol
	number   int32
}

func (p port) String() string { return fmt.Sprintf("%s:%d/%s", p.ip, p.number, p.protocol) }

func (p port) conflicts(q port) bool {
	return p.number == q.number && p.protocol == q.protocol && (p.ip == q.ip || p.ip == "" || q.ip == "")
}

// ports are the host ports that a pod takes while it runs.
func ports(p *v1.Pod) []port {
	var out []port
	take := func(c *v1.Container) {
		for _, cp := range c.Ports {
			if cp.HostPort <= 0 {
				continue
			}
			h := port{ip: strings.TrimSpace(cp.HostIP), protocol: cp.Protocol, number: cp.HostPort}
			if h.ip == "0.0.0.0" {
				h.ip = ""
			}
			if h.protocol == "" {
				h.protocol = v1.ProtocolTCP
			}
			out = append(out, h)
		}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			take(c)
		}
	}
	for i := range p.Spec.Containers {
		take(&p.Spec.Containers[i])
	}
	return out
}
