package csrapprover

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

const (
	// nodeUserPrefix and nodesGroup make up the identity of a kubelet.
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
	// credentialIDKey is under what extra the API server notes the token that a request was made with.
	credentialIDKey = "authentication.kubernetes.io/credential-id"
	tokenIDPrefix   = "JTI="
)

// Facts are what a decision rests on, beside the request itself.
type Facts struct {
	// BootstrapUser is the user name of the ServiceAccount of bootstrap tokens.
	BootstrapUser string
	// MachineLive: a Machine of the node's name exists and is not being deleted.
	MachineLive bool
	// MachineUndecodable: nothing is known of that Machine but its metadata.
	MachineUndecodable bool
	// NodeConflict says why a Node of that name is not the Machine's; empty if there is none or if it is its own.
	NodeConflict string
	// TokenIDs are the bootstrap tokens that were minted for that Machine.
	TokenIDs []string
	// Addresses are those on which that Machine's hollow node serves. What its Node says of them does not count: a node writes that itself.
	Addresses []netip.Addr
}

// Decision is a decision. Its names are the values of a metric's label.
type Decision string

// The verdicts. Only the first three approve.
const (
	ApproveJoin    Decision = "Join"
	ApproveRenewal Decision = "Renewal"
	// ApproveServing: a node asks for the certificate with which it serves the kubelet's API.
	ApproveServing Decision = "Serving"
	// OtherRequestor: neither the bootstrap ServiceAccount nor the node itself asks.
	OtherRequestor Decision = "OtherRequestor"
	// NoMachine: no live Machine has the node's name.
	NoMachine Decision = "NoMachine"
	// NodeConflict: a Node of the name exists that the Machine did not make.
	NodeConflict Decision = "NodeConflict"
	// MachineUndecodable: a hollow-node wants to join for a Machine that cannot be decoded. Nothing is made for such a
	// Machine. A Node that is there may renew its certificate: metadata alone prove that it is the Machine's.
	MachineUndecodable Decision = "MachineUndecodable"
	// OtherToken: the token was not minted for this Machine.
	OtherToken Decision = "OtherToken"
	// OtherAddress: a serving certificate is asked for a name or an address that is not the Machine's hollow node's.
	OtherAddress Decision = "OtherAddress"
	// WrongRequest: the certificate that is asked for is not exactly that of the node.
	WrongRequest Decision = "WrongRequest"
)

// Verdicts lists every verdict.
var Verdicts = []Decision{ApproveJoin, ApproveRenewal, ApproveServing, OtherRequestor, NoMachine, NodeConflict, MachineUndecodable, OtherToken, OtherAddress, WrongRequest}

// Approves reports whether v grants the request.
func (v Decision) Approves() bool {
	return v == ApproveJoin || v == ApproveRenewal || v == ApproveServing
}

// Decide decides on a request. It is pure.
func Decide(csr *certificatesv1.CertificateSigningRequest, facts Facts) (Decision, string) {
	asked, err := readRequest(csr)
	if err != nil {
		return WrongRequest, err.Error()
	}
	if err := asked.checkUsages(csr.Spec.Usages); err != nil {
		return WrongRequest, err.Error()
	}
	name := asked.node
	joins := csr.Spec.Username == facts.BootstrapUser && !asked.serving
	byNode := csr.Spec.Username == nodeUserPrefix+name && slices.Contains(csr.Spec.Groups, nodesGroup)
	switch {
	case !joins && !byNode:
		return OtherRequestor, fmt.Sprintf("requested by %q", csr.Spec.Username)
	case !facts.MachineLive:
		return NoMachine, fmt.Sprintf("no live machine %q", name)
	case facts.NodeConflict != "":
		return NodeConflict, facts.NodeConflict
	case asked.serving:
		return asked.decideServing(facts.Addresses)
	case byNode:
		return ApproveRenewal, "the node renews its own certificate"
	case facts.MachineUndecodable:
		return MachineUndecodable, fmt.Sprintf("machine %q cannot be decoded: repair it with kubectl edit", name)
	}
	return decideToken(csr.Spec.Extra[credentialIDKey], name, facts.TokenIDs)
}

