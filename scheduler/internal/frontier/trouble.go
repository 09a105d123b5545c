package frontier

import (
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// trouble tells what keeps a running job from going on, as far as the frontier
// knows, for programs and in words.
func (f *Frontier) trouble(j *job) (schedulerv1.Trouble, string) {
	switch {
	case f.err != nil:
		return schedulerv1.Trouble_TROUBLE_FRONTIER, f.err.Error()
	case f.hold.reason != "":
		return schedulerv1.Trouble_TROUBLE_STORAGE, "storage is unavailable: " + f.hold.reason
	case f.network.down.reason != "":
		return schedulerv1.Trouble_TROUBLE_NETWORK, f.network.down.reason
	case f.onlyHeld(j, schedulerv1.QueueState_QUEUE_STATE_UNSPECIFIED):
		return schedulerv1.Trouble_TROUBLE_BLOCKED, "all that is left is in queues that are blocked by hand"
	}
	return schedulerv1.Trouble_TROUBLE_UNSPECIFIED, ""
}
