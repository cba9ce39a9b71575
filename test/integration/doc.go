// Package integration has the suites that run the real hub, real agents and real hollow nodes against real control planes.
package integration
