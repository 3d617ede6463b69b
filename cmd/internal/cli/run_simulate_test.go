package cli

import (
	"net"
	"strings"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestASimulationServesWhereItIsTold(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := simulation{sharding: Sharding{Cluster: "test", Workers: 1}, process: Process{HTTPListen: l.Addr().String()}}
	if _, err = m.run(t.Context(), &Input{}, func(*pb.Summary) {}); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("the address is another's: got error %v, want one that names %s", err, l.Addr())
	}
}
