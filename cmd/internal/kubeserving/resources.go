package kubeserving

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// podResources are kube_pod_resource_request and kube_pod_resource_limit: what each pod that
// has not ended asks for, and may use at the most, as scheduler and kubelet count it.
type podResources struct {
	pods             func() []*v1.Pod
	requests, limits *prometheus.Desc
}

func newPodResources(pods func() []*v1.Pod) *podResources {
	const rest = "broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod for resources along with " +
		"the unit for the resource if any."
	labels := []string{"namespace", "pod", "node", "scheduler", "priority", "resource", "unit"}
	return &podResources{
		pods: pods,
		requests: prometheus.NewDesc("kube_pod_resource_request", "[STABLE] Resources requested by workloads on the cluster, "+rest,
			labels, nil),
		limits: prometheus.NewDesc("kube_pod_resource_limit", "[STABLE] Resources limit for workloads on the cluster, "+rest, labels,
			nil),
	}
}

// Describe implements prometheus.Collector.
func (p *podResources) Describe(ch chan<- *prometheus.Desc) {
	ch <- p.requests
	ch <- p.limits
}

// Collect implements prometheus.Collector.
func (p *podResources) Collect(ch chan<- prometheus.Metric) {
	for _, pod := range p.pods() {
		if ended(pod) {
			continue
		}
		p.emit(ch, p.requests, pod, compile.Requests(pod))
		p.emit(ch, p.limits, pod, compile.Limits(pod))
	}
}

// ended tells whether a pod that was on a node is done with it.
func ended(pod *v1.Pod) bool {
	return pod.Spec.NodeName != "" && (pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed)
}

func (p *podResources) emit(ch chan<- prometheus.Metric, desc *prometheus.Desc, pod *v1.Pod, amounts v1.ResourceList) {
	priority := ""
	if pod.Spec.Priority != nil {
		priority = strconv.Itoa(int(*pod.Spec.Priority))
	}
	for name, amount := range amounts {
		if amount.IsZero() {
			continue
		}
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, amount.AsApproximateFloat64(),
			pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Spec.SchedulerName, priority, string(name), unit(name))
	}
}

// unit is what an amount of a resource is counted in; empty: pieces.
func unit(name v1.ResourceName) string {
	switch {
	case name == v1.ResourceCPU:
		return "cores"
	case name == v1.ResourceMemory, name == v1.ResourceStorage, name == v1.ResourceEphemeralStorage,
		strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
		return "bytes"
	case strings.HasPrefix(string(name), v1.ResourceAttachableVolumesPrefix):
		return "integer"
	}
	return ""
}

// resources serves the pods' resources while this process leads, and nothing before.
func (c Config) resources() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newPodResources(c.Pods))
	serve := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, ErrorLog: errorLog{}})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.Leading() {
			serve.ServeHTTP(w, r)
		}
	})
}
