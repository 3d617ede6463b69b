#!/bin/sh
# Makes two users of an etcd, by the common names of their client certificates, and turns authentication on.
# etcd has to run with --client-cert-auth and --trusted-ca-file; where it is shared with others, they need
# users of their own first, and never share the API server's. etcdctl takes its endpoints and root's certificate
# from ETCDCTL_ENDPOINTS, ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY.
set -eu
cluster=${CLUSTER:-default}
coordinator=${COORDINATOR_USER:-shardsched-coordinator}
worker=${WORKER_USER:-shardsched-worker}
keys=/shardsched/$cluster/

etcdctl role add "shardsched-coordinator-$cluster"
etcdctl role grant-permission "shardsched-coordinator-$cluster" readwrite "$keys" --prefix
etcdctl user add "$coordinator" --no-password
etcdctl user grant-role "$coordinator" "shardsched-coordinator-$cluster"

# A worker registers, and looks who leads.
etcdctl role add "shardsched-worker-$cluster"
etcdctl role grant-permission "shardsched-worker-$cluster" write "${keys}workers/" --prefix
etcdctl role grant-permission "shardsched-worker-$cluster" read "${keys}leader/" --prefix
etcdctl user add "$worker" --no-password
etcdctl user grant-role "$worker" "shardsched-worker-$cluster"

etcdctl user add root --no-password
etcdctl user grant-role root root
etcdctl auth enable
