package compile_test

import (
	"os"
	"testing"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/rules"
)

func TestMain(m *testing.M) {
	compile.Catalogue.NewProfile, compile.Catalogue.DefaultConfig = rules.NewProfile, rules.DefaultConfig
	os.Exit(m.Run())
}
