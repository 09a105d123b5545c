// Package shard says which downloader a host belongs to. The rule is exact and
// public so that anyone can check it: the first 8 bytes of md5(host key),
// big-endian, as uint64, modulo the number of living downloaders, is the index
// in their ids sorted as bytes.
package shard

import (
	"crypto/md5"
	"encoding/binary"
	"slices"
)

// Hash returns the number of a host key that is taken modulo the members.
func Hash(hostKey string) uint64 {
	sum := md5.Sum([]byte(hostKey))
	return binary.BigEndian.Uint64(sum[:8])
}

// Members are the living downloaders under one membership epoch. It is
// immutable; the zero value has nobody.
type Members struct {
	// Epoch grows with each change of the set.
	Epoch uint64
	ids   []string
}

// New returns the members with their ids sorted.
func New(epoch uint64, ids []string) Members {
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	return Members{Epoch: epoch, ids: slices.Compact(sorted)}
}

// Len returns the number of members.
func (m Members) Len() int { return len(m.ids) }

// IDs returns the ids, sorted; not to be changed.
func (m Members) IDs() []string { return m.ids }

// Of returns the index of the member to whom a host's hash belongs; 0 where
// there is none.
func (m Members) Of(hash uint64) int {
	if len(m.ids) == 0 {
		return 0
	}
	return int(hash % uint64(len(m.ids)))
}

// Index returns the index of a member, -1 if it is none.
func (m Members) Index(id string) int {
	i, ok := slices.BinarySearch(m.ids, id)
	if !ok {
		return -1
	}
	return i
}
