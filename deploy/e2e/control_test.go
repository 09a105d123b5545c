package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"lycosa.dev/internal/testweb"
)

// caller calls a service by what its reflection tells alone, JSON in and JSON
// out, as grpcurl does.
type caller struct {
	t       testing.TB
	conn    *grpc.ClientConn
	service protoreflect.ServiceDescriptor
	types   *dynamicpb.Types
}

func newCaller(t testing.TB, addr, service string) *caller {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context(), grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	set, have := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	ask := func(req *reflectionpb.ServerReflectionRequest) (missing []string) {
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
		res, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range res.GetFileDescriptorResponse().GetFileDescriptorProto() {
			file := &descriptorpb.FileDescriptorProto{}
			if err := proto.Unmarshal(raw, file); err != nil {
				t.Fatal(err)
			}
			if !have[file.GetName()] {
				have[file.GetName()] = true
				set.File = append(set.File, file)
				missing = append(missing, file.GetDependency()...)
			}
		}
		return missing
	}
	todo := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}})
	for len(todo) > 0 {
		name := todo[0]
		if todo = todo[1:]; !have[name] {
			todo = append(todo, ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: name}})...)
		}
	}
	_ = stream.CloseSend()
	if _, err := stream.Recv(); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	return &caller{t: t, conn: conn, service: find(t, files, service), types: dynamicpb.NewTypes(files)}
}

func find(t testing.TB, files *protoregistry.Files, name string) protoreflect.ServiceDescriptor {
	t.Helper()
	d, err := files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.ServiceDescriptor)
}

