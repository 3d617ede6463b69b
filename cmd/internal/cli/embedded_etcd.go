//go:build !noetcd

package cli

import (
	"context"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
)

// noPort is the endpoint of an etcd that has no port.
const noPort = embedetcd.InProcess

// start runs the etcd of this process. stop ends it, and removes its folder where that
// was a temporary one. volatile says that nothing there has to outlive the process; history is how much of it is kept, 0: the usual.
func (e EmbeddedEtcd) start(ctx context.Context, volatile bool, history time.Duration) (client *clientv3.Client, endpoint string,
	stop func(), err error) {
	dir, cleanup := e.DataDir, func() {}
	if dir == "" {
		dir, err = embedetcd.Temporary()
		if err != nil {
			return nil, "", nil, err
		}
		cleanup = func() { os.RemoveAll(dir) }
	}
	server, err := embedetcd.Start(ctx, embedetcd.Config{DataDir: dir, Listen: e.Listen, Volatile: volatile, History: history})
	if err != nil {
		cleanup()
		return nil, "", nil, err
	}
	client, err = server.Client()
	if err != nil {
		server.Close()
		cleanup()
		return nil, "", nil, err
	}
	return client, server.Endpoint(), func() {
		client.Close()
		server.Close()
		cleanup()
	}, nil
}
