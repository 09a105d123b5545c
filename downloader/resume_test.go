package downloader_test

import (
	"net"
	"testing"
	"time"

	"lycosa.dev/downloader"
	"lycosa.dev/internal/service"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
)

// A lease whose stream broke while it was fetched tells on the next stream that
// the fetch has ended, and its answer.
func TestResumeOfALeaseInWork(t *testing.T) {
	s := newSite(t, func(c net.Conn, r string) { _, _ = c.Write([]byte(page("x"))) })
	came, hold := make(chan struct{}), make(chan struct{})
	w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1", answer: func(int, *got) *crawlv1.Answer {
		close(came)
		<-hold
		return &crawlv1.Answer{Verdict: done}
	}})
	f := w.feed()
	f.send(s.lease(7, "/"))
	<-came // the page is with the extractor
	f.cancel()
	f = w.feed()
	f.resume(7)
	res, err := f.stream.Recv()
	if p := res.GetProgress(); err != nil || res.GetLeaseId() != 7 || p.GetStage() != downloaderv1.Stage_STAGE_FETCHED || p.GetFetchDuration() == nil {
		t.Fatalf("%v, %v: want to hear at once that the fetch has ended", res, err)
	}
	close(hold)
	if id, a, _ := f.answer(); id != 7 || a.GetAnswer().GetVerdict() != done || s.seen() != 1 {
		t.Errorf("%d %v after %d requests", id, a, s.seen())
	}
}

// An answer that a broken stream has lost is given again, whatever it was; the
// server is not asked again.
func TestResumeOfALostAnswer(t *testing.T) {
	for _, verdict := range []crawlv1.Verdict{done, never} {
		t.Run(verdict.String(), func(t *testing.T) {
			s := newSite(t, func(c net.Conn, r string) { _, _ = c.Write([]byte(page("x"))) })
			came, hold := make(chan struct{}), make(chan struct{})
			w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1", answer: func(int, *got) *crawlv1.Answer {
				close(came)
				<-hold
				return &crawlv1.Answer{Verdict: verdict, Reason: "r"}
			}})
			f := w.feed()
			f.send(s.lease(7, "/"))
			<-came
			f.cancel()
			close(hold)
			for deadline := time.Now().Add(10 * time.Second); len(w.d.Hello().GetHeld()) > 0; {
				if time.Now().After(deadline) {
					t.Fatal("the lease does not end")
				}
				time.Sleep(time.Millisecond)
			}
			f = w.feed()
			for range 2 { // as often as it is asked for
				f.resume(7)
				if id, a, _ := f.answer(); id != 7 || a.GetAnswer().GetVerdict() != verdict || !a.GetFetched() {
					t.Errorf("%d %v", id, a)
				}
			}
			f.send(s.lease(7, "/"))
			if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != verdict || s.seen() != 1 {
				t.Errorf("given again as a whole: %v after %d requests", a, s.seen())
			}
		})
	}
}

// A lease that never arrived is given back at once, unfetched, and is not taken
// should it come yet.
func TestResumeOfALeaseThatNeverCame(t *testing.T) {
	s := newSite(t, func(c net.Conn, r string) { _, _ = c.Write([]byte(page("x"))) })
	w := newWorld(t, func(c *downloader.Config) { c.Capacity = 1 }, service.Deps{}, &extractor{name: "e1"})
	f := w.feed()
	f.resume(9)
	if id, a, _ := f.answer(); id != 9 || a.GetAnswer().GetVerdict() != retry || a.GetFetched() {
		t.Errorf("%d %v", id, a)
	}
	f.send(s.lease(9, "/"))
	if id, a, _ := f.answer(); id != 9 || a.GetAnswer().GetVerdict() != retry || a.GetFetched() || s.seen() != 0 {
		t.Errorf("%d %v after %d requests", id, a, s.seen())
	}
	// What is remembered is bounded.
	for id := uint64(10); id < 20; id++ {
		f.resume(id)
		f.answer()
	}
	if n := w.d.Remembered(); n > 2 {
		t.Errorf("%d answers are remembered, 2 leases may be", n)
	}
}
