// Package image makes OCI images of shardsched without a container engine: each is a static binary, a certificate store, and nothing
// else. The same commit and the same Go give the same digest, on any machine.
//
//	Compile     a commit's binary for one platform
//	Index       an image for each platform, and the index of them
//	Save, Push  that index in an OCI layout (a folder), or in a registry
//
// There are two variants. The plain one can run an etcd in its own process, which --embedded-etcd and `shardsched up` ask for. The slim
// one has no etcd server: it is for coordinators and workers whose etcd is elsewhere.
package image
