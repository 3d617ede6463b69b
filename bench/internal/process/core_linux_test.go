package process

import (
	"context"
	"fmt"
	"testing"
)

func TestAProcessOnACoreStaysThere(t *testing.T) {
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	g := NewGroup(t.TempDir())
	t.Cleanup(g.Close)
	for _, core := range cores {
		p, err := g.StartOn(core, "shell", "/bin/sh", "-c", "grep Cpus_allowed_list: /proc/self/status; while :; do :; done")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Line(ctx, "Cpus_allowed_list:\t"); err != nil || got != fmt.Sprint(core) {
			t.Errorf("got cores %q, %v; want %d", got, err, core)
		}
		before, err := p.CPU()
		if err != nil {
			t.Fatal(err)
		}
		for after := before; after == before; { // it is busy
			if after, err = p.CPU(); err != nil || after < before || ctx.Err() != nil {
				t.Fatalf("CPU time: got %v after %v, %v; want more", after, before, err)
			}
		}
		p.Kill()
	}
	if p, err := g.Start("shell", "/bin/sh", "-c", "grep Cpus_allowed_list: /proc/self/status"); err != nil {
		t.Error(err)
	} else if got, err := p.Line(ctx, "Cpus_allowed_list:\t"); err != nil || len(cores) > 1 && got == fmt.Sprint(cores[len(cores)-1]) {
		t.Errorf("got cores %q, %v; want all for one that is on none", got, err)
	}
}
