package scorer

import "testing"

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

func TestPortsCountTheirHolders(t *testing.T) {
	a, b := hostPort{"0.0.0.0", 80, 1}, hostPort{"0.0.0.0", 79, 1}
	var list []portUse
	for _, h := range []hostPort{a, b, a} {
		list = takePort(list, h)
	}
	if len(list) != 2 || list[0] != (portUse{b, 1}) || list[1] != (portUse{a, 2}) {
		t.Fatalf("got %v, want 79 once, then 80 twice", list)
	}
	if list = freePort(list, a); list[1] != (portUse{a, 1}) {
		t.Fatalf("got %v, want 80 still held once", list)
	}
	if list = freePort(freePort(list, a), b); len(list) != 0 {
		t.Fatalf("got %v, want none", list)
	}
}
