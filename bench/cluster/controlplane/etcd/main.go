// Command etcd is an etcd server for tests: one member, loopback, killed rather than
// stopped. It prints "etcd serves" when it does.
package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/bench/judge/audit"
)

func main() {
	dir := flag.String("data-dir", "", "`folder` of the data; what is there is continued")
	listen := flag.String("listen", "127.0.0.1:2379", "`HOST:PORT` for clients")
	unsafe := flag.Bool("unsafe-no-fsync", false, "don't wait for the disk: a machine that stops loses what was acknowledged, a killed "+
		"process does not")
	txns := flag.String("txns", "", "add every request to write to `FILE`, as package audit reads it")
	flag.Parse()
	if err := serve(*dir, *listen, *unsafe, *txns); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// serve returns when etcd has stopped by itself.
func serve(dir, listen string, unsafe bool, txns string) error {
	z := zap.NewProductionConfig()
	z.Level = zap.NewAtomicLevelAt(zap.WarnLevel)
	logger, err := z.Build()
	if err != nil {
		return err
	}
	c := embed.NewConfig()
	c.Dir = dir
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	clients := []url.URL{{Scheme: "http", Host: listen}}
	peers := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenClientUrls, c.AdvertiseClientUrls = clients, clients
	c.ListenPeerUrls, c.AdvertisePeerUrls = peers, peers
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.UnsafeNoFsync = unsafe
	c.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	if txns != "" {
		file, err := os.OpenFile(txns, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		recorder, err := audit.ContinueRecorder(file)
		if err != nil {
			return err
		}
		c.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainUnaryInterceptor(recorder.Unary)}
	}
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	<-server.Server.ReadyNotify()
	fmt.Println("etcd serves")
	return <-server.Err()
}
