package compile

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestDefaultProfileIsUpstreams(t *testing.T) {
	p, err := newProfile(DefaultConfig("x"))
	if err != nil {
		t.Fatalf("want no error, got %v", err)
	}
	if p.Name() != "x" {
		t.Errorf("name: want x, got %s", p.Name())
	}
	// Weights as upstream's MultiPoint list has them.
	want := []*pb.ScoreWeight{
		{Plugin: pb.Plugin_PLUGIN_TAINT_TOLERATION, Weight: 3},
		{Plugin: pb.Plugin_PLUGIN_NODE_AFFINITY, Weight: 2},
		{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, Weight: 1},
		{Plugin: pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, Weight: 2},
		{Plugin: pb.Plugin_PLUGIN_INTER_POD_AFFINITY, Weight: 2},
		{Plugin: pb.Plugin_PLUGIN_DYNAMIC_RESOURCES, Weight: 2},
		{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION, Weight: 1},
		{Plugin: pb.Plugin_PLUGIN_IMAGE_LOCALITY, Weight: 1},
	}
	if diff := cmp.Diff(want, p.Scores(), protocmp.Transform()); diff != "" {
		t.Errorf("scores: want -, got +\n%s", diff)
	}
	resources := []*pb.ScoredResource{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}
	for name, got := range map[string][]*pb.ScoredResource{"fit": p.fitResources, "balanced": p.balancedResources} {
		if diff := cmp.Diff(resources, got, protocmp.Transform()); diff != "" {
			t.Errorf("resources of %s: want -, got +\n%s", name, diff)
		}
	}
}

func TestProfileRefusesWhatItCanNotDo(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*ProfileConfig)
		want   string
	}{
		"a filter twice": {
			func(c *ProfileConfig) { c.Filters = append(c.Filters, pb.Plugin_PLUGIN_NODE_NAME) },
			"filters: PLUGIN_NODE_NAME is listed twice or filters nothing",
		},
		"a score plugin as a filter": {
			func(c *ProfileConfig) { c.Filters = append(c.Filters, pb.Plugin_PLUGIN_IMAGE_LOCALITY) },
			"filters: PLUGIN_IMAGE_LOCALITY is listed twice or filters nothing",
		},
		"a filter as a score plugin": {
			func(c *ProfileConfig) {
				c.Scores = append(c.Scores, PluginWeight{Plugin: pb.Plugin_PLUGIN_NODE_PORTS, Weight: 1})
			},
			"scores: PLUGIN_NODE_PORTS is listed twice or scores nothing",
		},
		"a negative weight": {
			func(c *ProfileConfig) { c.Scores[0].Weight = -1 },
			"scores: weight of PLUGIN_TAINT_TOLERATION: -1 is below zero",
		},
		"weights that overflow together": {
			func(c *ProfileConfig) {
				c.Scores[0].Weight, c.Scores[1].Weight = math.MaxInt64/200, math.MaxInt64/200+1
			},
			"makes the total score overflow",
		},
		"a resource without a name": {
			func(c *ProfileConfig) { c.Balanced.Resources = []configv1.ResourceSpec{{}} },
			`resources[0].name: expected a resource, got ""`,
		},
		"a score above ten": {
			func(c *ProfileConfig) { c.Fit.ScoringStrategy = shaped(configv1.UtilizationShapePoint{Score: 11}) },
			"shape[0].score: 11 is not between 0 and 10",
		},
		"a utilization above a hundred": {
			func(c *ProfileConfig) {
				c.Fit.ScoringStrategy = shaped(configv1.UtilizationShapePoint{Utilization: 101})
			},
			"shape[0].utilization: 101 is not between 0 and 100",
		},
		"a malformed preference": {
			func(c *ProfileConfig) {
				c.NodeAffinity.AddedAffinity = &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
					{Weight: 1, Preference: v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In"}}}},
				}}
			},
			"addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: [0].matchFields[0].values: Invalid value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig("x")
			test.change(&c)
			_, err := newProfile(c)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error: want one with %q, got %v", test.want, err)
			}
		})
	}
}

// shaped is a RequestedToCapacityRatio strategy with one point.
func shaped(p configv1.UtilizationShapePoint) *configv1.ScoringStrategy {
	return &configv1.ScoringStrategy{
		Type:                     configv1.RequestedToCapacityRatio,
		RequestedToCapacityRatio: &configv1.RequestedToCapacityRatioParam{Shape: []configv1.UtilizationShapePoint{p}},
	}
}

func TestWeightZeroStandsForOne(t *testing.T) {
	c := DefaultConfig("x")
	c.Scores[0].Weight = 0
	p, err := newProfile(c)
	if err != nil {
		t.Fatalf("want no error, got %v", err)
	}
	if got := p.Scores()[0].Weight; got != 1 {
		t.Errorf("weight: want 1, got %d", got)
	}
}
