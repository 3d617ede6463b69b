package chart

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// endpoint is who talks or is talked to: a pod, or an address outside of the cluster.
type endpoint struct {
	name      string
	namespace string // empty: no pod
	labels    map[string]string
	ports     []v1.ContainerPort
	address   netip.Addr
}

// policed judges connections as the API's documentation of NetworkPolicy says.
type policed []*networkingv1.NetworkPolicy

// allows tells whether one may connect to the other's port: both must let it be.
func (p policed) allows(from, to endpoint, protocol v1.Protocol, port int32) bool {
	return p.lets(networkingv1.PolicyTypeEgress, from, to, to, protocol, port) &&
		p.lets(networkingv1.PolicyTypeIngress, to, from, to, protocol, port)
}

// lets tells whether the policies of one way that select a pod let it talk to the other; the port is the target's.
func (p policed) lets(way networkingv1.PolicyType, of, other, target endpoint, protocol v1.Protocol, port int32) bool {
	isolated := false
	for _, policy := range p {
		if of.namespace != policy.Namespace || !matches(&policy.Spec.PodSelector, of.labels) || !slices.Contains(policy.Spec.PolicyTypes, way) {
			continue
		}
		isolated = true
		if way == networkingv1.PolicyTypeIngress {
			for _, r := range policy.Spec.Ingress {
				if hasPeer(r.From, policy.Namespace, other) && hasPort(r.Ports, target, protocol, port) {
					return true
				}
			}
			continue
		}
		for _, r := range policy.Spec.Egress {
			if hasPeer(r.To, policy.Namespace, other) && hasPort(r.Ports, target, protocol, port) {
				return true
			}
		}
	}
	return !isolated
}

func hasPeer(peers []networkingv1.NetworkPolicyPeer, own string, e endpoint) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		switch {
		case p.IPBlock != nil:
			return netip.MustParsePrefix(p.IPBlock.CIDR).Contains(e.address) && !slices.ContainsFunc(p.IPBlock.Except, func(s string) bool {
				return netip.MustParsePrefix(s).Contains(e.address)
			})
		case e.namespace == "":
			return false
		case p.NamespaceSelector == nil:
			return e.namespace == own && matches(p.PodSelector, e.labels)
		}
		return matches(p.NamespaceSelector, map[string]string{v1.LabelMetadataName: e.namespace}) &&
			(p.PodSelector == nil || matches(p.PodSelector, e.labels))
	})
}

func hasPort(ports []networkingv1.NetworkPolicyPort, target endpoint, protocol v1.Protocol, port int32) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		if (p.Protocol == nil && protocol != v1.ProtocolTCP) || (p.Protocol != nil && *p.Protocol != protocol) {
			return false
		}
		switch {
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			return slices.ContainsFunc(target.ports, func(c v1.ContainerPort) bool { return c.Name == p.Port.StrVal && c.ContainerPort == port })
		case p.EndPort != nil:
			return p.Port.IntVal <= port && port <= *p.EndPort
		}
		return p.Port.IntVal == port
	})
}

func matches(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		panic(err) // the API server takes the policies: another test
	}
	return selector.Matches(labels.Set(of))
}

// may is one line of the matrix: who may connect to whom at which port.
type may struct {
	from, to string
	protocol v1.Protocol
	port     int32
}

// matrix is who may talk to whom, with the default lists of peers. Endpoints that are not of the chart talk to each other as they like.
func matrix(topology string, workers bool) map[may]bool {
	out := map[may]bool{}
	if topology == "shadow" {
		return shadowMatrix()
	}
	let := func(to string, port int32, from ...string) {
		for _, f := range from {
			out[may{f, to, v1.ProtocolTCP, port}] = true
		}
	}
	anybody := []string{"coordinator", "worker", "neighbour", "stranger", "prometheus", "dns", "collector", "etcd", "API server", "node"}
	chart := []string{"coordinator"}
	if workers {
		chart = append(chart, "worker")
	}
	foreign := anybody[2:]
	let("coordinator", 7455, foreign...)
	for _, c := range chart {
		let("dns", 53, c)
		out[may{c, "dns", v1.ProtocolUDP, 53}] = true
	}
	if topology != "standalone" {
		let("coordinator", 10259, "prometheus")
		// The API server's address is not known: its ports are open everywhere.
		for _, to := range foreign {
			let(to, 443, "coordinator")
			let(to, 6443, "coordinator")
		}
	}
	if topology != "swap" {
		let("coordinator", 7450, "neighbour")
		let("coordinator", 7451, "prometheus")
		for _, to := range foreign { // as etcd's
			let(to, 2379, chart...)
		}
	}
	if workers {
		let("worker", 7460, "coordinator")
		let("worker", 7461, "prometheus")
		let("worker", 7465, foreign...)
	}
	return out
}

