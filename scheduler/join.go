package scheduler

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Join implements SchedulerService.
func (s *Scheduler) Join(stream grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error {
	ctx := stream.Context()
	if err := s.ready(ctx); err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if err := checkHello(hello); err != nil {
		return err
	}
	mem, ok := s.members.add(&schedulerv1.Instance{
		Kind: hello.GetKind(), Id: hello.GetId(), Address: hello.GetAddress(), Version: hello.GetVersion(),
		JoinedAt: timestamppb.New(time.Now()), Capacity: hello.GetCapacity(),
	})
	if !ok {
		return status.Errorf(codes.AlreadyExists, "a %s with the id %q has joined already", kindName(hello.GetKind()), hello.GetId())
	}
	defer s.members.remove(mem)
	log := s.log.With("kind", kindName(hello.GetKind()), "member", hello.GetId())
	log.Info("joined", "address", hello.GetAddress(), "held", len(hello.GetHeld()))
	defer func() { log.Info("left") }()

	downloader := hello.GetKind() == schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER
	if downloader {
		s.f.Adopt(hello.GetId(), hello.GetHeld())
		defer s.f.MemberGone(hello.GetId())
		d := newDispatcher(s, mem, hello)
		dispatchCtx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { defer close(done); d.run(dispatchCtx) }()
		defer func() { cancel(); <-done }()
	}

	updates := make(chan error, 1)
	go func() {
		for {
			msg, err := stream.Recv()
			if err != nil {
				updates <- err
				return
			}
			if msg.GetUpdate().GetDraining() {
				log.Info("draining")
				s.members.setDraining(mem)
			}
		}
	}()
	for {
		changed := s.members.watch()
		if err := stream.Send(&schedulerv1.JoinResponse{Topology: s.topology()}); err != nil {
			return err
		}
		select {
		case <-changed:
		case err := <-updates:
			log.Debug("the stream ended", "err", err)
			return nil
		case <-ctx.Done():
			return nil
		case <-s.stopping:
			return status.Error(codes.Unavailable, "the scheduler stops")
		}
	}
}

func checkHello(h *schedulerv1.Hello) error {
	switch {
	case h == nil:
		return status.Error(codes.InvalidArgument, "the first message must be a hello")
	case kindName(h.GetKind()) == "":
		return status.Errorf(codes.InvalidArgument, "hello.kind: %d is no service", h.GetKind())
	case h.GetId() == "" || len(h.GetId()) > 64:
		return status.Errorf(codes.InvalidArgument, "hello.id: must be 1 to 64 characters, is %q", h.GetId())
	case h.GetAddress() == "":
		return status.Error(codes.InvalidArgument, "hello.address: is empty")
	case h.GetKind() == schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER && h.GetCapacity() == 0:
		return status.Error(codes.InvalidArgument, "hello.capacity: a downloader must take at least one lease")
	}
	return nil
}

func kindName(k schedulerv1.ServiceKind) string {
	switch k {
	case schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER:
		return "downloader"
	case schedulerv1.ServiceKind_SERVICE_KIND_EXTRACTOR:
		return "extractor"
	case schedulerv1.ServiceKind_SERVICE_KIND_DNSER:
		return "dnser"
	case schedulerv1.ServiceKind_SERVICE_KIND_SCHEDULER:
		return "scheduler"
	case schedulerv1.ServiceKind_SERVICE_KIND_GATEWAY:
		return "gateway"
	}
	return ""
}

// topology is what members are told.
func (s *Scheduler) topology() *schedulerv1.Topology {
	instances, revision, epoch := s.members.list()
	for _, i := range instances {
		i.Leases = 0 // changes with every fetch; ListInstances tells it
	}
	return &schedulerv1.Topology{
		Revision: revision, MembershipEpoch: epoch, Instances: instances, Jobs: s.f.JobSpecs(),
	}
}

// publish has the members told whenever a job changes.
func (s *Scheduler) publish(ctx context.Context) error {
	for {
		changed := s.f.Changed()
		s.members.touch()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// dispatchAll keeps the frontier told of the living downloaders. When ctx ends
// it stops leasing and returns when what is out has come home, or after the
// drain timeout.
func (s *Scheduler) dispatchAll(ctx context.Context) error {
	last := ^uint64(0)
	for {
		changed := s.members.watch()
		if ids, epoch := s.members.downloaders(); epoch != last {
			last = epoch
			s.f.SetMembers(epoch, ids)
		}
		select {
		case <-changed:
			continue
		case <-ctx.Done():
		}
		s.endLeasing()
		s.drain()
		close(s.stopping)
		return nil
	}
}

// endLeasing returns when no lease is given out any more and those that were are
// counted.
func (s *Scheduler) endLeasing() {
	s.leasing.Lock()
	defer s.leasing.Unlock()
	s.leasingEnded = true
}

// drain waits until no downloader owes an answer, or the drain timeout.
func (s *Scheduler) drain() {
	timeout := time.NewTimer(s.cfg.DrainTimeout)
	defer timeout.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for s.members.inflight() > 0 {
		select {
		case <-timeout.C:
			s.log.Warn("leases are still out, they go on at the next start", "leases", s.members.inflight(), "drain_timeout", s.cfg.DrainTimeout)
			return
		case <-poll.C:
		}
	}
}
