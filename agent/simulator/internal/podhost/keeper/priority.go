package keeper

import (
	"os"
	"strconv"
	"syscall"
)

// niceness is how much nicer the processes of containers are than the podhost. A quarter of the processor time is theirs
// when others want all of it.
const niceness = 5

// giveWay makes all processes that the calling thread forks from now on give way to others of the machine: when many
// pods start at once, the API servers that they ask have to answer all the same. It helps and is not needed, so a
// machine that does not allow it is left as it is.
func giveWay() {
	// The kernel's own call returns 20 less the niceness.
	if inverse, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 20-inverse+niceness)
	}
	// A Linux that shares processor time by sessions first looks at the niceness of the keeper's session when it
	// shares with others.
	_ = os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(niceness)), 0)
}
