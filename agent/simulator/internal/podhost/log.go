package podhost

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/virtual-kubelet/virtual-kubelet/log"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// controllerLog is virtual-kubelet's logger. Its information and warnings
// describe its own work step by step, so they need a higher verbosity.
type controllerLog struct {
	logger logr.Logger
	err    error
}

const (
	infoVerbosity  = 4
	debugVerbosity = 6
)

var _ log.Logger = controllerLog{}

func (l controllerLog) Debug(args ...any)            { l.info(debugVerbosity, fmt.Sprint(args...)) }
func (l controllerLog) Debugf(f string, args ...any) { l.info(debugVerbosity, fmt.Sprintf(f, args...)) }
func (l controllerLog) Info(args ...any)             { l.info(infoVerbosity, fmt.Sprint(args...)) }
func (l controllerLog) Infof(f string, args ...any)  { l.info(infoVerbosity, fmt.Sprintf(f, args...)) }
func (l controllerLog) Warn(args ...any)             { l.info(infoVerbosity, fmt.Sprint(args...)) }
func (l controllerLog) Warnf(f string, args ...any)  { l.info(infoVerbosity, fmt.Sprintf(f, args...)) }
func (l controllerLog) Error(args ...any)            { l.error(fmt.Sprint(args...)) }
func (l controllerLog) Errorf(f string, args ...any) { l.error(fmt.Sprintf(f, args...)) }

// Fatal and Fatalf do not end the process: a controller that cannot continue
// returns an error as well.
func (l controllerLog) Fatal(args ...any)            { l.Error(args...) }
func (l controllerLog) Fatalf(f string, args ...any) { l.Errorf(f, args...) }

// error leaves out what is not a failure: the end of the podhost, a write that is
// repeated on a newer version of its object, and remarks without an error.
func (l controllerLog) error(message string) {
	if l.err == nil || errors.Is(l.err, context.Canceled) || apierrors.IsConflict(l.err) {
		l.info(debugVerbosity, message)
		return
	}
	l.logger.Error(l.err, message)
}

func (l controllerLog) info(verbosity int, message string) {
	if l.err != nil {
		l.logger.V(verbosity).Info(message, "err", l.err)
		return
	}
	l.logger.V(verbosity).Info(message)
}

func (l controllerLog) WithField(key string, value any) log.Logger {
	return l.WithFields(log.Fields{key: value})
}

func (l controllerLog) WithFields(fields log.Fields) log.Logger {
	for key, value := range fields {
		l.logger = l.logger.WithValues(key, value) //nolint:loggercheck // the keys are virtual-kubelet's
	}
	return l
}

func (l controllerLog) WithError(err error) log.Logger {
	l.err = err
	return l
}
