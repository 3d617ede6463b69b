package objects

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
)

const maxPort = 65535

func (c *checker) podSpec(s *v1.PodSpec, p *field.Path) {
	if len(s.Containers) == 0 {
		c.add(field.Required(p.Child("containers"), ""))
	}
	names, ports := map[string]bool{}, map[v1.ContainerPort]bool{}
	for i := range s.InitContainers {
		c.container(p.Child("initContainers").Index(i), &s.InitContainers[i], s.HostNetwork, names)
	}
	for i := range s.Containers {
		c.container(p.Child("containers").Index(i), &s.Containers[i], s.HostNetwork, names)
		c.hostPorts(p.Child("containers").Index(i).Child("ports"), s.Containers[i].Ports, ports)
	}
	c.podLevelResources(p.Child("resources"), s.Resources)
	c.resources(p.Child("overhead"), s.Overhead)
	if s.NodeName != "" {
		c.subdomain(p.Child("nodeName"), s.NodeName)
	}
	c.subdomain(p.Child("schedulerName"), s.SchedulerName)
	c.gates(p, s)
	c.priority(p, s)
	c.labels(p.Child("nodeSelector"), s.NodeSelector)
	c.tolerations(p.Child("tolerations"), s.Tolerations)
	c.affinity(p.Child("affinity"), s.Affinity)
	c.spreadConstraints(p.Child("topologySpreadConstraints"), s.TopologySpreadConstraints)
	c.volumes(p.Child("volumes"), s.Volumes)
	c.podClaims(p.Child("resourceClaims"), s.ResourceClaims)
	if s.SchedulingGroup != nil {
		c.schedulingGroup(p.Child("schedulingGroup", "podGroupName"), s.SchedulingGroup.PodGroupName)
	}
}

func (c *checker) container(p *field.Path, ct *v1.Container, hostNetwork bool, names map[string]bool) {
	c.dnsLabel(p.Child("name"), ct.Name)
	unique(c, names, p.Child("name"), short(ct.Name))
	c.requirements(p.Child("resources"), &ct.Resources)
	if ct.RestartPolicy != nil {
		oneOf(c, p.Child("restartPolicy"), *ct.RestartPolicy, v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever,
			v1.ContainerRestartPolicyOnFailure)
	}
	for i := range ct.Ports {
		c.port(p.Child("ports").Index(i), &ct.Ports[i], hostNetwork)
	}
}

func (c *checker) requirements(p *field.Path, r *v1.ResourceRequirements) {
	c.resources(p.Child("limits"), r.Limits)
	c.resources(p.Child("requests"), r.Requests)
	c.containerResourceNames(p.Child("limits"), r.Limits)
	c.containerResourceNames(p.Child("requests"), r.Requests)
	c.notAbove(p.Child("requests"), r.Requests, r.Limits)
}

// containerResourceNames lets pass the standard names and those with a domain.
func (c *checker) containerResourceNames(p *field.Path, list v1.ResourceList) {
	for _, name := range keysOf(list) {
		switch {
		case name == v1.ResourceCPU, name == v1.ResourceMemory, name == v1.ResourceEphemeralStorage:
		case isHugePages(name), strings.Contains(string(name), "/"):
		default:
			c.invalid(p, short(string(name)), "must be a standard resource for containers, or fully qualified such as example.com/name")
		}
	}
}

func (c *checker) port(p *field.Path, port *v1.ContainerPort, hostNetwork bool) {
	c.between(p.Child("containerPort"), int64(port.ContainerPort), 1, maxPort)
	if port.HostPort != 0 {
		c.between(p.Child("hostPort"), int64(port.HostPort), 1, maxPort)
		if hostNetwork && port.HostPort != port.ContainerPort {
			c.invalid(p.Child("hostPort"), port.HostPort, "must match `containerPort` when `hostNetwork` is true")
		}
	}
	oneOf(c, p.Child("protocol"), port.Protocol, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)
	c.ip(p.Child("hostIP"), port.HostIP)
}

// hostPorts refuses a pod that would take a port of the node twice.
func (c *checker) hostPorts(p *field.Path, ports []v1.ContainerPort, taken map[v1.ContainerPort]bool) {
	for i, port := range ports {
		if port.HostPort == 0 {
			continue
		}
		identity := v1.ContainerPort{HostPort: port.HostPort, Protocol: port.Protocol, HostIP: port.HostIP}
		if taken[identity] {
			c.add(field.Duplicate(p.Index(i).Child("hostPort"), port.HostPort))
		}
		taken[identity] = true
	}
}

func (c *checker) podLevelResources(p *field.Path, r *v1.ResourceRequirements) {
	if r == nil {
		return
	}
	for _, named := range []struct {
		p    *field.Path
		list v1.ResourceList
	}{{p.Child("limits"), r.Limits}, {p.Child("requests"), r.Requests}} {
		c.resources(named.p, named.list)
		for _, name := range keysOf(named.list) {
			if !resourcehelper.IsSupportedPodLevelResource(name) {
				c.add(field.NotSupported(named.p, short(string(name)), []string{"cpu", "memory", "hugepages-*"}))
			}
		}
	}
	c.notAbove(p.Child("requests"), r.Requests, r.Limits)
}

func (c *checker) gates(p *field.Path, s *v1.PodSpec) {
	gates := p.Child("schedulingGates")
	seen := map[string]bool{}
	for i, g := range s.SchedulingGates {
		c.qualifiedName(gates.Index(i).Child("name"), g.Name)
		unique(c, seen, gates.Index(i).Child("name"), short(g.Name))
	}
	if len(s.SchedulingGates) > 0 && s.NodeName != "" {
		c.add(field.Forbidden(p.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
}

func (c *checker) priority(p *field.Path, s *v1.PodSpec) {
	if want := systemPriority(s.PriorityClassName); want != nil && s.Priority != nil && *want != *s.Priority {
		c.invalid(p.Child("priority"), *s.Priority, "must be %d, the value of priorityClassName %s", *want, s.PriorityClassName)
	}
	if s.PriorityClassName != "" {
		c.subdomain(p.Child("priorityClassName"), s.PriorityClassName)
	}
	if s.PreemptionPolicy != nil {
		oneOf(c, p.Child("preemptionPolicy"), *s.PreemptionPolicy, v1.PreemptLowerPriority, v1.PreemptNever)
	}
}
