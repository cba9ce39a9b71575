package measurement

import (
	"net/http"
	"sync"
	"time"
)

// clockOffset is how far the agent's clock is ahead of the API server's: what an answer says of its time is that of the API server in
// whole seconds, and old by as long as the answer took. The least difference is the nearest.
type clockOffset struct {
	mu    sync.Mutex
	known bool
	least time.Duration
}

// addAnswer takes in the header of an answer.
func (c *clockOffset) addAnswer(header http.Header, now time.Time) {
	at, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if off := now.Sub(at); !c.known || off < c.least {
		c.known, c.least = true, off
	}
}

// timeSince is how long ago a time of the API server was, or up to a second less; zero where its clock is not known.
func (c *clockOffset) timeSince(at, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return 0
	}
	return max(now.Sub(at)-c.least, 0)
}

// longestByTime keeps the longest of many times, by when they ended.
type longestByTime struct {
	mu      sync.Mutex
	longest map[int64]time.Duration
}

// slice is how exactly it is known when one ended.
const slice = 5 * time.Second

func sliceOf(at time.Time) int64 { return at.UnixNano() / int64(slice) }

func (l *longestByTime) addTime(at time.Time, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.longest == nil {
		l.longest = map[int64]time.Duration{}
	}
	l.longest[sliceOf(at)] = max(l.longest[sliceOf(at)], took)
}

// longestAround is the longest one that ended within a slice before or after.
func (l *longestByTime) longestAround(at int64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.longest[at-1], l.longest[at], l.longest[at+1])
}

// longestUnexplained is the longest time at which none ended in another list that was at least half as long.
func (l *longestByTime) longestUnexplained(by *longestByTime) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var longest time.Duration
	for at, took := range l.longest {
		if by.longestAround(at) < took/2 {
			longest = max(longest, took)
		}
	}
	return longest
}
