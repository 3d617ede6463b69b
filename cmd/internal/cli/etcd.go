package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
)

// etcdDialTimeout is how long a first connection to etcd may take.
const etcdDialTimeout = 10 * time.Second

// tlsConfig is how the client speaks TLS; nil: the flags say nothing of it.
func (e Etcd) tlsConfig() (*tls.Config, error) {
	if e.CAFile == "" && e.CertFile == "" {
		return nil, nil
	}
	config, err := transport.TLSInfo{CertFile: e.CertFile, KeyFile: e.KeyFile, TrustedCAFile: e.CAFile}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("TLS files for etcd: %w", err)
	}
	return config, nil
}

// end is that of the certificate shown to etcd.
func (e Etcd) end() serving.End {
	return serving.FilesEnd("certificate for etcd", e.CertFile, e.KeyFile, e.CAFile)
}

// connect opens a client of an etcd outside the process. It does not wait for it to
// answer. The TLS files are read again for each connection.
func (e Etcd) connect() (*clientv3.Client, error) {
	config, err := e.tlsConfig()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.WaitForReady(false))}
	if config != nil && !strings.HasPrefix(e.Endpoints[0], "http://") { // the client goes by the first one's scheme, too
		options = append(options, grpc.WithTransportCredentials(serving.NewClientCredentials(e.tlsConfig)))
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            e.Endpoints,
		TLS:                  config,
		DialTimeout:          etcdDialTimeout,
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               zap.NewNop(),
		DialOptions:          options,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd %v: %w", e.Endpoints, err)
	}
	return c, nil
}

// start runs the etcd of this process. stop ends it, and removes its folder where that
// was a temporary one.
func (e EmbeddedEtcd) start(ctx context.Context) (client *clientv3.Client, endpoint string, stop func(), err error) {
	dir, cleanup := e.DataDir, func() {}
	if dir == "" {
		dir, err = os.MkdirTemp("", "shardsched-etcd-")
		if err != nil {
			return nil, "", nil, err
		}
		cleanup = func() { os.RemoveAll(dir) }
	}
	server, err := embedetcd.Start(ctx, embedetcd.Config{DataDir: dir, Listen: e.Listen})
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
