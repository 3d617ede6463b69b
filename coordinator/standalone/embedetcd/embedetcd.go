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
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

const (
	defaultHistory    = 5 * time.Minute
	defaultQuotaBytes = 8 << 30
	// maxTxnOps is above what package store uses, so that operators' own tools fit.
	maxTxnOps = 1024
	// snapshotCount bounds the raft log in memory: entries of about 100 kB each.
	snapshotCount  = 1000
	catchUpEntries = 100
	// walSegmentBytes is what a file of the raft log takes from its start on, of which there are two: etcd's own 64 MB are
	// much for a folder in memory. Snapshots leave few files behind them to be kept.
	walSegmentBytes = 16 << 20
	walFiles        = 2
	pipeBytes       = 1 << 20 // of each direction of a connection within the process
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

// InProcess is the endpoint of clients of a member that does not listen.
const InProcess = "in-process"

// Config tells how to run the member. Only DataDir is required.
type Config struct {
	// DataDir is made when it is missing.
	DataDir string
	// Listen is the clients' host:port, a loopback address; port 0: a free one. Empty: no
	// other process can reach the member.
	Listen string
	// Volatile says that nobody reads DataDir again: nothing waits for the disk.
	Volatile bool
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
	within   *within // nil: it listens
	logger   serverLog
	closing  sync.Once
	lock     *fileutil.LockedFile // of the data directory; nil until it has started
}

// Start runs a member and returns when it answers requests, or when ctx ends.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.DataDir == "" {
		return nil, errors.New("embedded etcd: no data directory given")
	}
	if err := checkListen(cfg.Listen); err != nil {
		return nil, err
	}
	logger, err := cfg.logger()
	if err != nil {
		return nil, err
	}
	shortenSegments()
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	lock, err := lockDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	s, err := startAnywhere(ctx, cfg, logger)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.lock = lock
	return s, nil
}

// abandoned is how old a lock has to be that nobody holds: between its making and its taking lies a moment.
const abandoned = time.Minute

// Temporary makes a folder for a member that nobody reads again, and removes those of members whose processes were killed.
func Temporary() (dir string, err error) {
	const pattern = "shardsched-etcd-*"
	locks, err := filepath.Glob(filepath.Join(os.TempDir(), pattern, lockFile))
	if err != nil {
		return "", fmt.Errorf("embedded etcd: %w", err)
	}
	for _, file := range locks {
		if info, err := os.Stat(file); err != nil || time.Since(info.ModTime()) < abandoned {
			continue
		}
		lock, err := fileutil.TryLockFile(file, os.O_WRONLY, fileutil.PrivateFileMode)
		if err != nil {
			continue // in use, or another user's
		}
		err = errors.Join(os.RemoveAll(filepath.Dir(file)), lock.Close())
		if err != nil {
			return "", fmt.Errorf("embedded etcd: remove %s, whose process is gone: %w", filepath.Dir(file), err)
		}
	}
	if dir, err = os.MkdirTemp("", pattern); err != nil {
		return "", fmt.Errorf("embedded etcd: %w", err)
	}
	return dir, nil
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

// shortenSegments has etcd's packages use walSegmentBytes, once for all members of this process.
var shortenSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = walSegmentBytes })

// startAnywhere starts without a port, on the given one, or on one that is free.
func startAnywhere(ctx context.Context, cfg Config, logger serverLog) (*Server, error) {
	if cfg.Listen == "" {
		return start(ctx, cfg, "", logger)
	}
	host, port := split(cfg.Listen)
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
		return nil, fmt.Errorf("embedded etcd in %s: %w", cfg.DataDir, err)
	}
	s := &Server{etcd: etcd, endpoint: address, logger: logger}
	select {
	case <-etcd.Server.ReadyNotify():
		logger.level.SetLevel(zapcore.WarnLevel)
		if address == "" {
			s.serveWithin()
		}
		return s, nil
	case err := <-etcd.Err():
		s.Close()
		return nil, fmt.Errorf("embedded etcd in %s: %w", cfg.DataDir, err)
	case <-ctx.Done():
		s.Close()
		return nil, fmt.Errorf("embedded etcd in %s is not ready: %w", cfg.DataDir, ctx.Err())
	}
}

// within serves etcd's clients in this process, over connections that no other process can open.
type within struct {
	listener *bufconn.Listener
	server   *grpc.Server
	ended    sync.WaitGroup
}

func (s *Server) serveWithin() {
	w := &within{listener: bufconn.Listen(pipeBytes), server: v3rpc.Server(s.etcd.Server, nil, nil)}
	w.ended.Go(func() {
		if err := w.server.Serve(w.listener); err != nil {
			s.logger.Error("serve clients within the process", zap.Error(err))
		}
	})
	s.within = w
}

func (w *within) close() {
	w.server.Stop()
	w.ended.Wait()
}

// Endpoint is the host:port that clients dial; empty: only Client reaches the member.
func (s *Server) Endpoint() string { return s.endpoint }

// Err delivers an error when the member ends by itself.
func (s *Server) Err() <-chan error { return s.etcd.Err() }

// Client returns a new client of this member; the caller closes it.
func (s *Server) Client() (*clientv3.Client, error) {
	cfg := clientv3.Config{
		Endpoints:   []string{s.endpoint},
		DialTimeout: clientDialLimit,
		// It warns of every call that its caller gave up.
		Logger: s.logger.Named("client").WithOptions(zap.IncreaseLevel(zapcore.ErrorLevel)),
	}
	if s.within != nil {
		cfg.Endpoints = []string{InProcess}
		cfg.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return s.within.listener.DialContext(ctx)
		})}
	}
	c, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of embedded etcd at %s: %w", cfg.Endpoints[0], err)
	}
	return c, nil
}

// Close ends the member and returns when its files are closed. Closing twice is allowed.
func (s *Server) Close() {
	s.closing.Do(func() {
		// etcd reports each listener that it closes itself as an error.
		s.logger.level.SetLevel(zapcore.PanicLevel)
		if s.within != nil {
			s.within.close()
		}
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
	e.ListenClientUrls, e.AdvertiseClientUrls = nil, nil
	if address != "" {
		client := []url.URL{{Scheme: "http", Host: address}}
		e.ListenClientUrls, e.AdvertiseClientUrls = client, client
	}
	// A single member has an address for peers, but none that would dial it: nobody listens there.
	e.ListenPeerUrls = nil
	e.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: net.JoinHostPort(loopback, freePort)}}
	e.InitialCluster = e.InitialClusterFromName(memberName)
	e.EnableGRPCGateway = false
	e.MaxTxnOps = maxTxnOps
	e.SnapshotCount = snapshotCount
	e.SnapshotCatchUpEntries = catchUpEntries
	e.MaxWalFiles = walFiles
	e.UnsafeNoFsync = c.Volatile
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

// checkListen refuses an address that other machines can reach.
func checkListen(listen string) error {
	if listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return fmt.Errorf("embedded etcd: listen address %q: %w", listen, err)
	}
	host, _ := split(listen)
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("embedded etcd: listen address %q is not loopback; it has no TLS: use an external etcd for more than "+
			"one machine", listen)
	}
	return nil
}

// split splits an address that can be split.
func split(listen string) (host, port string) {
	host, port, _ = net.SplitHostPort(listen)
	if host == "localhost" {
		host = loopback
	}
	return host, port
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
