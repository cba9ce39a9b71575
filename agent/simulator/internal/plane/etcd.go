package plane

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/etcdmember"
)

// closePatience is how long a member may take to close. One that could not write never does.
const closePatience = 5 * time.Second

func runEtcd(ctx context.Context, run *Run) error {
	// Only once: later the files may be those of the next run.
	release := sync.OnceFunc(func() {
		if err := etcdmember.ReleaseFiles(run.component.Args); err != nil {
			fmt.Fprintf(run.component.Log, "%v\n", err)
		}
	})
	run.onAbandon(release)
	// A member that fails while it starts ends this goroutine.
	defer release()
	member, err := etcdmember.Start(run.component.Args, run.component.Log, run.exitRun) //nolint:contextcheck // It ends by Close.
	if err != nil {
		return err
	}
	defer closeMember(run, member)
	offered, withdraw := context.WithCancel(ctx)
	defer withdraw()
	run.onSever(withdraw)
	go members.offerMember(offered, member)
	run.setHealth(func(context.Context) error {
		if !member.IsReady() {
			return errStarting
		}
		return nil
	})
	return member.Wait(ctx)
}

func closeMember(run *Run, member *etcdmember.Member) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		member.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closePatience):
		fmt.Fprintf(run.component.Log, "the member did not close within %s, and is abandoned\n", closePatience)
	}
}
