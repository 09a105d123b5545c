package frontier

import (
	"testing"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	"lycosa.dev/scheduler/internal/frontier/store"
)

// A page that is refused for what it is fails alone and at once: its host has
// answered, and is not backed off as one that speaks no HTTP is.
func TestContentIsThePagesFailure(t *testing.T) {
	for class, backedOff := range map[crawlv1.OutcomeClass]bool{
		crawlv1.OutcomeClass_OUTCOME_CLASS_CONTENT: false, crawlv1.OutcomeClass_OUTCOME_CLASS_PROTOCOL: true,
	} {
		r := newRig(t, store.NewMemory())
		r.job("j", testSpec(), "http://a.test/1", "http://a.test/2")
		first := r.wait(time.Minute)
		r.commit(failureOf(first, class))
		began := r.clock.Now()
		next := r.wait(10 * time.Minute)
		if next == nil || backedOff != (r.clock.Now().Sub(began) > 30*time.Second) || !backedOff && next.GetUrl() == first.GetUrl() {
			t.Errorf("%v: %s is leased %s after %s has failed", class, next.GetUrl(), r.clock.Now().Sub(began), first.GetUrl())
		}
	}
}
