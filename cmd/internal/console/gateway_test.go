package console

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestAQueryFillsARequest(t *testing.T) {
	for query, want := range map[string]proto.Message{
		"namespace=a&name=b&top=3&node_names=x&node_names=y&all_nodes=true": &pb.ExplainRequest{Namespace: "a", Name: "b", Top: 3, NodeNames: []string{"x", "y"}, AllNodes: true},
		"nodeNames=x&allNodes=1&download=1":                                 &pb.ExplainRequest{NodeNames: []string{"x"}, AllNodes: true},
		"slow=1.5s&limit=7":                                                 &pb.ListTracesRequest{Slow: durationpb.New(1500e6), Limit: 7},
		"":                                                                  &pb.GetSummaryRequest{},
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got := want.ProtoReflect().New()
		if err := fill(got, q); err != nil || !proto.Equal(got.Interface(), want) {
			t.Errorf("%s: got %v, %v, want %v", query, got.Interface(), err, want)
		}
	}
}

func TestABadQueryIsExplained(t *testing.T) {
	for query, want := range map[string]string{
		"Explain?top=x":                     `top: want a number from 0 to 4294967295, got "x"`,
		"Explain?top=-1":                    `top: want a number from 0 to 4294967295, got "-1"`,
		"Explain?top=1&top=2":               "top: want one value, got 2",
		"Explain?all_nodes=yes":             `all_nodes: want true or false, got "yes"`,
		"Explain?allNodes=1&all_nodes=1":    "all_nodes: given as allNodes, too",
		"Explain?nam=x":                     `unknown parameter "nam": want namespace, name, top, node_names, all_nodes, kind`,
		"Explain?name=%ff":                  `name: want UTF-8`,
		"Explain?download=yes":              `download: want 1, got "yes"`,
		"GetSummary?x=1":                    `unknown parameter "x": want none`,
		"ListTraces?slow=5":                 `slow: want a duration such as 1.5s or 10m, got "5"`,
		"Apply?x=1":                         `no call "Apply": want one of Explain`,
		"ListObjects?kind=Pod":              `no call "ListObjects"`,
		"Watch":                             `no call "Watch"`,
		"":                                  `no call ""`,
		"GetSummary/x":                      `no call "GetSummary/x"`,
		"Explain?name=a&namespace=b&limit=": `unknown parameter "limit"`,
	} {
		w := ask(newConsole(t, &scheduler{}), "GET", Path+apiPath+query)
		var got struct{ Code, Message string }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !strings.Contains(got.Message, want) {
			t.Errorf("%s: got %s, want %q", query, w.Body, want)
		}
		if code := w.Code; code != 400 && code != 404 {
			t.Errorf("%s: got %d, want 400 or 404", query, code)
		}
	}
}

func TestAnAnswerIsTheRPCsJSON(t *testing.T) {
	s := &scheduler{workers: []*pb.WorkerStatus{{Id: "w1", Busy: durationpb.New(2e9), Requests: 1 << 60}}}
	c := newConsole(t, s)
	w := ask(c, "GET", Path+"api/v1/ListWorkers?download=1")
	var got pb.ListWorkersResponse
	if err := protojson.Unmarshal(w.Body.Bytes(), &got); err != nil || !proto.Equal(&got, &pb.ListWorkersResponse{Workers: s.workers}) {
		t.Errorf("got %s, %v", w.Body, err)
	}
	if kind, as := w.Header().Get("Content-Type"), w.Header().Get("Content-Disposition"); kind != "application/json" || as != `attachment; filename="ListWorkers.json"` {
		t.Errorf("got %q, %q", kind, as)
	}
	ask(c, "GET", Path+"api/v1/Explain?namespace=a&name=b")
	if s.explained.GetNamespace() != "a" || s.explained.GetName() != "b" {
		t.Errorf("got the request %v", s.explained)
	}
}

// Every call is offered that only reads, but for those of objects: they may hold environment variables.
func TestTheGatewayOffersWhatReads(t *testing.T) {
	notOffered := []string{"Apply", "Delete", "ListObjects", "Watch"}
	methods := pb.File_shardsched_v1_scheduler_proto.Services().ByName("SchedulerService").Methods()
	var all []string
	for i := range methods.Len() {
		all = append(all, string(methods.Get(i).Name()))
		if fields := methods.Get(i).Input().Fields(); fields.ByName(downloadParameter) != nil {
			t.Errorf("%s has a field %s, which the gateway takes for itself", methods.Get(i).Name(), downloadParameter)
		}
	}
	got := append(readingRPCs(), notOffered...)
	slices.Sort(got)
	slices.Sort(all)
	if !slices.Equal(got, all) {
		t.Errorf("offered and not offered are %v, want all calls once: %v", got, all)
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("namespace=a&name=b&top=3&node_names=x&all_nodes=true")
	f.Add("slow=1.5s&limit=7&download=1")
	f.Add("slow=-9223372036854775808ns&label_selector=%ff")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		for name, r := range newGateway(nil).rpcs {
			m := r.request.New()
			if fill(m, q) != nil {
				continue
			}
			// What is taken is a request that can be sent.
			if _, err := proto.Marshal(m.Interface()); err != nil {
				t.Errorf("%s?%s: %v", name, query, err)
			}
			m.Range(func(d protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
				if !q.Has(string(d.Name())) && !q.Has(d.JSONName()) {
					t.Errorf("%s?%s: %s is set", name, query, d.Name())
				}
				return true
			})
		}
	})
}
