package main

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// naive is a frontier as one writes it first: a table of URLs, asked for each
// link.
type naive interface {
	// add makes the URL known if it is not.
	add(url string) error
	// seen asks for a URL.
	seen(url string) (bool, error)
	// sync makes durable what was added, where the store can.
	sync() error
	close() error
}

// url is the n-th URL, as the frontier's own bench makes it.
func url(n, hosts uint64) string {
	h := mix(n)
	host := uint64(math.Pow(float64(hosts), float64(h>>11)/(1<<53))) - 1
	return fmt.Sprintf("https://www.host-%d.test/section-%d/article-%d.html", host, h%40, n)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// syncEvery is the number of URLs after which a naive frontier is synced, about
// those of 100 pages.
const syncEvery = 4000

func measureNaive(kind string, n uint64, limit time.Duration) (result, error) {
	res := result{Store: kind, URLs: n, Hosts: min(1_000_000, max(10, n/10))}
	dir, err := os.MkdirTemp("", "naive-*")
	if err != nil {
		return res, err
	}
	defer os.RemoveAll(dir)
	var s naive
	switch kind {
	case "map":
		s = goMap{}
	case "pebble":
		s, err = newPebbleTable(dir)
	case "sqlite":
		s, err = newSQLiteTable(filepath.Join(dir, "urls.db"))
	default:
		err = fmt.Errorf("no naive frontier %q", kind)
	}
	if err != nil {
		return res, err
	}
	start := time.Now()
	added := uint64(0)
	for ; added < n; added++ {
		if err := s.add(url(added, res.Hosts)); err != nil {
			return res, err
		}
		if added%syncEvery == syncEvery-1 {
			if err := s.sync(); err != nil {
				return res, err
			}
			if time.Since(start) > limit {
				res.Note = fmt.Sprintf("filling was ended after %s at %d URLs; it slows down as it grows", limit, added)
				break
			}
		}
	}
	if err := s.sync(); err != nil {
		return res, err
	}
	res.NewPerSecond = float64(added) / time.Since(start).Seconds()
	start = time.Now()
	asked := uint64(0)
	for ; asked < 1_000_000 && (asked%1000 != 0 || time.Since(start) < limit/4); asked++ {
		ok, err := s.seen(url(mix(asked)%added, res.Hosts))
		if err != nil {
			return res, err
		}
		if !ok {
			return res, errors.New("a URL that was added is not known")
		}
	}
	res.SeenPerSecond = float64(asked) / time.Since(start).Seconds()
	res.PeakRSSBytes = peakRSS()
	if err := s.close(); err != nil {
		return res, err
	}
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			res.DiskBytes += info.Size()
		}
		return err
	})
	res.SeenBytes = float64(res.DiskBytes) / float64(added)
	return res, err
}

func peakRSS() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if rest, ok := strings.CutPrefix(sc.Text(), "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

// goMap forgets all when the process ends.
type goMap map[string]struct{}

func (m goMap) add(u string) error { m[u] = struct{}{}; return nil }
func (m goMap) seen(u string) (bool, error) {
	_, ok := m[u]
	return ok, nil
}
func (m goMap) sync() error  { return nil }
func (m goMap) close() error { return nil }

// pebbleTable asks Pebble for each link, and adds those that are new.
type pebbleTable struct {
	db    *pebble.DB
	cache *pebble.Cache
}

func newPebbleTable(dir string) (*pebbleTable, error) {
	t := &pebbleTable{cache: pebble.NewCache(64 << 20)}
	o := &pebble.Options{Cache: t.cache, MemTableSize: 32 << 20, Logger: quiet{}}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	var err error
	t.db, err = pebble.Open(dir, o)
	return t, err
}

func (t *pebbleTable) add(u string) error {
	if ok, err := t.seen(u); ok || err != nil {
		return err
	}
	return t.db.Set([]byte(u), nil, pebble.NoSync)
}

func (t *pebbleTable) seen(u string) (bool, error) {
	_, c, err := t.db.Get([]byte(u))
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, c.Close()
}

func (t *pebbleTable) sync() error { return t.db.LogData(nil, pebble.Sync) }

func (t *pebbleTable) close() error {
	defer t.cache.Unref()
	return errors.Join(t.db.Flush(), t.db.Close())
}

// quiet drops Pebble's messages.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// sqliteTable is a table with the URL as its key, in transactions.
type sqliteTable struct {
	db   *sql.DB
	tx   *sql.Tx
	ins  *sql.Stmt
	find *sql.Stmt
}

func newSQLiteTable(path string) (*sqliteTable, error) {
	db, err := sql.Open("sqlite", path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=cache_size(-65536)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE urls (url TEXT PRIMARY KEY) WITHOUT ROWID"); err != nil {
		return nil, err
	}
	t := &sqliteTable{db: db}
	return t, t.begin()
}

func (t *sqliteTable) begin() (err error) {
	if t.tx, err = t.db.Begin(); err != nil {
		return err
	}
	if t.ins, err = t.tx.Prepare("INSERT OR IGNORE INTO urls VALUES (?)"); err != nil {
		return err
	}
	t.find, err = t.tx.Prepare("SELECT 1 FROM urls WHERE url = ?")
	return err
}

func (t *sqliteTable) add(u string) error {
	_, err := t.ins.Exec(u)
	return err
}

func (t *sqliteTable) seen(u string) (bool, error) {
	var one int
	err := t.find.QueryRow(u).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return one == 1, err
}

func (t *sqliteTable) sync() error {
	if err := t.tx.Commit(); err != nil {
		return err
	}
	return t.begin()
}

func (t *sqliteTable) close() error { return errors.Join(t.tx.Rollback(), t.db.Close()) }
