package kube_test

import (
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/kube"
)

var (
	_ bind.Binder               = (*kube.Binder)(nil)
	_ coordinator.Reporter      = (*kube.Reporter)(nil)
	_ coordinator.GroupReporter = (*kube.Reporter)(nil)
)
