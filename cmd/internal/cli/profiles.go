package cli

import "github.com/shardsched/shardsched/coordinator/compile"

func loadProfiles(string) (map[string]*compile.Profile, error) { return nil, nil }
