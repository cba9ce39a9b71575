// This file lets devices.go declare a function of Kubernetes without a body.
