package scan

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Nobody of the same rules has anything to send that this build would leave out: whatever is new in a message that workers get or send, a
// field or a value, makes other rules.
func TestRulesAreMadeOfAllThatIsSent(t *testing.T) {
	var listed []string
	for _, f := range messages() {
		listed = append(listed, f.GetName())
	}
	var reach func(f protoreflect.FileDescriptor)
	reach = func(f protoreflect.FileDescriptor) {
		if !slices.Contains(listed, f.Path()) {
			t.Errorf("%s: rules are not made of it, and worker.proto reaches it", f.Path())
		}
		for i := range f.Imports().Len() {
			reach(f.Imports().Get(i).FileDescriptor)
		}
	}
	reach(pb.File_shardsched_v1_worker_proto)

	changed := func(what string, change func(files []*descriptorpb.FileDescriptorProto)) {
		t.Helper()
		files := messages()
		change(files)
		if rulesOf(rulesRevision, files) == Rules() {
			t.Errorf("%s: got the same rules, want others", what)
		}
	}
	for i, f := range messages() {
		for k, m := range f.MessageType {
			changed("a field more in "+m.GetName(), func(files []*descriptorpb.FileDescriptorProto) {
				to := files[i].MessageType[k]
				to.Field = append(to.Field, &descriptorpb.FieldDescriptorProto{Name: proto.String("later"), Number: proto.Int32(1000)})
			})
		}
		for k, e := range f.EnumType {
			changed("a value more in "+e.GetName(), func(files []*descriptorpb.FileDescriptorProto) {
				to := files[i].EnumType[k]
				to.Value = append(to.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String("LATER"), Number: proto.Int32(1000)})
			})
		}
	}
	if rulesOf(rulesRevision+1, messages()) == Rules() {
		t.Error("another revision: got the same rules, want others")
	}
	if rulesOf(rulesRevision, messages()) != Rules() {
		t.Error("the same again: got other rules")
	}
}
