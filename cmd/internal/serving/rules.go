package serving

import (
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Callers are the roles that may make a call: a gRPC method by its full name, or an HTTP path,
// which stands for those below it where it ends in a slash. None: nobody may.
func Callers(call string) Role {
	switch call {
	case pb.WorkerService_Evaluate_FullMethodName, pb.WorkerService_LoadSnapshot_FullMethodName:
		return Coordinator
	case pb.SchedulerService_GetLeader_FullMethodName, pb.SchedulerService_ListObjects_FullMethodName,
		pb.SchedulerService_Watch_FullMethodName,
		pb.SchedulerService_ListWorkers_FullMethodName, pb.SchedulerService_ListShards_FullMethodName,
		pb.SchedulerService_ListDevices_FullMethodName, pb.SchedulerService_ListPending_FullMethodName,
		pb.SchedulerService_ListTraces_FullMethodName, pb.SchedulerService_ListDecisions_FullMethodName,
		pb.SchedulerService_ListPlugins_FullMethodName, pb.SchedulerService_GetConfiguration_FullMethodName,
		pb.SchedulerService_GetNodeMap_FullMethodName,
		pb.SchedulerService_ListPodGroups_FullMethodName, pb.SchedulerService_ExplainPodGroup_FullMethodName,
		pb.SchedulerService_ListMapNodes_FullMethodName, pb.SchedulerService_GetFragmentation_FullMethodName,
		pb.SchedulerService_ExplainNode_FullMethodName,
		pb.SchedulerService_Explain_FullMethodName, pb.SchedulerService_GetSummary_FullMethodName,
		"/console/", "/report", "/report.json":
		return Reader | Writer | Admin
	case pb.SchedulerService_Apply_FullMethodName, pb.SchedulerService_Delete_FullMethodName:
		return Writer | Admin
	case "/metrics":
		return Metrics | Admin
	case "/debug/":
		return Admin
	case healthpb.Health_Check_FullMethodName, healthpb.Health_List_FullMethodName, healthpb.Health_Watch_FullMethodName,
		"/healthz", "/livez", "/readyz":
		return Everybody
	}
	return 0
}

// Verb is what the holder of a bearer token must be allowed to do at the non-resource URL that is the
// call's name.
func Verb(call string) string {
	switch call {
	case pb.SchedulerService_Apply_FullMethodName:
		return "post"
	case pb.SchedulerService_Delete_FullMethodName:
		return "delete"
	}
	return "get"
}
