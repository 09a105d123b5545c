package extractor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// held makes the dnser keep its answers until let is closed; arrived gets one
// for each.
func (r *ring) held() (arrived, let chan struct{}) {
	arrived, let = make(chan struct{}, 8), make(chan struct{})
	r.hold = func(*dnserv1.ResolveRequest) {
		arrived <- struct{}{}
		<-let
	}
	return arrived, let
}

// pages is a stream to the extractor for pages without bodies.
type pages struct {
	t      *testing.T
	stream extractorv1.ExtractorService_ExtractClient
}

func (r *ring) pages(t *testing.T) pages {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	stream, err := r.client.Extract(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return pages{t, stream}
}

func (p pages) send(id uint64, l *crawlv1.Lease, body string) {
	p.t.Helper()
	result := &crawlv1.FetchResult{
		Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: 200, StartedAt: timestamppb.Now(), Address: []byte{127, 0, 0, 1},
	}
	for _, req := range []*extractorv1.ExtractRequest{
		{Part: &extractorv1.ExtractRequest_Head{Head: &extractorv1.PageHead{
			Lease: l, Request: []byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), ResponseHead: []byte(htmlHead)}}},
		{Part: &extractorv1.ExtractRequest_Chunk{Chunk: []byte(body)}},
		{Part: &extractorv1.ExtractRequest_End{End: &extractorv1.PageEnd{Result: result}}},
	} {
		req.Id = id
		if err := p.stream.Send(req); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p pages) answer() (uint64, crawlv1.Verdict) {
	p.t.Helper()
	for {
		res, err := p.stream.Recv()
		if err != nil {
			p.t.Fatal(err)
		}
		if a := res.GetAnswer(); a != nil {
			return res.GetId(), a.GetVerdict()
		}
	}
}

// An extractor that is stopped lets the pages in work come to their answers,
// tells the scheduler that it takes no more, and sends back what comes then.
func TestStopLetsPagesComeHome(t *testing.T) {
	r := start(t, &jobv1.Spec{Storage: &jobv1.Storage{Stores: []string{"files"}}})
	arrived, let := r.held()
	p := r.pages(t)
	p.send(1, lease("http://a.test/1"), "one")
	<-arrived
	r.stop()
	<-r.draining
	p.send(2, lease("http://a.test/2"), "two")
	if id, v := p.answer(); id != 2 || v != crawlv1.Verdict_VERDICT_RETRY_LATER {
		t.Errorf("page %d: %v; want page 2 sent back", id, v)
	}
	close(let)
	if id, v := p.answer(); id != 1 || v != crawlv1.Verdict_VERDICT_DONE {
		t.Errorf("page %d: %v; want page 1 done", id, v)
	}
}

// A page that no dnser takes does not keep an extractor from stopping: it is
// given back at once, and comes again.
func TestStopDoesNotWaitForADnser(t *testing.T) {
	for _, none := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, &jobv1.Spec{Storage: &jobv1.Storage{None: true}})
			r.answer = func(*dnserv1.ResolveRequest) *crawlv1.Answer {
				return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER}
			}
			if none {
				r.mu.Lock()
				r.topology = &schedulerv1.Topology{Jobs: r.topology.GetJobs()}
				close(r.changed)
				r.changed = make(chan struct{})
				r.mu.Unlock()
				synctest.Wait()
			}
			p := r.pages(t)
			p.send(1, lease("http://a.test/x"), "hello")
			synctest.Wait()
			stopped := time.Now()
			r.stop()
			if _, v := p.answer(); v != crawlv1.Verdict_VERDICT_RETRY_LATER || time.Since(stopped) != 0 {
				t.Errorf("no dnser %v: %v after %s", none, v, time.Since(stopped))
			}
		})
	}
}

// A page that comes again under its lease while its first try is in work is not
// stored a second time: it has the first one's answer, or what that has kept.
func TestPageThatComesAgainTooSoonIsStoredOnce(t *testing.T) {
	for _, first := range []crawlv1.Verdict{crawlv1.Verdict_VERDICT_DONE, crawlv1.Verdict_VERDICT_RETRY_LATER} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, &jobv1.Spec{Storage: &jobv1.Storage{Stores: []string{"warc"}}})
			arrived, let := r.held()
			verdict := first
			r.answer = func(*dnserv1.ResolveRequest) *crawlv1.Answer {
				defer func() { verdict = crawlv1.Verdict_VERDICT_DONE }()
				// Without storage a page is given back at once.
				return &crawlv1.Answer{Verdict: verdict, StorageUnavailable: verdict == crawlv1.Verdict_VERDICT_RETRY_LATER}
			}
			l := lease("http://a.test/x")
			p := r.pages(t)
			p.send(1, l, "hello")
			<-arrived
			p.send(2, l, "hello")
			synctest.Wait()
			close(let)
			got := map[uint64]crawlv1.Verdict{}
			for range 2 {
				id, v := p.answer()
				got[id] = v
			}
			if got[1] != first || got[2] != crawlv1.Verdict_VERDICT_DONE {
				t.Errorf("answers %v", got)
			}
			places := map[string]bool{}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, req := range r.got {
				rec := req.GetOutcome().GetStored()[0]
				places[fmt.Sprint(rec.GetFile(), rec.GetOffset())] = true
			}
			if len(places) != 1 {
				t.Errorf("stored at %v", places)
			}
		})
	}
}
