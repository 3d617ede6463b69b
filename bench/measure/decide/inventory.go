package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/internal/workload"
	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// inventory makes nodes: of three sizes, or as Borg's machines are.
func (m *maker) inventory() error {
	if m.size.Cluster == borg {
		return m.borgNodes()
	}
	for i := range m.size.Nodes {
		if err := m.add(workload.Node(i)); err != nil {
			return err
		}
	}
	return nil
}

// add takes a node in.
func (m *maker) add(n *v1.Node) error {
	m.workload.Nodes = append(m.workload.Nodes, n)
	return m.kept(n)
}

// borg names the inventory of eight Borg cells of 2019, and how many machines those have.
const (
	borg         = "borg"
	borgMachines = 96591
	// The trace tells sizes as shares of the largest machine, which is taken for one of this size.
	borgMilliCPU  = 128000
	borgMemoryMiB = 512 << 10
)

// borgNodes are the machines of the trace, a cell a zone, so that neighbours differ.
// Source: Google cluster-usage traces v3 (ClusterData2019), CC-BY-4.0, reduced to shape counts.
func (m *maker) borgNodes() error {
	rows, err := readCSV(filepath.Join(m.size.Data, "borg-2019", "machine_shapes.csv"), "cell", "cpus", "memory", "machine_count")
	if err != nil {
		return err
	}
	for at, row := range rows {
		cpus, e1 := strconv.ParseFloat(row[1], 64)
		memory, e2 := strconv.ParseFloat(row[2], 64)
		count, e3 := strconv.Atoi(row[3])
		if err := errors.Join(e1, e2, e3); err != nil {
			return fmt.Errorf("machine_shapes.csv: line %d: %w", at+2, err)
		}
		for range count {
			n := workload.Labelled(len(m.workload.Nodes), "cell-"+row[0], fmt.Sprintf("shape-%s-%s", row[1], row[2])).
				CPU(fmt.Sprintf("%dm", int64(cpus*borgMilliCPU))).Memory(fmt.Sprintf("%dMi", int64(memory*borgMemoryMiB))).Obj()
			if err := m.add(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// tracePod is what a pod of the openb trace asks for.
type tracePod struct {
	milliCPU, memoryMiB, gpus, gpuMilli int64
	models                              []string
}

// Names of the trace's resources, as shardsched's own reader of it gives them.
const (
	gpu        = "nvidia.com/gpu"
	gpuMilli   = "shardsched.io/gpu-milli"
	modelLabel = "shardsched.io/gpu-model"
)

// openbCluster is as many nodes as wanted, drawn from the openb trace, each of its nodes once before any
// comes again. No pods are there.
func openbCluster(m *maker) error {
	folder := filepath.Join(m.size.Data, "openb-gpu-2023")
	rows, err := readCSV(filepath.Join(folder, "openb_node_list_all_node.csv"), "sn", "cpu_milli", "memory_mib", "gpu", "model")
	if err != nil {
		return err
	}
	order := m.Perm(len(rows))
	for i := range m.size.Nodes {
		row := rows[order[i%len(rows)]]
		n, err := integers(row[1:4])
		if err != nil {
			return fmt.Errorf("openb_node_list_all_node.csv: %s: %w", row[0], err)
		}
		name := fmt.Sprintf("node-%d", i)
		b := build.Node(name).CPU(fmt.Sprintf("%dm", n[0])).Memory(fmt.Sprintf("%dMi", n[1])).
			Label(v1.LabelHostname, name).Label(v1.LabelOSStable, "linux").Label(v1.LabelArchStable, "amd64")
		if n[2] > 0 {
			b.Label(modelLabel, row[4]).Resource(gpu, row[3]).Resource(gpuMilli, fmt.Sprint(1000*n[2]))
		}
		if err := m.add(b.Obj()); err != nil {
			return err
		}
	}
	return m.readTrace(filepath.Join(folder, "openb_pod_list_gpuspec33.csv"))
}

func (m *maker) readTrace(path string) error {
	rows, err := readCSV(path, "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
	if err != nil {
		return err
	}
	for _, row := range rows {
		n, err := integers(row[1:5])
		if err != nil {
			return fmt.Errorf("%s: %s: %w", path, row[0], err)
		}
		p := tracePod{milliCPU: n[0], memoryMiB: n[1], gpus: n[2], gpuMilli: n[3]}
		if row[5] != "" {
			p.models = strings.Split(row[5], "|")
		}
		m.trace = append(m.trace, p)
	}
	m.Shuffle(len(m.trace), func(i, j int) { m.trace[i], m.trace[j] = m.trace[j], m.trace[i] })
	return nil
}

func openbPod(m *maker, b *build.PodBuilder, i int, _ *v1.Node) []oracle.Object {
	p := m.trace[i%len(m.trace)]
	b.CPU(fmt.Sprintf("%dm", p.milliCPU)).Memory(fmt.Sprintf("%dMi", p.memoryMiB))
	switch {
	case p.gpus == 1 && p.gpuMilli < 1000:
		b.Request(gpuMilli, fmt.Sprint(p.gpuMilli))
	case p.gpus > 0:
		b.Request(gpu, fmt.Sprint(p.gpus)).Request(gpuMilli, fmt.Sprint(1000*p.gpus))
	}
	if len(p.models) > 0 {
		b.Required(build.Labels(build.Match(modelLabel, v1.NodeSelectorOpIn, p.models...)))
	}
	return nil
}

func integers(cells []string) ([]int64, error) {
	out := make([]int64, len(cells))
	for i, cell := range cells {
		var err error
		if out[i], err = strconv.ParseInt(cell, 10, 64); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readCSV reads a file whose first columns must be these, without its first line.
func readCSV(path string, columns ...string) ([][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) < 2 {
		return nil, fmt.Errorf("%s: it has no rows", path)
	}
	for i, want := range columns {
		if i >= len(rows[0]) || rows[0][i] != want {
			return nil, fmt.Errorf("%s: the columns are %v, expected %v first", path, rows[0], columns)
		}
	}
	return rows[1:], nil
}
