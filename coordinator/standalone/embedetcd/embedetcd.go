package embedetcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	defaultHistory    = 5 * time.Minute
	defaultQuotaBytes = 8 << 30
	// maxTxnOps is above what package store uses, so that operators' own tools fit.
	maxTxnOps = 1024
	// snapshotCount bounds the raft log in memory: entries of about 100 kB each.
	snapshotCount   = 1000
	catchUpEntries  = 100
	slowRequest     = 2 * time.Second
	portAttempts    = 8
	compactionUnit  = "periodic"
	memberName      = "shardsched"
	memberDir       = "etcd"
	lockFile        = "lock"
	loopback        = "127.0.0.1"
	freePort        = "0"
	clientDialLimit = 10 * time.Second
)

// Config tells how to run the member. Only DataDir is required.
type Config struct {
	// DataDir is made when it is missing.
	DataDir string
	// Listen is the clients' host:port, a loopback address. Empty, or port 0: a
	// free port on 127.0.0.1.
	Listen string
	// History is how long old revisions are kept for watches to resume from;
	// 0: 5 minutes.
	History time.Duration
	// QuotaBytes is the size at which etcd refuses writes; 0: 8 GiB.
	QuotaBytes int64
	// Logger takes etcd's and its clients' log; nil: warnings and worse to stderr.
	Logger *zap.Logger
}

// Server is a running member.
type Server struct {
	etcd     *embed.Etcd
	endpoint string
	logger   serverLog
	closing  sync.Once
	lock     *fileutil.LockedFile // of the data directory; nil until it has started
}

// Start runs a member and returns when it answers requests, or when ctx ends.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.DataDir == "" {
		return nil, errors.New("embedded etcd: no data directory given")
	}
	host, port, err := listenAddress(cfg.Listen)
	if err != nil {
		return nil, err
	}
	logger, err := cfg.logger()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	lock, err := lockDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	s, err := startAnywhere(ctx, cfg, host, port, logger)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.lock = lock
	return s, nil
}

// lockDir keeps a second process out, which etcd itself would make wait without a word.
func lockDir(dir string) (*fileutil.LockedFile, error) {
	lock, err := fileutil.TryLockFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_WRONLY, fileutil.PrivateFileMode)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("embedded etcd: data directory %s is in use by another process", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("embedded etcd: lock data directory %s: %w", dir, err)
	}
	return lock, nil
}

// startAnywhere starts on the given port, or on one that is free.
func startAnywhere(ctx context.Context, cfg Config, host, port string, logger serverLog) (*Server, error) {
	if port != freePort {
		return start(ctx, cfg, net.JoinHostPort(host, port), logger)
	}
	// A free port may be taken by another process before etcd listens on it.
	for attempt := 1; ; attempt++ {
		address, err := pickPort(ctx, host)
		if err != nil {
			return nil, err
		}
		s, err := start(ctx, cfg, address, logger)
		if err == nil || attempt == portAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return s, err
		}
	}
}

func start(ctx context.Context, cfg Config, address string, logger serverLog) (*Server, error) {
	etcd, err := embed.StartEtcd(cfg.embedded(address, logger.Logger))
	if err != nil {
		return nil, fmt.Errorf("embedded etcd on %s in %s: %w", address, cfg.DataDir, err)
	}
	s := &Server{etcd: etcd, endpoint: address, logger: logger}
	select {
	case <-etcd.Server.ReadyNotify():
		logger.level.SetLevel(zapcore.WarnLevel)
		return s, nil
	case err := <-etcd.Err():
		s.Close()
		return nil, fmt.Errorf("embedded etcd in %s: %w", cfg.DataDir, err)
	case <-ctx.Done():
		s.Close()
		return nil, fmt.Errorf("embedded etcd in %s is not ready: %w", cfg.DataDir, ctx.Err())
	}
}

// Endpoint is the host:port that clients dial.
func (s *Server) Endpoint() string { return s.endpoint }

// Err delivers an error when the member ends by itself.
func (s *Server) Err() <-chan error { return s.etcd.Err() }