// shadowMatrix is that of a shadow with a certificate.
func shadowMatrix() map[may]bool {
	out := map[may]bool{{"shadow", "dns", v1.ProtocolTCP, 53}: true, {"shadow", "dns", v1.ProtocolUDP, 53}: true}
	for _, other := range []string{"neighbour", "stranger", "prometheus", "dns", "collector", "etcd", "API server", "node"} {
		out[may{other, "shadow", v1.ProtocolTCP, 7455}] = true
		out[may{"shadow", other, v1.ProtocolTCP, 443}] = true
		out[may{"shadow", other, v1.ProtocolTCP, 6443}] = true
	}
	out[may{"prometheus", "shadow", v1.ProtocolTCP, 7451}] = true
	out[may{"neighbour", "shadow", v1.ProtocolTCP, 7451}] = true
	return out
}

// endpoints are the chart's pods and everybody else.
func endpoints(pods []*v1.Pod) (out []endpoint) {
	for i, p := range pods {
		c := p.Spec.Containers[0]
		out = append(out, endpoint{c.Name, p.Namespace, p.Labels, c.Ports, netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})})
	}
	return append(out,
		endpoint{"neighbour", Helm.Namespace, nil, nil, netip.MustParseAddr("10.1.1.1")},
		endpoint{"stranger", "default", map[string]string{"app.kubernetes.io/name": "shardsched"}, nil, netip.MustParseAddr("10.1.1.2")},
		endpoint{"prometheus", "monitoring", nil, nil, netip.MustParseAddr("10.1.1.3")},
		endpoint{"dns", "kube-system", map[string]string{"k8s-app": "kube-dns"}, nil, netip.MustParseAddr("10.1.1.4")},
		endpoint{"collector", "telemetry", nil, nil, netip.MustParseAddr("10.1.1.5")},
		endpoint{"etcd", "", nil, nil, netip.MustParseAddr("10.0.0.1")},
		endpoint{"API server", "", nil, nil, netip.MustParseAddr("192.0.2.10")},
		endpoint{"node", "", nil, nil, netip.MustParseAddr("192.0.2.20")},
	)
}

var topologies = []string{"swap", "sharded", "standalone", "shadow"}

// TestPoliciesAreTheMatrix asks for each two endpoints and each port of interest.
func TestPoliciesAreTheMatrix(t *testing.T) {
	for _, topology := range topologies {
		objects := render(t, topology, "networkPolicy: {enabled: true}\nshadow: {tlsSecret: mine}")
		p, all := policed(policies(t, objects)), endpoints(pods(t, objects))
		want := matrix(topology, topology == "sharded" || topology == "standalone")
		asked := 0
		for _, from := range all {
			for _, to := range all {
				if from.ports == nil && to.ports == nil || from.name == to.name {
					continue // nobody of the chart's, or the pod itself
				}
				for _, m := range ports(from.name, to.name) {
					asked++
					if got := p.allows(from, to, m.protocol, m.port); got != want[m] {
						t.Errorf("%s: %s to %s, %s %d: allowed is %v, want %v", topology, m.from, m.to, m.protocol, m.port, got, want[m])
					}
					delete(want, m)
				}
			}
		}
		for m := range want {
			t.Errorf("%s: the matrix has %v, which nobody asked for", topology, m)
		}
		if asked < 200 {
			t.Errorf("%s: %d questions, want some hundreds", topology, asked)
		}
	}
}

