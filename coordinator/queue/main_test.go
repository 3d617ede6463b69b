package queue_test

import (
	"os"
	"testing"

	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
)

func TestMain(m *testing.M) {
	queue.Catalogue = rules.QueuePlugins
	os.Exit(m.Run())
}
