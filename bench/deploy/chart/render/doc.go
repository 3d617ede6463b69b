// Command render writes what deploy/chart renders to the folders that kustomize reads: make chart.
package main