func ports(from, to string) (out []may) {
	for _, port := range []int32{22, 53, 443, 2379, 4317, 6443, 7450, 7451, 7455, 7460, 7461, 7465, 10250, 10259} {
		for _, protocol := range []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP} {
			out = append(out, may{from, to, protocol, port})
		}
	}
	return out
}

// TestPeersNarrowThePolicies gives lists of peers: they hold, and an empty one lets nobody in.
func TestPeersNarrowThePolicies(t *testing.T) {
	for _, test := range []struct {
		example, values, from, to string
		port                      int32
		want                      bool
	}{
		{"sharded", "apiServer: [{ipBlock: {cidr: 192.0.2.10/32}}]", "coordinator", "API server", 6443, true},
		{"sharded", "apiServer: [{ipBlock: {cidr: 192.0.2.10/32}}]", "coordinator", "node", 6443, false},
		{"sharded", "apiServerPorts: [8443]", "coordinator", "API server", 8443, true},
		{"sharded", "apiServerPorts: [8443]", "coordinator", "API server", 6443, false},
		{"sharded", "etcd: [{ipBlock: {cidr: 10.0.0.0/29}}]", "worker", "etcd", 2379, true},
		{"sharded", "etcd: [{ipBlock: {cidr: 10.0.0.0/29}}]", "worker", "node", 2379, false},
		{"sharded", "etcdPorts: [2389]", "coordinator", "etcd", 2389, true},
		{"sharded", "etcdPorts: [2389]", "coordinator", "etcd", 2379, false},
		{"sharded", "clients: []", "neighbour", "coordinator", 7450, false},
		{"sharded", "clients: [{namespaceSelector: {}}]", "stranger", "coordinator", 7450, true},
		{"sharded", "scrapers: []", "prometheus", "worker", 7461, false},
		{"sharded", "dns: []", "worker", "dns", 53, false},
		{"sharded", "egress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: telemetry}}}], ports: [{port: 4317}]}]",
			"worker", "collector", 4317, true},
		{"shadow", "apiServer: [{ipBlock: {cidr: 192.0.2.10/32}}]", "shadow", "API server", 6443, true},
		{"shadow", "apiServer: [{ipBlock: {cidr: 192.0.2.10/32}}]", "shadow", "node", 6443, false},
		{"shadow", "scrapers: [{namespaceSelector: {}}]", "prometheus", "shadow", 7451, false}, // it serves within its pod
		{"swap", "egress: [{to: [{ipBlock: {cidr: 192.0.2.20/32}}], ports: [{port: 8888}]}]", "coordinator", "node", 8888, true},
	} {
		objects := render(t, test.example, fmt.Sprintf("networkPolicy: {enabled: true, %s}", test.values))
		all := endpoints(pods(t, objects))
		find := func(name string) endpoint {
			return all[slices.IndexFunc(all, func(e endpoint) bool { return e.name == name })]
		}
		got := policed(policies(t, objects)).allows(find(test.from), find(test.to), v1.ProtocolTCP, test.port)
		if got != test.want {
			t.Errorf("%s with %s: %s to %s, port %d: allowed is %v, want %v", test.example, test.values, test.from, test.to, test.port, got, test.want)
		}
	}
}

// TestARuleNamesEachPort holds the policies to the ports of the pods: one that is forgotten is closed to everybody.
func TestARuleNamesEachPort(t *testing.T) {
	for _, topology := range topologies {
		objects := render(t, topology, "networkPolicy: {enabled: true}\nshadow: {tlsSecret: mine}")
		for _, pod := range pods(t, objects) {
			for _, port := range pod.Spec.Containers[0].Ports {
				named := slices.ContainsFunc(policies(t, objects), func(p *networkingv1.NetworkPolicy) bool {
					return matches(&p.Spec.PodSelector, pod.Labels) && slices.ContainsFunc(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
						return slices.ContainsFunc(r.Ports, func(q networkingv1.NetworkPolicyPort) bool { return q.Port.StrVal == port.Name })
					})
				})
				if !named {
					t.Errorf("%s: %s: no rule names the port %s (%d)", topology, pod.Name, port.Name, port.ContainerPort)
				}
			}
		}
	}
}
