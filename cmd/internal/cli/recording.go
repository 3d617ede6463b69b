package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/shardsched/shardsched/coordinator/record"
)

// Recording are the flags of the flight recorder.
type Recording struct {
	// Record is the file that it writes; empty: none.
	Record string
	// RecordLimit is how many bytes it writes at the most; 0: any number.
	RecordLimit int64
}

func (r *Recording) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&r.Record, "record", "", "write what the scheduler takes in, decides and takes back to `FILE`, which is begun anew, so "+
		"that every decision can be judged afterwards")
	fs.Int64Var(&r.RecordLimit, "record-limit-bytes", 0, "stop recording after this many bytes; 0: never")
}

// createPrivate opens a file for the objects that are written to it, environment variables
// included: nobody but its owner may read it.
func createPrivate(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|flag, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = f.Chmod(0o600) // of a file that was there before
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// start begins a record. end has to be called once the scheduler has stopped; it writes what
// is left.
func (r Recording) start(ctx context.Context, registerer prometheus.Registerer) (w *record.Writer, end func() error, err error) {
	if r.Record == "" {
		return nil, func() error { return nil }, nil
	}
	f, err := createPrivate(r.Record, os.O_RDWR|os.O_TRUNC)
	if err != nil {
		return nil, nil, fmt.Errorf("record: %w", err)
	}
	w = record.NewWriter(f, record.Config{Version: Version(), Limit: r.RecordLimit, Registerer: registerer})
	go w.Run(context.WithoutCancel(ctx))
	return w, w.Close, nil
}
