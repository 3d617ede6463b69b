package rules

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodePorts is the plugin for host ports.
const NodePorts = "NodePorts"

func nodePorts() *Rule {
	return &Rule{
		Name: NodePorts,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_NODE_PORTS,
			FilterAsks: func(q *pb.Query) bool { return len(q.GetHostPorts()) > 0 },
		},
		Points: []framework.Point{framework.PreFilter, framework.Filter},
		Hints:  queue.NodePorts,
		Words:  portWords(),
	}
}

func portWords() *Words {
	return &Words{
		Says: []string{"node(s) didn't have free ports for the requested pod ports"},
		Lacks: func(r *Refused) []string {
			wanted := hostPorts(r.Pod)
			if !r.Named {
				return []string{"host port " + portList(wanted)}
			}
			var out []string
			for _, w := range wanted {
				by := r.named(func(p *v1.Pod) bool {
					return slices.ContainsFunc(hostPorts(p), func(x v1.ContainerPort) bool { return collide(&w, &x) })
				})
				if by != "" {
					out = append(out, fmt.Sprintf("host port %s is used by %s", portText(&w), by))
				}
			}
			return out
		},
		Wants: func(a *Asked) []Want {
			return []Want{{Cause: "host port " + portList(hostPorts(a.Pod)) + " is in use", Help: "more nodes, or a pod without hostPort"}}
		},
	}
}

// hostPorts are the ports that a pod takes of its node.
func hostPorts(p *v1.Pod) (out []v1.ContainerPort) {
	add := func(list []v1.ContainerPort) {
		for _, x := range list {
			if x.HostPort > 0 {
				out = append(out, x)
			}
		}
	}
	for i := range p.Spec.InitContainers {
		if always := p.Spec.InitContainers[i].RestartPolicy; always != nil && *always == v1.ContainerRestartPolicyAlways {
			add(p.Spec.InitContainers[i].Ports)
		}
	}
	for i := range p.Spec.Containers {
		add(p.Spec.Containers[i].Ports)
	}
	return out
}

// collide: two pods can not have these ports of one node.
func collide(a, b *v1.ContainerPort) bool {
	everywhere := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	return a.HostPort == b.HostPort && cmp.Or(a.Protocol, v1.ProtocolTCP) == cmp.Or(b.Protocol, v1.ProtocolTCP) &&
		(everywhere(a.HostIP) || everywhere(b.HostIP) || a.HostIP == b.HostIP)
}

func portText(x *v1.ContainerPort) string {
	text := fmt.Sprintf("%d/%s", x.HostPort, cmp.Or(x.Protocol, v1.ProtocolTCP))
	if x.HostIP != "" {
		text = x.HostIP + ":" + text
	}
	return text
}

func portList(list []v1.ContainerPort) string {
	var words []string
	for i := range list {
		words = append(words, portText(&list[i]))
	}
	return listed(words)
}
