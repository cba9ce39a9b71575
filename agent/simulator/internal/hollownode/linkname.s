// This file lets private.go declare functions of Kubernetes without a body.
