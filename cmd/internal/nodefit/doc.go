// Package nodefit tells which pending pods a node would take: of each workload one pod is explained, and held against that node.
package nodefit
