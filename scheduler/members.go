package scheduler

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// member is one joined instance.
type member struct {
	info *schedulerv1.Instance // guarded by members.mu
	gone chan struct{}         // closed when its Join stream has ended
	// inflight counts the leases that a downloader has not answered.
	inflight atomic.Int64
}

type memberKey struct {
	kind schedulerv1.ServiceKind
	id   string
}

// members is who has joined. The epoch grows with each change of the set of
// downloaders that take leases, the revision with each change of anything.
type members struct {
	mu       sync.Mutex
	byKey    map[memberKey]*member
	epoch    uint64
	revision uint64
	changed  chan struct{} // closed and replaced at each change
	closed   bool
}

func newMembers() *members {
	return &members{byKey: map[memberKey]*member{}, changed: make(chan struct{})}
}

// add lets an instance join; false if one of its kind and id is there.
func (m *members) add(info *schedulerv1.Instance) (*member, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := memberKey{info.GetKind(), info.GetId()}
	if m.closed || m.byKey[key] != nil {
		return nil, false
	}
	mem := &member{info: info, gone: make(chan struct{})}
	m.byKey[key] = mem
	m.bump(info.GetKind())
	return mem, true
}

func (m *members) remove(mem *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := memberKey{mem.info.GetKind(), mem.info.GetId()}
	if m.byKey[key] == mem {
		delete(m.byKey, key)
		close(mem.gone)
		m.bump(key.kind)
	}
}

func (m *members) setDraining(mem *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !mem.info.GetDraining() {
		mem.info.Draining = true
		m.bump(mem.info.GetKind())
	}
}

// touch marks a change that is not of the membership (a job).
func (m *members) touch() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bump(schedulerv1.ServiceKind_SERVICE_KIND_UNSPECIFIED)
}

func (m *members) bump(kind schedulerv1.ServiceKind) {
	if kind == schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER {
		m.epoch++
	}
	m.revision++
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *members) shutdown() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}

// watch returns a channel that is closed at the next change.
func (m *members) watch() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// list returns copies of all instances, by kind and id, with the revision and
// the membership epoch they belong to.
func (m *members) list() (instances []*schedulerv1.Instance, revision, epoch uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mem := range m.byKey {
		info := proto.CloneOf(mem.info)
		info.Leases = uint32(mem.inflight.Load())
		instances = append(instances, info)
	}
	slices.SortFunc(instances, func(a, b *schedulerv1.Instance) int {
		if a.GetKind() != b.GetKind() {
			return int(a.GetKind()) - int(b.GetKind())
		}
		return strings.Compare(a.GetId(), b.GetId())
	})
	return instances, m.revision, m.epoch
}

// downloaders returns the ids of those that take leases, sorted as bytes, and
// the epoch of the set.
func (m *members) downloaders() (ids []string, epoch uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, mem := range m.byKey {
		if key.kind == schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER && !mem.info.GetDraining() {
			ids = append(ids, key.id)
		}
	}
	slices.Sort(ids)
	return ids, m.epoch
}

// inflight is the number of leases that no downloader has answered.
func (m *members) inflight() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, mem := range m.byKey {
		n += int(mem.inflight.Load())
	}
	return n
}

// addresses returns where the instances of one kind are reached.
func (m *members) addresses(kind schedulerv1.ServiceKind) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for key, mem := range m.byKey {
		if key.kind == kind && !mem.info.GetDraining() {
			out = append(out, mem.info.GetAddress())
		}
	}
	slices.Sort(out)
	return out
}
