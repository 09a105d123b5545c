package shard

import (
	"crypto/md5"
	"fmt"
	"math/big"
	"testing"
)

func TestHashIsFirstEightBytesOfMD5(t *testing.T) {
	for i := range 100 {
		key := fmt.Sprintf("host%d.example:80%02d", i, i)
		want := new(big.Int)
		want.SetString(fmt.Sprintf("%x", md5.Sum([]byte(key)))[:16], 16)
		if Hash(key) != want.Uint64() {
			t.Fatalf("%s: %x, want %x", key, Hash(key), want)
		}
	}
	// md5("") = d41d8cd98f00b204e9800998ecf8427e
	if Hash("") != 0xd41d8cd98f00b204 {
		t.Fatalf("md5 of nothing: %x", Hash(""))
	}
}

func TestMembersAreSortedAsBytes(t *testing.T) {
	m := New(7, []string{"d2", "d10", "D1", "d1", "d2"})
	if fmt.Sprint(m.IDs()) != "[D1 d1 d10 d2]" {
		t.Fatalf("ids %v", m.IDs())
	}
	if m.Index("d10") != 2 || m.Index("d3") != -1 || m.Len() != 4 {
		t.Fatal("index")
	}
	if got := m.Of(10); got != 2 {
		t.Fatalf("10 mod 4: %d", got)
	}
	if (Members{}).Of(10) != 0 {
		t.Fatal("nobody")
	}
}
