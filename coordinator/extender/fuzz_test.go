package extender

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

func FuzzFilterAnswer(f *testing.F) {
	f.Add([]byte(`{"NodeNames":["a","b"],"FailedNodes":{"c":"x"}}`), true)
	f.Add([]byte(`{"Nodes":{"items":[{"metadata":{"name":"a"}}]}}`), false)
	f.Add([]byte(`{"NodeNames":null,"Nodes":{"items":null},"Error":"e"}`), true)
	nodes := []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	f.Fuzz(func(t *testing.T, body []byte, cached bool) {
		var answer extenderv1.ExtenderFilterResult
		if decode(bytes.NewReader(body), "u", 1<<20, &answer) != nil {
			return
		}
		got, err := (&Extender{cached: cached}).filtered(&answer, nodes)
		if err != nil {
			return
		}
		seen := map[int]bool{}
		for _, at := range got.Kept {
			if at < 0 || at >= len(nodes) || seen[at] {
				t.Fatalf("kept %v of %d nodes", got.Kept, len(nodes))
			}
			seen[at] = true
		}
	})
}

func FuzzPrioritizeAnswer(f *testing.F) {
	f.Add([]byte(`[{"Host":"a","Score":10}]`))
	f.Add([]byte(`[null,{"Score":-9223372036854775808}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var answer extenderv1.HostPriorityList
		if decode(bytes.NewReader(body), "u", 1<<20, &answer) != nil {
			return
		}
		for _, x := range answer {
			(&Extender{weight: 1 << 40}).Weigh(x.Score)
		}
	})
}

func FuzzPreemptAnswer(f *testing.F) {
	f.Add([]byte(`{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"u"},null],"NumPDBViolations":1},"b":null}}`))
	there := []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, {}}
	f.Fuzz(func(t *testing.T, body []byte) {
		var answer extenderv1.ExtenderPreemptionResult
		if decode(bytes.NewReader(body), "u", 1<<20, &answer) != nil {
			return
		}
		got, err := (&Extender{}).victims(&answer, func(node string) ([]*v1.Pod, error) {
			if node != "a" && node != "b" {
				return nil, errors.New("no such node")
			}
			return there, nil
		})
		if err == nil && len(got) != len(answer.NodeNameToMetaVictims) {
			t.Fatalf("%d nodes of %d", len(got), len(answer.NodeNameToMetaVictims))
		}
		for node, v := range got {
			if v == nil {
				t.Fatalf("no victims on %s", node)
			}
		}
	})
}

func FuzzBindAnswer(f *testing.F) {
	f.Add([]byte(`{"Error":"x"}`))
	f.Fuzz(func(_ *testing.T, body []byte) {
		var answer extenderv1.ExtenderBindingResult
		_ = decode(bytes.NewReader(body), "u", 1<<20, &answer)
	})
}

func TestATimeoutBelowZeroIsNone(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{-time.Second: defaultTimeout, 0: defaultTimeout, time.Minute: time.Minute} {
		e, err := New(&configv1.Extender{HTTPTimeout: metav1.Duration{Duration: given}}, Options{})
		if err != nil || e.client.Timeout != want {
			t.Errorf("%v: got %v (%v), want %v", given, e.client.Timeout, err, want)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	for _, c := range []struct {
		name, body string
		most       int64
		err        string
	}{
		{"fits to the byte", `{"Error":"x"}`, 13, ""},
		{"one byte more", `{"Error":"x"}`, 12, "answer of extender at URL u is larger than 12 bytes"},
		{"more behind the value is not read", `{"Error":"x"}` + strings.Repeat(" ", 1<<16), 13, ""},
	} {
		var answer extenderv1.ExtenderBindingResult
		// One byte at a time, so that the decoder does not read ahead.
		err := decode(oneByOne{strings.NewReader(c.body)}, "u", c.most, &answer)
		if got := textOf(err); got != c.err {
			t.Errorf("%s: error is %q, want %q", c.name, got, c.err)
		}
	}
}

type oneByOne struct{ io.Reader }

func (r oneByOne) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 1)]) }

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
