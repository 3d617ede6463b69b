package scan

import (
	"sync"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// rulesRevision is raised with every change of what a rule computes. What changes messages changes the version
// by itself.
const rulesRevision = 2

// Rules is the version of the rules: builds in which it is equal answer equal questions alike. It is made of
// all messages that a question, a table or an answer is made of, and of rulesRevision.
var Rules = sync.OnceValue(func() uint64 { return rulesOf(rulesRevision, messages()) })

// messages are the files with these messages.
func messages() (out []*descriptorpb.FileDescriptorProto) {
	for _, f := range []protoreflect.FileDescriptor{
		pb.File_shardsched_v1_selector_proto, pb.File_shardsched_v1_devices_proto, pb.File_shardsched_v1_node_proto,
		pb.File_shardsched_v1_query_proto, pb.File_shardsched_v1_worker_proto,
	} {
		out = append(out, protodesc.ToFileDescriptorProto(f))
	}
	return out
}

func rulesOf(revision uint64, files []*descriptorpb.FileDescriptorProto) uint64 {
	h := xxhash.NewWithSeed(revision)
	for _, f := range files {
		bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(f)
		if err != nil {
			panic(err) // a descriptor that is compiled in can be encoded
		}
		if _, err := h.Write(bytes); err != nil {
			panic(err) // a hash takes everything
		}
	}
	return h.Sum64()
}
