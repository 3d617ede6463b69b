package console

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// apiPath is below which the gateway is served, below Path.
const apiPath = "api/v1/"

// downloadParameter asks for an answer as a file. No field of a request has its name.
const downloadParameter = "download"

// readingRPCs are those that the gateway offers. ListObjects and Watch are not among them: objects may hold environment variables.
func readingRPCs() []string {
	return []string{"Explain", "ExplainNode", "ExplainPodGroup", "GetConfiguration", "GetFragmentation", "GetLeader", "GetNodeMap",
		"GetSummary",
		"ListDecisions", "ListDevices", "ListMapNodes", "ListPending", "ListPlugins", "ListPodGroups", "ListShards", "ListTraces", "ListWorkers"}
}

// gateway makes calls of the client API of GET requests: each parameter of the query is a field of the request.
type gateway struct {
	conn grpc.ClientConnInterface
	rpcs map[string]rpc
}

// rpc is a call that the gateway offers.
type rpc struct {
	method          string // in full
	request, answer protoreflect.MessageType
}

func newGateway(conn grpc.ClientConnInterface) *gateway {
	g := &gateway{conn: conn, rpcs: map[string]rpc{}}
	service := pb.File_shardsched_v1_scheduler_proto.Services().ByName("SchedulerService")
	for _, name := range readingRPCs() {
		m := service.Methods().ByName(protoreflect.Name(name))
		request, _ := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName()) // package pb has all of them
		answer, _ := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
		g.rpcs[name] = rpc{method: "/" + string(service.FullName()) + "/" + name, request: request, answer: answer}
	}
	return g
}

// serve answers with the JSON of an RPC's answer.
func (g *gateway) serve(w http.ResponseWriter, r *http.Request, name string) {
	text, err := g.call(r.Context(), name, r.URL.Query())
	if err != nil {
		s := status.Convert(err)
		h := map[string]string{"code": s.Code().String(), "message": s.Message()}
		if leader := notLeader(s).GetLeader(); leader != nil {
			h["leader"], h["console"] = leader.GetAddress(), leader.GetConsole()
		}
		text, _ := json.Marshal(h) // of strings: it does not fail
		reply(w, r, httpCode(s), "application/json", text)
		return
	}
	if r.URL.Query().Get(downloadParameter) == "1" {
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.json"`)
	}
	reply(w, r, http.StatusOK, "application/json", text)
}

// call makes the call that a query asks for; an error is a gRPC status.
func (g *gateway) call(ctx context.Context, name string, query url.Values) ([]byte, error) {
	f, ok := g.rpcs[name]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "no call %q: want one of %s", name, strings.Join(readingRPCs(), ", "))
	}
	request := f.request.New()
	if err := fill(request, query); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	answer := f.answer.New().Interface()
	if err := g.conn.Invoke(ctx, f.method, request.Interface(), answer); err != nil {
		return nil, err
	}
	// Fields that are empty are told, too: who reads it need not know the proto file.
	return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(answer)
}

// fill sets the fields of a request that a query names, as the proto file or as JSON writes them.
func fill(m protoreflect.Message, query url.Values) error {
	fields := m.Descriptor().Fields()
	seen := map[protoreflect.Name]string{}
	for _, name := range sortedKeys(query) {
		values := query[name]
		if name == downloadParameter {
			if !slices.Equal(values, []string{"1"}) {
				return fmt.Errorf("%s: want 1, got %q", name, strings.Join(values, ", "))
			}
			continue
		}
		f := fields.ByName(protoreflect.Name(name))
		if f == nil {
			f = fields.ByJSONName(name)
		}
		if f == nil {
			return fmt.Errorf("unknown parameter %q: want %s", name, fieldNames(fields))
		}
		if before, ok := seen[f.Name()]; ok {
			return fmt.Errorf("%s: given as %s, too", name, before)
		}
		seen[f.Name()] = name
		if err := set(m, f, values); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func sortedKeys(query url.Values) []string {
	names := make([]string, 0, len(query))
	for name := range query {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// fieldNames are the parameters of a request, in words.
func fieldNames(fields protoreflect.FieldDescriptors) string {
	if fields.Len() == 0 {
		return "none"
	}
	names := make([]string, 0, fields.Len())
	for i := range fields.Len() {
		names = append(names, string(fields.Get(i).Name()))
	}
	return strings.Join(names, ", ")
}

// set gives a field its values: one, or any number where it is repeated.
func set(m protoreflect.Message, f protoreflect.FieldDescriptor, values []string) error {
	switch {
	case f.IsMap():
		return fmt.Errorf("a map can not be given in a query")
	case f.IsList():
		list := m.Mutable(f).List()
		for _, text := range values {
			v, err := parse(f, text)
			if err != nil {
				return err
			}
			list.Append(v)
		}
		return nil
	case len(values) != 1:
		return fmt.Errorf("want one value, got %d", len(values))
	}
	v, err := parse(f, values[0])
	if err == nil {
		m.Set(f, v)
	}
	return err
}

// parse reads one value of a field.
func parse(f protoreflect.FieldDescriptor, text string) (protoreflect.Value, error) {
	wrong := func(what string) (protoreflect.Value, error) {
		return protoreflect.Value{}, fmt.Errorf("want %s, got %q", what, text)
	}
	switch f.Kind() {
	case protoreflect.StringKind:
		if !utf8.ValidString(text) {
			return wrong("UTF-8")
		}
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BoolKind:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return wrong("true or false")
		}
		return protoreflect.ValueOfBool(b), nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return wrong("a number of 32 bits")
		}
		return protoreflect.ValueOfInt32(int32(n)), nil
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return wrong("a number of 64 bits")
		}
		return protoreflect.ValueOfInt64(n), nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return wrong("a number from 0 to 4294967295")
		}
		return protoreflect.ValueOfUint32(uint32(n)), nil
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return wrong("a number from 0 to 18446744073709551615")
		}
		return protoreflect.ValueOfUint64(n), nil
	case protoreflect.DoubleKind:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return wrong("a number")
		}
		return protoreflect.ValueOfFloat64(x), nil
	case protoreflect.EnumKind:
		v := f.Enum().Values().ByName(protoreflect.Name(text))
		if v == nil {
			return wrong("one of " + enumNames(f.Enum().Values()))
		}
		return protoreflect.ValueOfEnum(v.Number()), nil
	case protoreflect.MessageKind:
		m, what := parseMessage(f.Message().FullName(), text)
		if m == nil {
			return wrong(what)
		}
		return protoreflect.ValueOfMessage(m.ProtoReflect()), nil
	}
	return protoreflect.Value{}, fmt.Errorf("a field of kind %s can not be given in a query", f.Kind())
}

func enumNames(values protoreflect.EnumValueDescriptors) string {
	names := make([]string, 0, values.Len())
	for i := range values.Len() {
		names = append(names, string(values.Get(i).Name()))
	}
	return strings.Join(names, ", ")
}

// parseMessage reads a duration or a moment; nil: what was wanted instead.
func parseMessage(name protoreflect.FullName, text string) (m proto.Message, want string) {
	switch name {
	case (*durationpb.Duration)(nil).ProtoReflect().Descriptor().FullName():
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, "a duration such as 1.5s or 10m"
		}
		return durationpb.New(d), ""
	case (*timestamppb.Timestamp)(nil).ProtoReflect().Descriptor().FullName():
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, "a time such as 2026-07-01T15:04:05Z"
		}
		return timestamppb.New(t), ""
	}
	return nil, "nothing: a message " + string(name) + " can not be given in a query"
}
