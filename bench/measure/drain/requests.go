package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// requests are how many requests the API server has answered, by what was asked for: such
// as "POST pods/binding". Watches are not among them.
type requests map[string]float64

// countRequests asks the API server. That is a request, and takes it some CPU.
func countRequests(ctx context.Context, k kubernetes.Interface) (requests, error) {
	text, err := k.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("the API server's metrics: %w", err)
	}
	r := requests{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if err := r.line(lines.Text()); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// line takes in a line such as
//
//	apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST",…} 17
func (r requests) line(line string) error {
	rest, ok := strings.CutPrefix(line, "apiserver_request_total{")
	if !ok {
		return nil
	}
	labels, value, _ := strings.Cut(rest, "} ")
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return fmt.Errorf("the API server's metrics: %w in %q", err, line)
	}
	l := map[string]string{}
	for _, pair := range strings.Split(labels, ",") {
		key, quoted, _ := strings.Cut(pair, "=")
		l[key] = strings.Trim(quoted, `"`)
	}
	what := l["resource"]
	if l["subresource"] != "" {
		what += "/" + l["subresource"]
	}
	if l["verb"] != "WATCH" && l["resource"] != "" {
		r[l["verb"]+" "+what] += n
	}
	return nil
}

// since leaves out what had been asked for before.
func (r requests) since(before requests) requests {
	out := requests{}
	for what, n := range r {
		if n -= before[what]; n > 0 {
			out[what] = n
		}
	}
	return out
}
