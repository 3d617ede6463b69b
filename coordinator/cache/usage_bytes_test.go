package cache

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Usages that list very many resources make room by their bytes.
func TestUsagesAreBoundedInBytes(t *testing.T) {
	var x usages
	usage := func(i int) *pb.PodUsage {
		u := &pb.PodUsage{Requests: &pb.Resources{}}
		for k := range 1000 {
			u.Requests.Scalars = append(u.Requests.Scalars, &pb.ScalarResource{Name: fmt.Sprintf("example.com/r-%d-%d", i, k), Quantity: 1})
		}
		return u
	}
	for i := range 300 {
		u := usage(i)
		if x.one(u) != u || x.one(usage(i)) != u {
			t.Fatalf("usage %d: got another than the first one of its kind", i)
		}
		sum := 0
		for _, u := range x.young {
			sum += proto.Size(u)
		}
		if sum > usageBytes || x.bytes > usageBytes || x.bytes < sum {
			t.Fatalf("after %d usages: got %d bytes, counted as %d, want at most %d", i+1, sum, x.bytes, usageBytes)
		}
	}
	if len(x.old) == 0 {
		t.Error("got no old half: the bound was not reached")
	}
}
