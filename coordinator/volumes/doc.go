// Package volumes is the coordinator's knowledge of storage: PersistentVolumes, claims,
// StorageClasses, CSINodes, CSIDrivers, CSIStorageCapacities and VolumeAttachments, what
// placements have assumed of them, which volumes are attached to which node, and how a
// placed pod's claims get their volumes. It holds facts for the filters (package compile
// makes queries of them: it declares the interface that Cache is) and does what upstream's
// VolumeBinding does after a node is chosen.
//
// # Words
//
//	claim       a PersistentVolumeClaim
//	volume      a PersistentVolume
//	match       an unbound claim with the volume that was found for it
//	offered     of a volume: an unbound claim of its class may take it
//	provision   an unbound claim whose volume is to be made on the chosen node
//	assumption  an object as it is to be written, which placements see in place of the API's
//	work        the matches and provisions of one placement
//	view        the API's objects without assumptions, shared with binding goroutines
//	attachment  a volume as NodeVolumeLimits tells them apart: CSI driver and handle
//
// # An object's states
//
//	            Reserve                    PreBind writes, the API tells of it
//	(API's) ----------------> assumed ------------------------------------------> (API's)
//	   ^                         |
//	   |  Unreserve, or the API  |
//	   +------ has another ------+
//
// Any other version of the API replaces what was assumed. Only the claimRef and the
// bound-by-controller annotation of a volume, and the selected-node annotation of a claim
// are ever assumed, so that filters which upstream gives the API's objects may look at
// assumed ones.
//
// # Who calls what
//
//	scheduling goroutine                       binding goroutine
//	--------------------                       -----------------
//	Set, Delete       objects of the API
//	PodAdded, PodRemoved, TakeChanges
//	compile.Volumes   (a class is compiled)
//	Reserve           -> Work, or nil  ------> Binder.PreBind   writes, waits
//	Unreserve         <- an error  <---------/    |
//	                                              v
//	Set, Delete  -------- (lock) ------------> apiView          the API's objects
//
// A Work is made by the scheduling goroutine, handed to one binding goroutine, and looked
// at again only when that is done with it. The only other thing that both touch is apiView,
// under its lock. Without a place to write to (a simulation), Complete stands for PreBind.
//
// Where there is no volume controller (BinderConfig.Completes) PreBind writes both sides of
// a match as bound, in one transaction. A volume that is to be made needs a provisioner in
// any case: the claim tells it the node, and PreBind waits.
//
// # Which volumes are tried
//
// The volumes that an unbound claim may take are kept by storage class, smallest
// first, and a second time by a label that their node affinity requires: a node finds its
// local volumes among ten thousand without a walk. Volumes whose claimRef names a claim are
// found by that claim.
//
// # Counters
//
//	attached volumes of a driver    on each row: distinct volumes of its pods and of its
//	                                node's VolumeAttachments
//	uses of a volume                on each row: pods that use it; only for volumes that
//	                                a class asked for while pods use them
//
// The values are kept here and told as changes: PodAdded and PodRemoved return those of one
// node, TakeChanges the rest (a claim was bound, a class got its provisioner, a volume
// was attached). What a pod attaches is compile's to say (compile.Attachments): the filter
// asks the same of the pod that is to be placed.
package volumes
