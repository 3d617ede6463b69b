package shardschedv1

import (
	"cmp"
	"strings"
)

// Validate checks the amounts and the order of the scalars. Absent resources are none.
func (x *Resources) Validate() error {
	if err := natural("milli_cpu", x.GetMilliCpu()); err != nil {
		return err
	}
	if err := natural("memory_bytes", x.GetMemoryBytes()); err != nil {
		return err
	}
	if err := natural("ephemeral_storage_bytes", x.GetEphemeralStorageBytes()); err != nil {
		return err
	}
	list := x.GetScalars()
	for i, s := range list {
		if err := s.Validate(); err != nil {
			return at("scalars", i, err)
		}
		if i > 0 && list[i-1].Name >= s.Name {
			return at("scalars", i, wrong("name", "expected a name after %q, got %q", short(list[i-1].Name), short(s.Name)))
		}
	}
	return nil
}

// Validate checks name and amount.
func (x *ScalarResource) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	return natural("quantity", x.GetQuantity())
}

// Validate checks key and value.
func (x *Label) Validate() error {
	if err := name("key", x.GetKey()); err != nil {
		return err
	}
	return text("value", x.GetValue(), maxText)
}

// sortedLabels checks labels: keys strictly ascending.
func sortedLabels(field string, list []*Label) error {
	for i, l := range list {
		if err := l.Validate(); err != nil {
			return at(field, i, err)
		}
		if i > 0 && list[i-1].Key >= l.Key {
			return at(field, i, wrong("key", "expected a key after %q, got %q", short(list[i-1].Key), short(l.Key)))
		}
	}
	return nil
}

// Validate checks key, value and effect.
func (x *Taint) Validate() error {
	if err := name("key", x.GetKey()); err != nil {
		return err
	}
	if err := text("value", x.GetValue(), maxText); err != nil {
		return err
	}
	return member("effect", x.GetEffect(), TaintEffect_TAINT_EFFECT_NO_EXECUTE)
}

// Validate checks address, protocol and port.
func (x *HostPort) Validate() error {
	if err := name("ip", x.GetIp()); err != nil {
		return err
	}
	if err := member("protocol", x.GetProtocol(), Protocol_PROTOCOL_SCTP); err != nil {
		return err
	}
	return within("port", int64(x.GetPort()), 1, 65535)
}

// compareHostPorts orders by ip, protocol, port.
func compareHostPorts(a, b *HostPort) int {
	return cmp.Or(
		strings.Compare(a.GetIp(), b.GetIp()),
		cmp.Compare(a.GetProtocol(), b.GetProtocol()),
		cmp.Compare(a.GetPort(), b.GetPort()))
}

// Validate checks a node and everything in it.
func (x *Node) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	if err := sortedLabels("labels", x.GetLabels()); err != nil {
		return err
	}
	if err := sortedLabels("annotations", x.GetAnnotations()); err != nil {
		return err
	}
	if err := each("taints", x.GetTaints()); err != nil {
		return err
	}
	if err := x.GetAllocatable().Validate(); err != nil {
		return in("allocatable", err)
	}
	if err := natural("allowed_pods", x.GetAllowedPods()); err != nil {
		return err
	}
	if err := sortedNames("images", x.GetImages()); err != nil {
		return err
	}
	return x.validateTraits()
}

// Validate checks what a pod takes. Absent usage is none.
func (x *PodUsage) Validate() error {
	if err := x.GetRequests().Validate(); err != nil {
		return in("requests", err)
	}
	if err := natural("non_zero_milli_cpu", x.GetNonZeroMilliCpu()); err != nil {
		return err
	}
	if err := natural("non_zero_memory_bytes", x.GetNonZeroMemoryBytes()); err != nil {
		return err
	}
	if err := each("host_ports", x.GetHostPorts()); err != nil {
		return err
	}
	return sortedCounters(x.GetCounters())
}

