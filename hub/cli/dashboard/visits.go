package dashboard

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// idleVisit is after how long a visit ends that nobody looks at, idleLogin after how long a token is forgotten, and longestLogin in any case.
	idleVisit, idleLogin, longestLogin = 10 * time.Minute, time.Hour, 12 * time.Hour
	// mostLogins bounds the tokens that are remembered.
	mostLogins = 1000
)

// tokenHash stands for a token.
type tokenHash [sha256.Size]byte

func hashOf(token string) tokenHash { return sha256.Sum256([]byte(token)) }

// visitKey is a user and what they look at.
type visitKey struct {
	token     tokenHash
	namespace string
}

// visit is what is shown to a user, and followed with their rights.
type visit struct {
	*server
	key visitKey
	// stop ends it, and ended is closed then.
	stop  func()
	ended chan struct{}
	// open counts the requests that are being answered, and used is when the last one was.
	open int
	used time.Time
}

// login is a token that a cookie stands for.
type login struct {
	token, user string
	since, used time.Time
}

// visits are who has signed in, and what they look at.
type visits struct {
	most  int
	clock clock.PassiveClock
	// launch runs something until the program ends, or stop is called.
	launch func(func(context.Context)) (stop func())

	mu     sync.Mutex
	logins map[tokenHash]*login // By the hash of the cookie.
	all    map[visitKey]*visit
}

func newVisits(most int, clock clock.PassiveClock, launch func(func(context.Context)) func()) *visits {
	return &visits{most: most, clock: clock, launch: launch, logins: map[tokenHash]*login{}, all: map[visitKey]*visit{}}
}

// errFull is that nobody else can look.
var errFull = errors.New("too many users")

// visit returns the one of a user, which make makes if there is none. The caller calls leave afterwards.
func (v *visits) visit(ctx context.Context, key visitKey, makeViewer func(context.Context, visitKey) (*server, error)) (*visit, error) {
	if found := v.enter(key); found != nil {
		return found, nil
	}
	made, err := makeViewer(ctx, key) // It asks the API server: others are served meanwhile.
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if found := v.enterLocked(key); found != nil {
		return found, nil
	}
	if len(v.all) >= v.most && !v.endIdlest() {
		return nil, errFull
	}
	started := &visit{server: made, key: key, ended: make(chan struct{}), open: 1, used: v.clock.Now()}
	v.all[key] = started
	started.stop = v.launch(made.store.run)
	return started, nil
}

func (v *visits) enter(key visitKey) *visit {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.enterLocked(key)
}

// enterLocked counts a request on a visit; nil if there is none.
func (v *visits) enterLocked(key visitKey) *visit {
	found := v.all[key]
	if found != nil {
		found.open, found.used = found.open+1, v.clock.Now()
	}
	return found
}

// leave counts a request that was answered.
func (v *visits) leave(one *visit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	one.open, one.used = one.open-1, v.clock.Now()
}

// endIdlest ends the visit that nobody has looked at for the longest time. It reports false if all are looked at.
func (v *visits) endIdlest() bool {
	var idlest *visit
	for _, one := range v.all {
		if one.open == 0 && (idlest == nil || one.used.Before(idlest.used)) {
			idlest = one
		}
	}
	if idlest == nil {
		return false
	}
	v.end(idlest)
	return true
}

// end ends a visit. The caller has the lock.
func (v *visits) end(one *visit) {
	delete(v.all, one.key)
	one.stop()
	close(one.ended)
}

// sweep ends what nobody uses.
func (v *visits) sweep() {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.clock.Now()
	for _, one := range v.all {
		if one.open == 0 && now.Sub(one.used) > idleVisit {
			v.end(one)
		}
	}
	for id, one := range v.logins {
		if now.Sub(one.used) > idleLogin || now.Sub(one.since) > longestLogin {
			delete(v.logins, id)
		}
	}
}

// remember lets a cookie stand for a token. If there are too many, the one that was used least recently is forgotten.
func (v *visits) remember(cookie, token, user string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.clock.Now()
	var oldest tokenHash
	for id, one := range v.logins {
		if kept := v.logins[oldest]; kept == nil || one.used.Before(kept.used) {
			oldest = id
		}
	}
	if len(v.logins) >= mostLogins {
		delete(v.logins, oldest)
	}
	v.logins[hashOf(cookie)] = &login{token, user, now, now}
}

// find is the token that a cookie stands for; empty if there is none.
func (v *visits) find(cookie string) (token, user string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found, now := v.logins[hashOf(cookie)], v.clock.Now()
	if found == nil || now.Sub(found.used) > idleLogin || now.Sub(found.since) > longestLogin {
		return "", ""
	}
	found.used = now
	return found.token, found.user
}

// forget ends all that is shown for a token, and forgets the token.
func (v *visits) forget(token tokenHash) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.all {
		if one.key.token == token {
			v.end(one)
		}
	}
	for id, one := range v.logins {
		if hashOf(one.token) == token {
			delete(v.logins, id)
		}
	}
}
