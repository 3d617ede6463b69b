package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// podGroupPage is how many pod groups, or members of one, are asked for at a time.
const podGroupPage = 1000

// tellsPodGroups tells whether PodGroups are shown as the scheduler sees them: in a table. Other forms show the objects.
func (o *getOptions) tellsPodGroups() bool { return o.isTable() }

// podGroups shows where those of the names stand; of none, all.
func (o *getOptions) podGroups(ctx context.Context, s Streams, cl *client.Client, names []string) error {
	v := &view[*pb.PodGroupStatus]{
		name:    func(x *pb.PodGroupStatus) string { return "podgroup/" + x.GetNamespace() + "/" + x.GetName() },
		headers: []string{"NAME", "POLICY", "STATE", "NEEDED", "EXIST", "FIT", "SCHEDULED", "AGE", "VERDICT"},
		row:     o.podGroupRow,
		empty:   "No podgroups found" + o.where(client.KindPod) + ".",
	}
	if o.all {
		v.headers = slices.Insert(v.headers, 0, "NAMESPACE")
	}
	if o.form == "wide" {
		v.headers = slices.Insert(v.headers, len(v.headers)-1, "PRIORITY", "BEST DOMAIN", "DOMAIN FITS", "SINCE")
	}
	return display(ctx, o, s, v, func() (any, []*pb.PodGroupStatus, error) {
		req := &pb.ListPodGroupsRequest{Namespace: o.of(client.KindPod), LabelSelector: o.selector, Limit: podGroupPage}
		answer, err := listPodGroups(ctx, cl, req)
		if err != nil {
			return nil, nil, fmt.Errorf("list podgroups: %w", err)
		}
		if answer.GetNote() != "" {
			v.empty = answer.GetNote() + "."
		}
		if len(names) > 0 {
			if answer.PodGroups, err = podGroupsNamed(answer.GetPodGroups(), names); err != nil {
				return nil, nil, fmt.Errorf("%w%s", err, o.where(client.KindPod))
			}
		}
		chosen := o.listing
		chosen.selector, chosen.labels = "", labels.Everything() // the coordinator has chosen by them
		answer.PodGroups, err = choose(&chosen, answer.GetPodGroups(), nil)
		return answer, answer.GetPodGroups(), err
	})
}

// podGroupsNamed are those of the names, each of which must be there.
func podGroupsNamed(all []*pb.PodGroupStatus, names []string) ([]*pb.PodGroupStatus, error) {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(x *pb.PodGroupStatus) bool { return x.GetName() == name }) {
			return nil, fmt.Errorf("no podgroup %q", name)
		}
	}
	return slices.DeleteFunc(all, func(x *pb.PodGroupStatus) bool { return !slices.Contains(names, x.GetName()) }), nil
}

// listPodGroups asks for all pages.
func listPodGroups(ctx context.Context, cl *client.Client, req *pb.ListPodGroupsRequest) (all *pb.ListPodGroupsResponse, err error) {
	for {
		var page *pb.ListPodGroupsResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			page, err = c.ListPodGroups(ctx, req)
			return err
		})
		if err != nil {
			return nil, err
		}
		if all != nil {
			page.PodGroups = append(all.GetPodGroups(), page.GetPodGroups()...)
		}
		if all = page; page.GetContinueToken() == "" {
			return all, nil
		}
		req.ContinueToken = page.GetContinueToken()
	}
}

func (o *getOptions) podGroupRow(x *pb.PodGroupStatus) []string {
	row := []string{
		x.GetName(), cmp.Or(x.GetPolicy(), "<none>"), x.GetState(), fmt.Sprint(max(x.GetMinCount(), 1)), fmt.Sprint(x.GetExist()),
		fmt.Sprint(x.GetFit()), fmt.Sprint(x.GetScheduled()), o.ageOf(x.GetCreated()),
	}
	if o.all {
		row = slices.Insert(row, 0, x.GetNamespace())
	}
	if o.form == "wide" {
		domain, fits := "<none>", "-"
		if x.GetDomain() != "" {
			domain, fits = x.GetDomain(), fmt.Sprint(x.GetDomainFits())
		}
		row = append(row, fmt.Sprint(x.GetPriority()), domain, fits, o.ageOf(x.GetSince()))
	}
	return append(row, x.GetVerdict())
}

// ageOf is for how long something is there.
func (o *getOptions) ageOf(t *timestamppb.Timestamp) string {
	if t == nil {
		return "<unknown>"
	}
	return duration.HumanDuration(max(o.now().Sub(t.AsTime()), 0))
}
