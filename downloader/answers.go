package downloader

import (
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
)

// answers are the last answers given, by lease: the scheduler may ask again for
// one that a broken stream has lost, and a lease is never worked twice.
type answers struct {
	byLease map[uint64]*downloaderv1.FetchAnswer
	ids     []uint64 // in the order given; the oldest at next once it is full
	next    int
	most    int
}

func newAnswers(most int) answers {
	return answers{byLease: map[uint64]*downloaderv1.FetchAnswer{}, most: max(1, most)}
}

// committed stands for every answer of a lease whose outcome is in the frontier.
var committed = &downloaderv1.FetchAnswer{Fetched: true, Answer: &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_DONE}}

func (a *answers) of(lease uint64) *downloaderv1.FetchAnswer { return a.byLease[lease] }

// add remembers an answer and forgets the oldest when there are too many.
func (a *answers) add(lease uint64, answer *downloaderv1.FetchAnswer) {
	if answer.GetAnswer().GetVerdict() == crawlv1.Verdict_VERDICT_DONE {
		answer = committed
	}
	if _, known := a.byLease[lease]; known {
		a.byLease[lease] = answer
		return
	}
	a.byLease[lease] = answer
	if len(a.ids) < a.most {
		a.ids = append(a.ids, lease)
		return
	}
	delete(a.byLease, a.ids[a.next])
	a.ids[a.next] = lease
	a.next = (a.next + 1) % a.most
}
