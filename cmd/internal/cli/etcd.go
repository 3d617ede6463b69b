package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/upkeep"
)

// etcdDialTimeout is how long a first connection to etcd may take.
const etcdDialTimeout = 10 * time.Second

// etcdReconnect is how long an etcd that is back is not noticed at the most. gRPC's own two minutes would add to a long outage.
const etcdReconnect = 5 * time.Second

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
	reconnect := backoff.DefaultConfig
	reconnect.MaxDelay = etcdReconnect
	options := []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.WaitForReady(false)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: etcdDialTimeout}),
	}
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

// lookAfter compacts etcd's history, but that of an embedded one, which does so by itself, and tells how full etcd is, until ctx ends.
func lookAfter(ctx context.Context, c *clientv3.Client, cluster string, compaction time.Duration, r prometheus.Registerer) error {
	return upkeep.New(upkeep.Config{Client: c, Key: lease.Prefix(cluster), Interval: compaction, Registerer: r}).Run(ctx)
}
