package testweb_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
)

// ask sends one request on a new connection and returns all that comes.
func ask(t *testing.T, s *testweb.OddServer, target, headers string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, "GET "+target+" HTTP/1.1\r\nHost: h.test:1\r\n"+headers+"\r\n"); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(target, "/ok/") || strings.HasPrefix(target, "/case/chain") {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	b, _ := io.ReadAll(c)
	return string(b)
}

// The server does what each verb says, and writes down what it got and sent.
func TestOddServerVerbs(t *testing.T) {
	b64 := func(s string) any { return testweb.Say(s)[1] }
	s := testweb.StartOddities(t, nil,
		testweb.Oddity{ID: "send", Actions: []testweb.Action{testweb.Say("to http://HOST/x"), testweb.Close()}},
		testweb.Oddity{ID: "repeat", Actions: []testweb.Action{testweb.Repeat("ab", 3, time.Millisecond), testweb.Close()}},
		testweb.Oddity{ID: "reset", Actions: []testweb.Action{testweb.Reset()}},
		testweb.Oddity{ID: "half", Actions: []testweb.Action{testweb.Say("x"), {"half_close"}}},
		testweb.Oddity{ID: "cookie", Actions: []testweb.Action{{"cookie_gate", b64("no"), b64("yes")}}},
		testweb.Oddity{ID: "count", Actions: []testweb.Action{{"count_gate", 1.0, b64("no"), b64("yes")}}},
		testweb.Oddity{ID: "chain", Actions: []testweb.Action{{"chain", 1.0}}},
	)
	for _, c := range []struct{ target, headers, want string }{
		{"/case/send", "", "to http://h.test:1/x"}, {"/case/repeat", "", "ababab"}, {"/case/reset", "", ""}, {"/case/half", "", "x"},
		{"/case/cookie", "", "no"}, {"/case/cookie", "Cookie: a=b\r\n", "yes"}, {"/case/count", "", "no"}, {"/case/count", "", "yes"},
		{"/case/chain", "", "HTTP/1.1 302 Found\r\nLocation: /case/chain?hop=1\r\nContent-Length: 0\r\n\r\n"},
	} {
		if got := ask(t, s, c.target, c.headers); got != c.want {
			t.Errorf("%s: %q, want %q", c.target, got, c.want)
		}
	}
	if got := ask(t, s, "/case/chain?hop=1", ""); !strings.HasSuffix(got, testweb.OddPage) {
		t.Errorf("the end of the chain: %q", got)
	}
	if got := ask(t, s, "/ok/x", ""); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("%q", got)
	}
	log := s.Log()
	if len(log) != 11 || log[0].Target != "/case/send" || string(log[0].Sent) != "to http://h.test:1/x" || log[5].Conn != 6 {
		t.Errorf("%d entries, %+v", len(log), log[0])
	}
}
