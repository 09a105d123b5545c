package store

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"

	"lycosa.dev/extractor/internal/page"
	"lycosa.dev/internal/warc"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// WARC keeps pages in WARC 1.1 files: a response and its request, or a revisit
// where the server said that nothing has changed.
type WARC struct{ w *warc.Writer }

// OpenWARC opens the folder for a job; files that an earlier process left open
// are repaired. version is Lycosa's.
func OpenWARC(dir, jobID string, spec *jobv1.Spec, version string, log *slog.Logger) (*WARC, error) {
	info := []warc.Field{
		{Name: "software", Value: "Lycosa/" + version},
		{Name: "format", Value: "WARC File Format 1.1"},
		{Name: "isPartOf", Value: jobID},
		{Name: "http-header-user-agent", Value: spec.GetIdentity().GetUserAgent()},
	}
	if c := spec.GetIdentity().GetContact(); c != "" {
		info = append(info, warc.Field{Name: "operator", Value: c})
	}
	policy := "obey"
	if spec.GetPoliteness().GetRobots() == jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE {
		policy = "ignore"
	}
	info = append(info, warc.Field{Name: "robots", Value: policy})
	w, recovered, err := warc.Open(warc.Config{
		Dir: dir, Job: jobID, MaxFileBytes: spec.GetStorage().GetWarcFileBytes(),
		Level: int(spec.GetStorage().GetWarcLevel()), Info: info, Log: log,
	})
	if err != nil {
		return nil, classify(err)
	}
	for _, r := range recovered {
		level := slog.LevelInfo
		if len(r.Damage) > 0 {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, "a WARC file that an earlier process left open was closed",
			"file", r.File, "records", r.Records, "torn_bytes_cut", r.Cut, "removed_empty", r.Removed, "damaged_records", len(r.Damage))
	}
	return &WARC{w}, nil
}

// Name implements Store.
func (*WARC) Name() string { return "warc" }

var records = sync.Pool{New: func() any { return new([2]warc.Record) }}

// Put implements Store.
func (s *WARC) Put(ctx context.Context, p *page.Page) (*crawlv1.StoredRecord, error) {
	if !p.HasResponse() || len(p.ResponseHead) == 0 && p.Body.Size() == 0 {
		return nil, nil
	}
	recs := records.Get().(*[2]warc.Record)
	defer func() { *recs = [2]warc.Record{}; records.Put(recs) }()
	ip, _ := netip.AddrFromSlice(p.Result.GetAddress())
	date := p.Result.GetStartedAt().AsTime()
	res := &recs[0]
	*res = warc.Record{
		Type: warc.Response, Date: date, TargetURI: p.Lease.GetUrl(), IP: ip,
		Truncated: warc.Truncation(p.Result.GetTruncated()), Head: p.ResponseHead, Fields: protocols(p.Result),
	}
	if f := p.Body.File(); f != nil {
		res.BodyAt, res.BodySize = f, p.Body.Size()
	} else {
		res.BodyParts = p.Body.Chunks()
	}
	if v := p.Lease.GetValidators(); p.Result.GetStatus() == 304 && v.GetPayloadDigest() != "" {
		if d, err := warc.ParseDigest(v.GetPayloadDigest()); err == nil {
			res.Type, res.Profile, res.PayloadDigest = warc.Revisit, warc.ProfileNotModified, d
			res.RefersToURI, res.RefersToDate = p.Lease.GetUrl(), v.GetFetchedAt().AsTime()
		}
	}
	n := 1
	if len(p.Request) > 0 {
		recs[1] = warc.Record{Type: warc.Request, Date: date, TargetURI: p.Lease.GetUrl(), IP: ip, Head: p.Request}
		n = 2
	}
	if _, err := s.w.Write(ctx, recs[:n]); err != nil {
		return nil, classify(err)
	}
	if !res.PayloadDigest.IsZero() {
		p.PayloadDigest = res.PayloadDigest.String()
	}
	return &crawlv1.StoredRecord{Store: "warc", File: res.Location.File, Offset: res.Location.Offset, Length: res.Location.Length}, nil
}

// protocols says how the exchange was made: HTTP/2 stands in the record in the
// form of HTTP/1.1, which readers accept (iipc/warc-specifications 42).
func protocols(r *crawlv1.FetchResult) []warc.Field {
	var out []warc.Field
	if p := r.GetProtocol(); p != "" {
		out = append(out, warc.Field{Name: "WARC-Protocol", Value: p})
	}
	// "TLS1.3 TLS_AES_128_GCM_SHA256", and what was wrong behind "; ".
	facts, _, _ := strings.Cut(r.GetTls(), ";")
	if version, suite, ok := strings.Cut(facts, " "); ok {
		out = append(out,
			warc.Field{Name: "WARC-Protocol", Value: "tls/" + strings.TrimPrefix(version, "TLS")},
			warc.Field{Name: "WARC-Cipher-Suite", Value: suite})
	}
	return out
}

// Close implements Store: the file being written gets its final name.
func (s *WARC) Close() error { return s.w.Close() }
