package cli

import (
	"context"

	"github.com/shardsched/shardsched/coordinator/framework"
)

// Runs are the bodies of the commands that run a scheduler. A command whose
// function is nil is left out of the tree.
type Runs struct {
	Up          func(context.Context, Streams, UpOptions) error
	Coordinator func(context.Context, Streams, CoordinatorOptions) error
	Worker      func(context.Context, Streams, WorkerOptions) error
	Simulate    func(context.Context, Streams, SimulateOptions) error
	Shadow      func(context.Context, Streams, ShadowOptions) error
	// OutOfTree are the plugins that are compiled in beside upstream's, by name.
	OutOfTree framework.Registry
}

// Standard is what the shardsched binary runs.
func Standard() Runs {
	return Runs{Up: runUp, Coordinator: runCoordinator, Worker: runWorker, Simulate: runSimulate, Shadow: runShadow}
}
