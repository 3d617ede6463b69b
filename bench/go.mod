module github.com/shardsched/shardsched/bench

go 1.26.0

require github.com/shardsched/shardsched v0.0.0

replace github.com/shardsched/shardsched => ../
