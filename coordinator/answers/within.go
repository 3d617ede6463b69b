package answers

// Domain is the nodes that have a label: a topology key with a value. The zero value is the whole cluster.
type Domain struct{ Key, Value string }

// Whole tells that the domain is the whole cluster.
func (d Domain) Whole() bool { return d.Key == "" }

// String is such as rack=r7; empty: the whole cluster.
func (d Domain) String() string {
	if d.Whole() {
		return ""
	}
	return d.Key + "=" + d.Value
}
