// Package embedetcd runs one etcd member inside this process, for a machine that
// has no etcd of its own.
//
// It promises what an external etcd promises: a write that was acknowledged is on
// disk (it was fsynced, unless Config.Volatile) and is there again after a restart
// with the same data directory. It has neither TLS nor users, so it opens no port,
// and Server.Client dials it within the process; with Config.Listen it listens on
// loopback.
//
//	data directory/
//	  lock                held by the process that runs the member
//	  etcd/member/wal     raft log, fsynced before a write is acknowledged
//	  etcd/member/snap    snapshots and the bbolt file that holds the keys
//
// The settings that differ from etcd's own defaults follow from how shardsched
// writes: many transactions of up to a hundred pods each. The raft log in memory is
// kept short (SnapshotCount), its files are small, the quota is 8 GiB, and old revisions are compacted
// after Config.History, which bounds how far back a watch may resume.
package embedetcd
