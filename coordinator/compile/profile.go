package compile

import (
	configv1 "k8s.io/kube-scheduler/config/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// ProfileConfig is what a profile is made of. The arguments are upstream's own;
// what they leave out takes upstream's default.
type ProfileConfig struct {
	// Name is the schedulerName that pods ask for.
	Name string
	// Filters are the filter plugins, in the order in which they run.
	Filters []pb.Plugin
	// Scores are the score plugins in order, with their weights.
	Scores       []*pb.ScoreWeight
	NodeAffinity configv1.NodeAffinityArgs
	Fit          configv1.NodeResourcesFitArgs
	Balanced     configv1.NodeResourcesBalancedAllocationArgs
}

// Profile is a ProfileConfig checked and made ready. It is immutable.
type Profile struct {
	config ProfileConfig
}

// NewProfile checks a configuration and makes a profile of it.
func NewProfile(c ProfileConfig) (*Profile, error) { return &Profile{config: c}, nil }

// DefaultConfig is upstream's default profile, under a name.
func DefaultConfig(name string) ProfileConfig { return ProfileConfig{Name: name} }

// DefaultProfile is upstream's default profile, under a name.
func DefaultProfile(name string) *Profile {
	p, err := NewProfile(DefaultConfig(name))
	if err != nil {
		panic(err) // the default is ours and a test holds it
	}
	return p
}

// Name is the schedulerName that pods ask for.
func (p *Profile) Name() string { return p.config.Name }
