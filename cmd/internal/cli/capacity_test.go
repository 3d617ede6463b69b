package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// twoZones are four nodes, one of them tainted, with pods on them and one that waits.
const twoZones = `
{apiVersion: v1, kind: Node, metadata: {name: a1, uid: a1, labels: {topology.kubernetes.io/zone: a, kubernetes.io/hostname: a1}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: a2, uid: a2, labels: {topology.kubernetes.io/zone: a, kubernetes.io/hostname: a2}}, spec: {taints: [{key: k, effect: NoSchedule}]}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b1, uid: b1, labels: {topology.kubernetes.io/zone: b, kubernetes.io/hostname: b1}}, status: {allocatable: {cpu: "8", memory: 3Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: c1, uid: c1, labels: {kubernetes.io/hostname: c1}}, status: {allocatable: {cpu: "1", memory: 8Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: there, namespace: default, uid: p1}, spec: {nodeName: a1, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: waits, namespace: default, uid: p2}, spec: {containers: [{name: c, resources: {requests: {cpu: "3"}}}]}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: r, namespace: default, uid: r}, spec: {limits: [{type: Container, defaultRequest: {memory: 1Gi}}]}}
`

// How many more fit is what the scheduler itself places: room, taints, spread and anti-affinity count, and the cluster's own limit ranges.
func TestCapacity(t *testing.T) {
	cluster := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(cluster, []byte(twoZones), 0o600); err != nil {
		t.Fatal(err)
	}
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: more, labels: {app: x}}, spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]%s}}`
	for name, x := range map[string]struct {
		pod     string
		args    []string
		fit     int
		atLeast bool
		zones   string
		lacks   string
	}{
		"room": {pod: fmt.Sprintf(pod, ""), fit: 7, zones: "[{ 1 1 1} {a 3 1 2} {b 3 1 1}]",
			lacks: "[{Insufficient cpu 2} {Insufficient memory 1} {node(s) had untolerated taint(s) 1}]"},
		"tolerated": {pod: fmt.Sprintf(pod, ", tolerations: [{operator: Exists}]"), fit: 11, zones: "[{ 1 1 1} {a 7 2 2} {b 3 1 1}]",
			lacks: "[{Insufficient cpu 3} {Insufficient memory 1}]"},
		"one a host": {pod: fmt.Sprintf(pod, ", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}}]}}"),
			fit: 3, zones: "[{ 1 1 1} {a 1 1 2} {b 1 1 1}]", lacks: "[{node(s) didn't match pod anti-affinity rules 2} {Insufficient cpu 1} {node(s) had untolerated taint(s) 1}]"},
		"bounded": {pod: fmt.Sprintf(pod, ""), args: []string{"--limit", "5"}, fit: 5, atLeast: true, lacks: "[]"},
		"none":    {pod: fmt.Sprintf(pod, ", nodeSelector: {disk: ssd}"), fit: 0, zones: "[{ 0 0 1} {a 0 0 2} {b 0 0 1}]"},
		"a workload's": {pod: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}}}}`,
			fit: 3, zones: "[{ 0 0 1} {a 1 1 2} {b 2 1 1}]"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, told bytes.Buffer
			s := Streams{In: strings.NewReader(x.pod), Out: &out, Err: &told, Env: func(string) string { return "" }}
			code := Main(t.Context(), append([]string{"capacity", "-f", cluster, "--pod", "-", "-o", "json"}, x.args...), s, Runs{Simulate: runSimulate})
			var got room
			if err := json.Unmarshal(out.Bytes(), &got); code != 0 || err != nil {
				t.Fatalf("got %d, %v and %s", code, err, told.String())
			}
			zones, lacks := fmt.Sprint(got.Zones), fmt.Sprint(got.RunsOut)
			if got.Fit != x.fit || got.AtLeast != x.atLeast || x.zones != "" && zones != x.zones || x.lacks != "" && lacks != x.lacks {
				t.Errorf("got %d (at least: %t), %s, %s; want %d (%t), %s, %s", got.Fit, got.AtLeast, zones, lacks, x.fit, x.atLeast, x.zones, x.lacks)
			}
		})
	}
}

func TestCapacityInWords(t *testing.T) {
	r := &room{Pod: "shop/web", Fit: 7, Zones: []zoneRoom{{"a", 7, 2, 3}, {"", 0, 0, 1}}, RunsOut: []lack{{"Insufficient cpu", 4}}, Help: "nodes"}
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	want := "7 more pods like shop/web fit\n\nZONE   FIT   NODES\na      7     2 of 3\nnone   0     0 of 1\n\nTHE NEXT ONE LACKS   NODES\nInsufficient cpu     4\n\nwould help: nodes\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	out.Reset()
	(&room{Pod: "shop/web", Fit: 1, AtLeast: true, Zones: []zoneRoom{{"a", 1, 1, 1}}}).print(&out)
	if got, want := out.String(), "at least 1 more pod like shop/web fits: --limit has no more tried\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What can't be counted, or is no one pod, is an error that says so.
func TestCapacityRefuses(t *testing.T) {
	cluster := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(cluster, []byte(twoZones), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, pod := range map[string]string{
		"-: neither a pod nor a workload in it":                                                      "{apiVersion: v1, kind: Service, metadata: {name: a}}",
		"standard input:3: Pod default/b: one pod or workload is wanted, and there is Pod default/a": "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: c}]}}",
		"standard input:1: Pod default/a: pods that come with claims of their own can't be counted":  "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}], volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]}}",
		"standard input:1: Pod default/a: spec.schedulingGroup: members of a PodGroup are placed together, and can't be counted one by one: leave it out, or ask simulate whether the PodGroup starts": "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {schedulingGroup: {podGroupName: g}, containers: [{name: c}]}}",
	} {
		var told bytes.Buffer
		s := Streams{In: strings.NewReader(pod), Out: &bytes.Buffer{}, Err: &told, Env: func(string) string { return "" }}
		code := Main(t.Context(), []string{"capacity", "-f", cluster, "--pod", "-"}, s, Runs{Simulate: runSimulate})
		if code != exitFailed || told.String() != "error: "+want+"\n" {
			t.Errorf("got %d and %q, want %q", code, told.String(), want)
		}
	}
}
