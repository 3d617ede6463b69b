//go:build noetcd

package cli

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// noPort is no client's endpoint.
const noPort = ""

// start refuses: the etcd server is left out of this build.
func (e EmbeddedEtcd) start(context.Context, bool, time.Duration) (*clientv3.Client, string, func(), error) {
	return nil, "", nil, errors.New("this build has no etcd server (build tag noetcd, images with -slim): name an etcd by --etcd-endpoints, " +
		"or take the build without -slim")
}
