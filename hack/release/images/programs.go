package main

const megabyte = 1_000_000

// program is one of the programs that get an image of their own, hollowfleet/NAME.
type program struct {
	name, title, description string
	// limit is what the image may have at most, uncompressed, in bytes; 0 is no limit.
	limit int64
	// roots says that it may talk to servers whose certificate comes from a public authority. The others are always
	// given the authority to trust.
	roots bool
	// temporary says that it needs a directory for temporary files. The images of the others have nothing that their user
	// may write to.
	temporary bool
}

var programs = []program{
	{
		name: "hub", title: "Hollowfleet hub", limit: 60 * megabyte, roots: true,
		description: "The controllers of a fleet's hub: clusters, machine fleets, machine deployments and machine sets",
	},
	{
		name: "agent", title: "Hollowfleet agent", limit: 60 * megabyte, roots: true,
		description: "The agent of one workload cluster, which makes its machines real and reports them to the hub",
	},
	{
		name: "hollow-node", title: "Hollowfleet hollow node", limit: 100 * megabyte,
		description: "One simulated machine: kubelet code with a fake container runtime, which registers a real Node",
	},
	{
		name: "simcluster", title: "Hollowfleet simulated cluster", temporary: true,
		description: "A Kubernetes control plane that runs without containers",
	},
}
