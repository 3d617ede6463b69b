package lease

import (
	"context"
	"crypto/sha256"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Group names the coordinators that one election fences: those of a cluster on one etcd. The
// first to ask leaves a mark, made of its id, for the others to find: etcd's own id is the same
// wherever single members are set up alike. It asks until etcd answers, or ctx ends.
func Group(ctx context.Context, client *clientv3.Client, cluster, id string) (string, error) {
	key := "/shardsched/" + cluster + "/mark"
	mark := fmt.Sprintf("%x", sha256.Sum256([]byte(id)))[:16]
	for {
		etcd, mark, err := leaveMark(ctx, client, key, mark)
		if err == nil {
			return fmt.Sprintf("%x-%s-%s", etcd, mark, cluster), nil
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("mark of etcd at %s: %w", key, ctx.Err())
		}
		if !transient(err) {
			return "", fmt.Errorf("mark of etcd at %s: %w", key, err)
		}
		klog.FromContext(ctx).Info("Asking etcd for its mark goes on", "key", key, "cause", err.Error())
		select {
		case <-clock.RealClock{}.After(campaignRetry):
		case <-ctx.Done():
		}
	}
}

// leaveMark returns etcd's id and the mark at a key, and puts it there where none is. It asks first: a full etcd takes no
// transaction that might write.
func leaveMark(ctx context.Context, client *clientv3.Client, key, mark string) (etcd uint64, there string, err error) {
	read, err := client.Get(ctx, key)
	if err != nil {
		return 0, "", err
	}
	if len(read.Kvs) > 0 {
		return read.Header.ClusterId, string(read.Kvs[0].Value), nil
	}
	resp, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, mark)).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return 0, "", err
	}
	if !resp.Succeeded {
		mark = string(resp.Responses[0].GetResponseRange().Kvs[0].Value)
	}
	return resp.Header.ClusterId, mark, nil
}