// Client returns a new client of this member; the caller closes it.
func (s *Server) Client() (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{s.endpoint},
		DialTimeout: clientDialLimit,
		// It warns of every call that its caller gave up.
		Logger: s.logger.Named("client").WithOptions(zap.IncreaseLevel(zapcore.ErrorLevel)),
	})
	if err != nil {
		return nil, fmt.Errorf("client of embedded etcd at %s: %w", s.endpoint, err)
	}
	return c, nil
}

// Close ends the member and returns when its files are closed. Closing twice is allowed.
func (s *Server) Close() {
	s.closing.Do(func() {
		// etcd reports each listener that it closes itself as an error.
		s.logger.level.SetLevel(zapcore.PanicLevel)
		s.etcd.Close()
		if s.lock != nil {
			s.unlock()
		}
	})
}

func (s *Server) unlock() {
	if err := s.lock.Close(); err != nil {
		s.logger.Warn("unlock the data directory", zap.Error(err))
	}
}

func (c *Config) embedded(address string, logger *zap.Logger) *embed.Config {
	e := embed.NewConfig()
	e.Name = memberName
	e.Dir = filepath.Join(c.DataDir, memberDir)
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	client := []url.URL{{Scheme: "http", Host: address}}
	e.ListenClientUrls, e.AdvertiseClientUrls = client, client
	// A single member never dials its peer address; it needs one to exist.
	peer := []url.URL{{Scheme: "http", Host: net.JoinHostPort(loopback, freePort)}}
	e.ListenPeerUrls, e.AdvertisePeerUrls = peer, peer
	e.InitialCluster = e.InitialClusterFromName(memberName)
	e.EnableGRPCGateway = false
	e.MaxTxnOps = maxTxnOps
	e.SnapshotCount = snapshotCount
	e.SnapshotCatchUpEntries = catchUpEntries
	e.QuotaBackendBytes = orDefault(c.QuotaBytes, defaultQuotaBytes)
	e.AutoCompactionMode = compactionUnit
	e.AutoCompactionRetention = orDefault(c.History, defaultHistory).String()
	// embed leaves it at 0, which logs every request with all its keys.
	// Such a warning prints the whole request: a page for a transaction of ours.
	e.WarningUnaryRequestDuration = slowRequest
	e.WarningApplyDuration = slowRequest
	return e
}

// serverLog is a log whose level can be raised, where it is our own.
type serverLog struct {
	*zap.Logger
	level zap.AtomicLevel
}

func (c *Config) logger() (serverLog, error) {
	// While it starts it warns of what is meant: no users, one port.
	level := zap.NewAtomicLevelAt(zapcore.ErrorLevel)
	if c.Logger != nil {
		return serverLog{c.Logger, level}, nil
	}
	z := zap.NewProductionConfig()
	z.Level = level
	z.Encoding = "console"
	z.EncoderConfig = zap.NewDevelopmentEncoderConfig()
	z.DisableStacktrace = true
	logger, err := z.Build()
	if err != nil {
		return serverLog{}, fmt.Errorf("embedded etcd: logger: %w", err)
	}
	return serverLog{logger.Named("etcd"), level}, nil
}

// listenAddress splits and checks the address that clients are to use.
func listenAddress(listen string) (host, port string, err error) {
	if listen == "" {
		return loopback, freePort, nil
	}
	host, port, err = net.SplitHostPort(listen)
	if err != nil {
		return "", "", fmt.Errorf("embedded etcd: listen address %q: %w", listen, err)
	}
	if host == "localhost" {
		host = loopback
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", "", fmt.Errorf("embedded etcd: listen address %q is not loopback; it has no TLS: use an external etcd for more than "+
			"one machine", listen)
	}
	return host, port, nil
}

// pickPort asks the kernel for a port that is free now.
func pickPort(ctx context.Context, host string) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, freePort))
	if err != nil {
		return "", fmt.Errorf("embedded etcd: free port on %s: %w", host, err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return "", fmt.Errorf("embedded etcd: free port on %s: %w", host, err)
	}
	return address, nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
