package execshim

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Numbers of the prctl interface that package syscall does not name.
const (
	prSetPdeathsig        = 1
	prCapbsetDrop         = 24
	prSetNoNewPrivs       = 38
	prCapAmbient          = 47
	prCapAmbientClearAll  = 4
	highestCapability     = 63
	defaultFileCreateMask = 0o022
)

// become turns this process into the program. It returns only if it fails.
// It relies on init functions running on the process's main thread: the
// privileges belong to a thread, and the thread that executes passes its own on.
func become(command Command) error {
	program, err := openProgram(command.Path)
	if err != nil {
		return err
	}
	if err := restrict(command); err != nil {
		return err
	}
	// A change of user clears the parent death signal, so it is set last.
	if err := prctl(prSetPdeathsig, uintptr(syscall.SIGKILL)); err != nil {
		return fmt.Errorf("setting the parent death signal: %w", err)
	}
	if os.Getppid() != command.Parent {
		return errors.New("the parent process has gone")
	}
	syscall.Umask(defaultFileCreateMask)
	err = syscall.Exec(command.Path, command.Argv, os.Environ())
	if errors.Is(err, syscall.EACCES) {
		// The new user may be unable to traverse the directories above the
		// program. The open descriptor leads to it without traversing them.
		viaDescriptor := syscall.Exec("/proc/self/fd/"+strconv.Itoa(program), command.Argv, os.Environ())
		if viaDescriptor != nil && !errors.Is(viaDescriptor, syscall.EACCES) {
			err = viaDescriptor
		}
	}
	return fmt.Errorf("executing %s: %w", command.Path, err)
}

// openProgram opens the program while this process still has its privileges.
// The descriptor of a script stays open in the interpreter, which reads the
// script through it; that of a binary is closed by its execution.
func openProgram(path string) (int, error) {
	descriptor, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening %s: %w", path, err)
	}
	magic := make([]byte, 2)
	n, err := syscall.Pread(descriptor, magic, 0)
	if err != nil {
		return -1, fmt.Errorf("reading %s: %w", path, err)
	}
	if string(magic[:n]) == "#!" {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(descriptor), syscall.F_SETFD, 0); errno != 0 {
			return -1, fmt.Errorf("keeping %s open: %w", path, errno)
		}
	}
	return descriptor, nil
}

// restrict gives up privileges, in the order in which they are still needed.
func restrict(command Command) error {
	noNewPrivileges := command.NoNewPrivileges
	if command.DropCapabilities {
		dropped, err := dropCapabilities()
		if err != nil {
			return fmt.Errorf("dropping capabilities: %w", err)
		}
		if staysRoot := os.Geteuid() == 0 && !(command.SwitchUser && command.UID != 0); !dropped && staysRoot {
			return errors.New("dropping capabilities: this process is root without CAP_SETPCAP")
		}
		noNewPrivileges = noNewPrivileges || !dropped
	}
	if command.SwitchUser {
		if err := switchUser(command.UID, command.GID); err != nil {
			return err
		}
	}
	if noNewPrivileges {
		if err := prctl(prSetNoNewPrivs, 1); err != nil {
			return fmt.Errorf("setting no_new_privs: %w", err)
		}
	}
	return nil
}

// dropCapabilities empties the bounding and ambient sets. It returns false if
// this process has no right to touch the bounding set.
func dropCapabilities() (bool, error) {
	if err := prctl(prCapAmbient, prCapAmbientClearAll); err != nil {
		return false, fmt.Errorf("clearing the ambient set: %w", err)
	}
	for capability := uintptr(0); capability <= highestCapability; capability++ {
		err := prctl(prCapbsetDrop, capability)
		switch {
		case errors.Is(err, syscall.EINVAL) && capability > 0:
			return true, nil // past the last capability of this kernel
		case errors.Is(err, syscall.EPERM):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("dropping capability %d: %w", capability, err)
		}
	}
	return true, nil
}

// switchUser changes the identity of the calling thread only: the others end
// when the program starts.
func switchUser(uid, gid int) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("clearing supplementary groups: %w", errno)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); errno != 0 {
		return fmt.Errorf("becoming group %d: %w", gid, errno)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
		return fmt.Errorf("becoming user %d: %w", uid, errno)
	}
	return nil
}

// prctl passes zeros for the arguments that the options in use do not have.
func prctl(option, argument uintptr) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, argument, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
