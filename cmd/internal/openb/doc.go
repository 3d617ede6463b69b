// Package openb turns the openb GPU trace into Kubernetes objects, and makes a
// cluster of its shape without the files.
//
// The trace is that of github.com/hkust-adsl/kubernetes-scheduler-simulator
// (data/csv, Apache-2.0): a production GPU cluster of Alibaba, described in Weng et
// al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
// Fragmentation Gradient Descent", USENIX ATC 2023.
//
//	sn, cpu_milli, memory_mib, gpu, model      ─▶ Node
//	name, cpu_milli, memory_mib, num_gpu,
//	gpu_milli, gpu_spec, …                     ─▶ Pod
//
// A node has its CPU, memory, 110 pods (the kubelet's default; the trace has no
// such limit), the labels that every kubelet sets (hostname, os: linux, arch: amd64;
// the trace names none), and with GPUs the label shardsched.io/gpu-model and two
// extended resources: nvidia.com/gpu, one a device, and shardsched.io/gpu-milli,
// 1000 a device.
//
// A pod that asks for whole GPUs asks for nvidia.com/gpu, and for 1000
// shardsched.io/gpu-milli each; one that asks for a share asks for its
// shardsched.io/gpu-milli only. So a node's devices are never promised twice in sum.
// gpu_spec becomes required node affinity: the model label In the list, each model
// once. Pods stand in the order of the file, which is that of their creation, and
// all are pending: phases, times and qos are not carried over.
//
// Limits, which come with extended resources: a share is not bound to one device.
// A node with two devices each half taken has 1000 thousandths left, and a
// whole-GPU pod may be promised them. Which device a pod gets is for the
// kubelet, or a DRA driver, to say.
//
// With DeviceObjects there is such a driver: each GPU is a device with a capacity of 1000 thousandths, and pods get
// claims for whole GPUs, or for a share of one.
package openb