// decideToken decides on a join by the credentials that the API server has noted.
func decideToken(credentials []string, machine string, minted []string) (Decision, string) {
	if len(credentials) != 1 {
		return OtherToken, fmt.Sprintf("the request names %d credentials", len(credentials))
	}
	id, isToken := strings.CutPrefix(credentials[0], tokenIDPrefix)
	if !isToken || id == "" || !slices.Contains(minted, id) {
		return OtherToken, fmt.Sprintf("credential %q was not issued for machine %q", credentials[0], machine)
	}
	return ApproveJoin, "requested with the bootstrap token of this machine"
}

// asked is the certificate that a request is for.
type asked struct {
	// node is whose identity it is.
	node string
	// serving is whether it is a serving certificate, for these names and addresses.
	serving   bool
	names     []string
	addresses []net.IP
}

// decideServing decides on a serving certificate by the addresses of the node.
func (a asked) decideServing(known []netip.Addr) (Decision, string) {
	for _, name := range a.names {
		if name != a.node {
			return OtherAddress, fmt.Sprintf("DNS name %q is not that of node %q", name, a.node)
		}
	}
	for _, address := range a.addresses {
		parsed, ok := netip.AddrFromSlice(address)
		if !ok || !slices.Contains(known, parsed.Unmap()) {
			return OtherAddress, fmt.Sprintf("IP address %s is not one of the hollow node of machine %q, which has %v", address, a.node, known)
		}
	}
	return ApproveServing, "the node asks for the serving certificate of its own name and addresses"
}

// nodeOf returns the name of the node whose certificate is asked for.
func nodeOf(csr *certificatesv1.CertificateSigningRequest) (string, error) {
	asked, err := readRequest(csr)
	return asked.node, err
}

// IsKubelets reports whether a request is to a signer for kubelets. All others are for other approvers.
func IsKubelets(csr *certificatesv1.CertificateSigningRequest) bool {
	return csr.Spec.SignerName == certificatesv1.KubeletServingSignerName || csr.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName
}

// readRequest returns what is asked for, exactly and with nothing beside it.
func readRequest(csr *certificatesv1.CertificateSigningRequest) (asked, error) {
	serving := csr.Spec.SignerName == certificatesv1.KubeletServingSignerName
	if !IsKubelets(csr) {
		return asked{}, fmt.Errorf("signer %q is not a signer for kubelets", csr.Spec.SignerName)
	}
	request, err := certrequest.Parse(csr.Spec.Request)
	if err != nil {
		return asked{}, err
	}
	name, ok := strings.CutPrefix(request.Subject.CommonName, nodeUserPrefix)
	if !ok || name == "" {
		return asked{}, fmt.Errorf("common name %q is not a node's", request.Subject.CommonName)
	}
	if !slices.Equal(request.Subject.Organization, []string{nodesGroup}) {
		return asked{}, fmt.Errorf("organization is %q, want only %q", request.Subject.Organization, nodesGroup)
	}
	if attributes := len(request.Subject.Names); attributes != 2 {
		return asked{}, fmt.Errorf("the subject has %d attributes, want common name and organization only", attributes)
	}
	made := asked{node: name, serving: serving, names: request.DNSNames, addresses: request.IPAddresses}
	others := len(request.EmailAddresses) + len(request.URIs)
	if serving && (len(request.IPAddresses) == 0 || others > 0) {
		return asked{}, errors.New("a serving certificate has one IP address or more, DNS names, and nothing else")
	}
	if !serving && len(request.DNSNames)+len(request.IPAddresses)+others > 0 {
		return asked{}, errors.New("a client certificate has no subject alternative names")
	}
	return made, nil
}

// checkUsages wants those of the kind of certificate, and no other one.
func (a asked) checkUsages(usages []certificatesv1.KeyUsage) error {
	if !a.serving {
		return certrequest.CheckUsages(usages)
	}
	for _, required := range servingUsages[:2] {
		if !slices.Contains(usages, required) {
			return fmt.Errorf("usage %q is missing", required)
		}
	}
	for _, usage := range usages {
		if !slices.Contains(servingUsages, usage) {
			return fmt.Errorf("usage %q is not one of a serving certificate", usage)
		}
	}
	return nil
}

// servingUsages are those that a serving certificate may have; it must have the first two.
var servingUsages = []certificatesv1.KeyUsage{
	certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth, certificatesv1.UsageKeyEncipherment,
}
