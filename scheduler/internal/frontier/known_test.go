package frontier

import (
	"fmt"
	"testing"
)

// The cache of queues tells no queue of another job or host for one that it was
// told of, keeps the youngest, and forgets what is dropped.
func TestQueueCache(t *testing.T) {
	var c queueCache
	name := func(i int) queueName { return queueName{uint32(i % 3), fmt.Sprintf("h%d.test", i)} }
	if c.has(name(1)) {
		t.Error("an empty cache has a queue")
	}
	const n = 100_000 // a twentieth of its places
	for i := range n {
		c.put(name(i))
		c.put(name(i))
	}
	for i := range n {
		if !c.has(name(i)) {
			t.Fatalf("queue %d is forgotten", i)
		}
		if c.has(queueName{uint32(i%3) + 1, name(i).host}) || c.has(name(n+i)) {
			t.Fatalf("a queue beside %d is there that was never put", i)
		}
	}
	c.drop(name(7))
	if c.has(name(7)) || !c.has(name(8)) {
		t.Error("dropping one forgets another, or not the one")
	}
	for i := range 40 * n {
		c.put(name(10*n + i))
	}
	if !c.has(name(10*n + 40*n - 1)) {
		t.Error("the youngest is forgotten")
	}
	c.forget()
	if c.has(name(8)) {
		t.Error("it is there after all were forgotten")
	}
}
