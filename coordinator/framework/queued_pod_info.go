package framework

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// QueuedPodInfo is a view of a pod in the queue. Each field is what the method of the like name
// gives.
type QueuedPodInfo struct {
	PodInfo                fwk.PodInfo
	Timestamp              time.Time
	Attempts               int
	BackoffExpiration      time.Time
	UnschedulableCount     int
	ConsecutiveErrorsCount int
	// InitialAttemptTimestamp is nil before the first attempt.
	InitialAttemptTimestamp              *time.Time
	UnschedulablePlugins, PendingPlugins sets.Set[string]
	// GatingPlugin is empty where none holds the pod back.
	GatingPlugin       string
	GatingPluginEvents []fwk.ClusterEvent
}

var _ fwk.QueuedPodInfo = (*QueuedPodInfo)(nil)

// GetPodInfo is part of fwk.QueuedPodInfo.
func (q *QueuedPodInfo) GetPodInfo() fwk.PodInfo { return q.PodInfo }

// GetTimestamp is part of fwk.QueuedPodInfo.
func (q *QueuedPodInfo) GetTimestamp() time.Time { return q.Timestamp }

// GetAttempts is part of fwk.QueuedPodInfo.
func (q *QueuedPodInfo) GetAttempts() int { return q.Attempts }

// GetBackoffExpiration is part of fwk.QueuedPodInfo.
func (q *QueuedPodInfo) GetBackoffExpiration() time.Time { return q.BackoffExpiration }

// GetUnschedulableCount is part of fwk.QueuedPodInfo.
func (q *QueuedPodInfo) GetUnschedulableCount() int { return q.UnschedulableCount }

// GetConsecutiveErrorsCount is part of fwk.QueuedPodInfo.
func (q *QueuedPodInfo) GetConsecutiveErrorsCount() int { return q.ConsecutiveErrorsCount }

// GetInitialAttemptTimestamp is part of fwk.QueuedPodInfo.
func (q *QueuedPodInfo) GetInitialAttemptTimestamp() *time.Time { return q.InitialAttemptTimestamp }

// GetUnschedulablePlugins is part of fwk.QueuedPodInfo.
func (q *QueuedPodInfo) GetUnschedulablePlugins() sets.Set[string] { return q.UnschedulablePlugins }

// GetPendingPlugins is part of fwk.QueuedPodInfo.
func (q *QueuedPodInfo) GetPendingPlugins() sets.Set[string] { return q.PendingPlugins }

// GetGatingPlugin is part of fwk.QueuedPodInfo.
func (q *QueuedPodInfo) GetGatingPlugin() string { return q.GatingPlugin }

// GetGatingPluginEvents is part of fwk.QueuedPodInfo.
func (q *QueuedPodInfo) GetGatingPluginEvents() []fwk.ClusterEvent { return q.GatingPluginEvents }
