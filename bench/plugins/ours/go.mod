module github.com/shardsched/shardsched/bench/plugins/ours

go 1.26.0