// Validate checks the port and that a pod holds it.
func (x *PortUse) Validate() error {
	if x.GetPort() == nil {
		return wrong("port", "expected a host port, got none")
	}
	if err := x.GetPort().Validate(); err != nil {
		return in("port", err)
	}
	if x.GetPods() == 0 {
		return wrong("pods", "expected 1 or more, got 0")
	}
	return nil
}

// Validate checks the sums of a row. Absent totals are those of a row without pods.
func (x *NodeTotals) Validate() error {
	if err := natural("pods", x.GetPods()); err != nil {
		return err
	}
	if err := x.GetRequested().Validate(); err != nil {
		return in("requested", err)
	}
	if err := natural("non_zero_milli_cpu", x.GetNonZeroMilliCpu()); err != nil {
		return err
	}
	if err := natural("non_zero_memory_bytes", x.GetNonZeroMemoryBytes()); err != nil {
		return err
	}
	list := x.GetPorts()
	for i, p := range list {
		if err := p.Validate(); err != nil {
			return at("ports", i, err)
		}
		if i > 0 && compareHostPorts(list[i-1].Port, p.Port) >= 0 {
			return at("ports", i, wrong("port", "expected ports sorted by ip, protocol, port, each once"))
		}
	}
	return nil
}

// Validate checks that there is one change, and the change.
func (x *Delta) Validate() error {
	if err := row("row", x.GetRow()); err != nil {
		return err
	}
	if x != nil && x.LastDecision != nil && x.GetRemovePod() == nil {
		return wrong("last_decision", "expected none without remove_pod, got %d", x.GetLastDecision())
	}
	switch c := x.GetChange().(type) {
	case *Delta_SetNode:
		if err := c.SetNode.Validate(); err != nil {
			return in("set_node", err)
		}
	case *Delta_RemoveNode:
	case *Delta_AddPod:
		if err := c.AddPod.Validate(); err != nil {
			return in("add_pod", err)
		}
		return x.validatePod()
	case *Delta_RemovePod:
		if err := c.RemovePod.Validate(); err != nil {
			return in("remove_pod", err)
		}
		if x.GetPod() != nil && x.GetPod().GetNumber() == 0 {
			return wrong("pod.number", "expected 1 or more, got 0")
		}
	case *Delta_ChangeCounters:
		if err := c.ChangeCounters.Validate(); err != nil {
			return in("change_counters", err)
		}
	case *Delta_SetCounter:
		if err := c.SetCounter.Validate(); err != nil {
			return in("set_counter", err)
		}
		if x.GetRow() != 0 {
			return wrong("row", "expected 0 with set_counter, got %d", x.GetRow())
		}
	case *Delta_ChangePod:
		if err := c.ChangePod.Validate(); err != nil {
			return in("change_pod", err)
		}
		if c.ChangePod.GetUsage() != nil || c.ChangePod.GetUsageRef() != 0 {
			return in("change_pod", wrong("usage", "expected none"))
		}
	default:
		if done, err := x.validateDevices(); err != nil {
			return err
		} else if !done {
			return wrong("change", "expected one of set_node, remove_node, add_pod, remove_pod, change_pod, change_counters, "+
				"set_counter, and set, remove and use of devices, got none")
		}
	}
	if x.GetPod() != nil && x.GetRemovePod() == nil {
		return wrong("pod", "expected none without add_pod and remove_pod")
	}
	if x.GetDecision() != 0 {
		return wrong("decision", "expected 0 without add_pod, got %d", x.GetDecision())
	}
	return nil
}

// Validate checks a row, which has to hold a node.
func (x *SnapshotRow) Validate() error {
	if err := row("row", x.GetRow()); err != nil {
		return err
	}
	if x.GetNode() == nil {
		return wrong("node", "expected a node, got none")
	}
	if err := x.GetNode().Validate(); err != nil {
		return in("node", err)
	}
	if err := x.GetTotals().Validate(); err != nil {
		return in("totals", err)
	}
	return each("pods", x.GetPods())
}
