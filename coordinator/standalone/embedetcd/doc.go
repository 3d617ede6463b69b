// Package embedetcd runs one etcd member inside this process, for a machine that
// has no etcd of its own.
//
// It promises what an external etcd promises: a write that was acknowledged is on
// disk (fsync is always on) and is there again after a restart with the same data
// directory. It listens on loopback only, for it has neither TLS nor users.
//
//	data directory/
//	  lock                held by the process that runs the member
//	  etcd/member/wal     raft log, fsynced before a write is acknowledged
//	  etcd/member/snap    snapshots and the bbolt file that holds the keys
//
// The settings that differ from etcd's own defaults follow from how shardsched
// writes: many transactions of up to a hundred pods each. The raft log in memory is
// kept short (SnapshotCount), the quota is 8 GiB, and old revisions are compacted
// after Config.History, which bounds how far back a watch may resume.
package embedetcd
