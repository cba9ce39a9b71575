package keeper

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// order is a process to be started.
type order struct {
	command Command
	files   []*os.File
	result  chan<- result
}

type result struct {
	member *member
	err    error
}

// service is a keeper at work.
type service struct {
	family *family
	orders chan order
	// ended is closed when the podhost has gone.
	ended chan struct{}
}

// keep does the work of a keeper. It runs on the process's main thread, which
// forks all processes, because a child gets its parent death signal when the
// thread that forked it ends.
func keep() error {
	syscall.CloseOnExec(ControlFD)
	control, err := unixConn(os.NewFile(ControlFD, "control"))
	if err != nil {
		return err
	}
	family, err := newFamily()
	if err != nil {
		return err
	}
	giveWay()
	s := &service{family: family, orders: make(chan order), ended: make(chan struct{})}
	go s.accept(control)
	for {
		select {
		case o := <-s.orders:
			m, err := family.start(o.command, o.files)
			o.result <- result{m, err}
		case <-s.ended:
			return family.kill()
		}
	}
}

// errIncomplete is returned by receive for a message that lacks files.
var errIncomplete = errors.New("a message without all its file descriptors")

// accept receives processes until the podhost closes the connection.
func (s *service) accept(control *net.UnixConn) {
	defer close(s.ended)
	for {
		files, err := receive(control)
		switch {
		case err == nil:
			go s.serve(files)
		case errors.Is(err, errIncomplete):
			// That process is not started. The podhost notices, because the
			// process's own connection is closed.
		default:
			return
		}
	}
}

// serve starts a process and stays with it until it has ended.
func (s *service) serve(files []*os.File) {
	connection, err := unixConn(files[0])
	if err != nil {
		closeAll(files[1:])
		return
	}
	defer connection.Close()
	decoder, encoder := gob.NewDecoder(connection), gob.NewEncoder(connection)
	var command Command
	if err := decoder.Decode(&command); err != nil {
		closeAll(files[1:])
		return
	}
	results := make(chan result, 1)
	select {
	case s.orders <- order{command, files[1:], results}:
	case <-s.ended:
		return
	}
	started := <-results
	closeAll(files[1:])
	if started.err != nil {
		_ = encoder.Encode(Event{Failure: started.err.Error()})
		return
	}
	// A podhost that has gone is told nothing.
	_ = encoder.Encode(Event{PID: started.member.pid})
	go func() {
		var signal int
		for decoder.Decode(&signal) == nil {
			s.family.signal(started.member, syscall.Signal(signal))
		}
	}()
	_ = encoder.Encode(Event{PID: started.member.pid, Status: uint32(<-started.member.status)})
}

// receive returns the file descriptors of one message. The kernel leaves out
// those for which this process may open no more files.
func receive(control *net.UnixConn) ([]*os.File, error) {
	text, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(filesPerProcess*4))
	_, n, _, _, err := control.ReadMsgUnix(text, rights)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	messages, err := syscall.ParseSocketControlMessage(rights[:n])
	for i := 0; err == nil && i < len(messages); i++ {
		var descriptors []int
		descriptors, err = syscall.ParseUnixRights(&messages[i])
		for _, descriptor := range descriptors {
			files = append(files, os.NewFile(uintptr(descriptor), "received"))
		}
	}
	if err != nil || len(files) != filesPerProcess {
		closeAll(files)
		return nil, errIncomplete
	}
	return files, nil
}

// unixConn turns a file into the connection that it is.
func unixConn(file *os.File) (*net.UnixConn, error) {
	defer file.Close()
	connection, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("using the connection with the podhost: %w", err)
	}
	unix, ok := connection.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("the connection with the podhost is no unix socket"), connection.Close())
	}
	return unix, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}