// call asks a unary method.
func (c *caller) call(method, question string) (string, error) {
	c.t.Helper()
	m := c.service.Methods().ByName(protoreflect.Name(method))
	if m == nil {
		c.t.Fatalf("no method %s", method)
	}
	in, out := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	if err := (protojson.UnmarshalOptions{Resolver: c.types}).Unmarshal([]byte(question), in); err != nil {
		c.t.Fatalf("%s %s: %v", method, question, err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	if err := c.conn.Invoke(ctx, "/"+string(c.service.FullName())+"/"+method, in, out); err != nil {
		return "", err
	}
	text, err := protojson.MarshalOptions{Resolver: c.types}.Marshal(out)
	if err != nil {
		c.t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		c.t.Fatal(err)
	}
	text, _ = json.Marshal(plain)
	return string(text), nil
}

// TestControlThroughTheGateway asks everything that people ask of a running job,
// of a real gateway by reflection and JSON: what is right is done, what is wrong
// is refused with a code and words that say what would be right, and a job that
// is asked all this is whole.
func TestControlThroughTheGateway(t *testing.T) {
	t.Parallel()
	web := testweb.Start(t)
	h := web.Host("a.test")
	h.Page("/", testweb.HTML("/1", "/2", "/cal/1", "/cal/2"))
	for _, p := range []string{"/1", "/2", "/cal/1", "/cal/2"} {
		h.Page(p, testweb.HTML("/"))
	}
	host := "a.test:" + web.Port()
	dir, addr := t.TempDir(), freeAddrs(t, 1)[0]
	p := startProcess(t, nil, binary(t, "lycosa"), "up", "--dir", filepath.Join(dir, "data"), "--listen", addr, "--debug", "", "--log-level", "warn")
	c := newCaller(t, addr, "lycosa.gateway.v1.AdminService")
	spec, _ := json.Marshal(`
name: j
seeds: ["` + h.URL("/") + `"]
links: {sitemaps: false}
politeness: {min_delay: 1h, max_delay: 1h, robots: ignore}
fetch: {allow_net: [127.0.0.0/8], resolve: ["*:127.0.0.1"]}
`)
	if _, err := c.call("CreateJob", `{"specYaml": `+string(spec)+`, "start": true}`); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the first page's links are queued", func() bool {
		out, err := c.call("ExplainUrl", `{"jobId": "j", "url": "`+h.URL("/cal/2")+`"}`)
		return err == nil && strings.Contains(out, "URL_STATE_QUEUED")
	})
	snapshot := filepath.Join(dir, "copy", "frontier")
	if err := os.Mkdir(filepath.Dir(snapshot), 0o755); err != nil {
		t.Fatal(err)
	}
	q := func(fields string) string { return `{"question": {` + fields + `}}` }
	jq := func(fields string) string { return q(`"jobId": "j", "hostKey": "` + host + `", ` + fields) }
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, x := range []struct {
		method, question string
		code             codes.Code
		want             string // of the answer, or of the error's words
	}{
		// Overlays.
		{"ChangeOverlays", `{}`, codes.InvalidArgument, "question"},
		{"ChangeOverlays", q(`"set": [{"name": "x", "hosts": ["a.test"]}]`), codes.InvalidArgument, "job_id"},
		{"ChangeOverlays", q(`"jobId": "nope", "set": [{"name": "x", "hosts": ["a.test"]}]`), codes.NotFound, `job "nope"`},
		{"ChangeOverlays", q(`"jobId": "j", "set": [{"name": "x"}]`), codes.InvalidArgument, "overlays[0]: applies to nothing: give hosts, domains or url_prefixes"},
		{"ChangeOverlays", q(`"jobId": "j", "set": [{"name": "x", "hosts": ["a.test"], "headers": ["Host: b"]}]`), codes.InvalidArgument, "overlays[0].headers[0]: \"Host\" is set by the downloader itself"},
		{"ChangeOverlays", q(`"jobId": "j", "remove": ["x"]`), codes.NotFound, `job "j" has no overlay "x"`},
		{"ChangeOverlays", q(`"jobId": "j", "set": [{"name": "x", "domains": ["a.test"], "minDelay": "7200s", "maxDelay": "7200s", "userAgent": "guest/1"}]`), codes.OK, `"userAgent":"guest/1"`},
		{"ShowQueue", q(`"jobId": "j", "hostKey": "` + host + `"`), codes.OK, `"overlays":["x"]`},
		{"ChangeOverlays", q(`"jobId": "j", "remove": ["x"]`), codes.OK, `"jobId":"j"`},
		// Queues by hand.
		{"UpdateQueue", `{}`, codes.InvalidArgument, "question"},
		{"UpdateQueue", jq(`"reason": "x"`), codes.InvalidArgument, "action"},
		{"UpdateQueue", jq(`"action": 77`), codes.InvalidArgument, "action"},
		{"UpdateQueue", jq(`"action": "QUEUE_ACTION_DELETE", "until": "` + soon + `"`), codes.InvalidArgument, "until: want a time, and only for blocking"},
		{"UpdateQueue", jq(`"action": "QUEUE_ACTION_BLOCK", "until": "2001-01-01T00:00:00Z"`), codes.InvalidArgument, "until: 2001-01-01T00:00:00Z is not in the future"},
		{"UpdateQueue", q(`"jobId": "j", "hostKey": "no host", "action": "QUEUE_ACTION_BLOCK"`), codes.InvalidArgument, "want a host such as example.org"},
		{"UpdateQueue", q(`"jobId": "nope", "hostKey": "a.test", "action": "QUEUE_ACTION_BLOCK"`), codes.NotFound, `job "nope"`},
		{"UpdateQueue", jq(`"action": "QUEUE_ACTION_RELEASE"`), codes.FailedPrecondition, "neither blocked nor retired by hand"},
		{"UpdateQueue", jq(`"action": "QUEUE_ACTION_BLOCK", "until": "` + soon + `", "reason": "asked to"`), codes.OK, "QUEUE_STATE_BLOCKED"},
		{"ShowQueue", q(`"jobId": "j", "hostKey": "` + host + `"`), codes.OK, "asked to"},
		{"ExplainUrl", `{"jobId": "j", "url": "` + h.URL("/1") + `"}`, codes.OK, "QUEUE_STATE_BLOCKED"},
		{"ListQueues", `{"jobId": "j", "state": "QUEUE_STATE_BLOCKED"}`, codes.OK, host},
		{"UpdateQueue", jq(`"action": "QUEUE_ACTION_RELEASE"`), codes.OK, host},
		{"ShowQueue", q(`"jobId": "j"`), codes.InvalidArgument, "host_key"},
		{"ShowQueue", q(`"jobId": "nope", "hostKey": "a.test"`), codes.NotFound, `job "nope"`},
		// Exclusions.
		{"ChangeExclusions", `{}`, codes.InvalidArgument, "question"},
		{"ChangeExclusions", q(`"jobId": "nope", "add": ["x"]`), codes.NotFound, `job "nope"`},
		{"ChangeExclusions", q(`"jobId": "j", "add": ["("]`), codes.InvalidArgument, `exclusion "(": it is no regular expression: `},
		{"ChangeExclusions", q(`"jobId": "j", "remove": ["/x/"]`), codes.NotFound, `"/x/" is not one of its exclusions; there are none`},
		{"ChangeExclusions", q(`"jobId": "j", "add": ["/cal/"], "dryRun": true`), codes.OK, `"dropped":"2"`},
		{"ExplainUrl", `{"jobId": "j", "url": "` + h.URL("/cal/1") + `"}`, codes.OK, "URL_STATE_QUEUED"},
		{"ChangeExclusions", q(`"jobId": "j", "add": ["/cal/"]`), codes.OK, `"dropped":"2"`},
		{"ExplainUrl", `{"jobId": "j", "url": "` + h.URL("/cal/1") + `"}`, codes.OK, "exclude /cal/"},
		{"ChangeExclusions", q(`"jobId": "j", "remove": ["/cal/"]`), codes.OK, `"revived":"2"`},
		// Why.
		{"ExplainUrl", `{"jobId": "j"}`, codes.InvalidArgument, "url"},
		{"ExplainUrl", `{"jobId": "j", "url": "not a url"}`, codes.InvalidArgument, "not a url"},
		{"ExplainUrl", `{"jobId": "nope", "url": "http://a.test/"}`, codes.NotFound, `job "nope"`},
		{"ExplainUrl", `{"jobId": "j", "url": "http://elsewhere.test/"}`, codes.OK, `"scopeVerdict":"out: `},
		{"ExplainJob", `{}`, codes.InvalidArgument, "question"},
		{"ExplainJob", q(`"jobId": "nope"`), codes.NotFound, `job "nope"`},
		{"ExplainJob", q(`"jobId": "j"`), codes.OK, `"reason":"it has not ended: `},
		{"AddSeeds", `{"jobId": "j", "urls": []}`, codes.InvalidArgument, "urls"},
		{"AddSeeds", `{"jobId": "j", "urls": ["ftp://a.test/", "` + h.URL("/1") + `"]}`, codes.OK, "ftp://a.test/"},
		// Snapshots and audits.
		{"Checkpoint", q(`"folder": "relative"`), codes.InvalidArgument, `folder "relative": want an absolute path`},
		{"Checkpoint", q(`"folder": "` + filepath.Join(dir, "no", "such") + `"`), codes.FailedPrecondition, "no such file"},
		{"Checkpoint", `{}`, codes.InvalidArgument, "no checkpoint_dir"},
		{"Checkpoint", q(`"folder": "` + snapshot + `"`), codes.OK, snapshot},
		{"Checkpoint", q(`"folder": "` + snapshot + `"`), codes.AlreadyExists, snapshot},
		{"Audit", `{}`, codes.OK, `"recomputed"`},
	} {
		out, err := c.call(x.method, x.question)
		st := status.Convert(err)
		if st.Code() != x.code || !strings.Contains(out+st.Message(), x.want) {
			t.Errorf("%s %s\n\t%s %s%s\n\twant %s with %q", x.method, x.question, st.Code(), st.Message(), out, x.code, x.want)
		}
		if x.method == "Audit" && strings.Contains(out, "violations") {
			t.Errorf("audit: %s", out)
		}
	}
	p.kill()
	mustLycosa(t, time.Minute, "audit", filepath.Join(dir, "data"))
}
