// Package staticpod makes of kube-scheduler's static pod one of shardsched's, for the topology swap: the same
// flags, the same files of the node, each by itself, the same probes; and an etcd within the process.
//
// What the pod had of folders is left out but for the files that flags name. It runs as a user other than root,
// which has to be able to read these files: Result.Commands sees to it.
package staticpod
