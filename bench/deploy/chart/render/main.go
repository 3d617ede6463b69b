package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/shardsched/shardsched/bench/deploy/chart"
)

func main() {
	deploy := flag.String("deploy", "../deploy", "the `FOLDER` with chart and kustomize")
	flag.Parse()
	if err := chart.Write(*deploy); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
