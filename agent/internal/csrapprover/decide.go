package csrapprover

import (
	"errors"
	"fmt"
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
}

// Decision is a decision. Its names are the values of a metric's label.
type Decision string

// The verdicts. Only the first two approve.
const (
	ApproveJoin    Decision = "Join"
	ApproveRenewal Decision = "Renewal"
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
	// WrongRequest: the certificate that is asked for is not exactly that of the node.
	WrongRequest Decision = "WrongRequest"
)

// Verdicts lists every verdict.
var Verdicts = []Decision{ApproveJoin, ApproveRenewal, OtherRequestor, NoMachine, NodeConflict, MachineUndecodable, OtherToken, WrongRequest}

// Approves reports whether v grants the request.
func (v Decision) Approves() bool { return v == ApproveJoin || v == ApproveRenewal }

// Decide decides on a request. It is pure.
func Decide(csr *certificatesv1.CertificateSigningRequest, facts Facts) (Decision, string) {
	name, err := nodeOf(csr)
	if err != nil {
		return WrongRequest, err.Error()
	}
	if err := certrequest.CheckUsages(csr.Spec.Usages); err != nil {
		return WrongRequest, err.Error()
	}
	joins := csr.Spec.Username == facts.BootstrapUser
	renews := csr.Spec.Username == nodeUserPrefix+name && slices.Contains(csr.Spec.Groups, nodesGroup)
	switch {
	case !joins && !renews:
		return OtherRequestor, fmt.Sprintf("requested by %q", csr.Spec.Username)
	case !facts.MachineLive:
		return NoMachine, fmt.Sprintf("no live machine %q", name)
	case facts.NodeConflict != "":
		return NodeConflict, facts.NodeConflict
	case renews:
		return ApproveRenewal, "the node renews its own certificate"
	case facts.MachineUndecodable:
		return MachineUndecodable, fmt.Sprintf("machine %q cannot be decoded: repair it with kubectl edit", name)
	}
	ids := csr.Spec.Extra[credentialIDKey]
	if len(ids) != 1 {
		return OtherToken, fmt.Sprintf("the request names %d credentials", len(ids))
	}
	id, isToken := strings.CutPrefix(ids[0], tokenIDPrefix)
	if !isToken || id == "" || !slices.Contains(facts.TokenIDs, id) {
		return OtherToken, fmt.Sprintf("credential %q was not issued for machine %q", ids[0], name)
	}
	return ApproveJoin, "requested with the bootstrap token of this machine"
}

// nodeOf returns the name of the node whose identity is asked for, exactly and with nothing beside it.
func nodeOf(csr *certificatesv1.CertificateSigningRequest) (string, error) {
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return "", fmt.Errorf("signer %q is not a signer for kubelets", csr.Spec.SignerName)
	}
	request, err := certrequest.Parse(csr.Spec.Request)
	if err != nil {
		return "", err
	}
	name, ok := strings.CutPrefix(request.Subject.CommonName, nodeUserPrefix)
	if !ok || name == "" {
		return "", fmt.Errorf("common name %q is not a node's", request.Subject.CommonName)
	}
	if !slices.Equal(request.Subject.Organization, []string{nodesGroup}) {
		return "", fmt.Errorf("organization is %q, want only %q", request.Subject.Organization, nodesGroup)
	}
	if len(request.DNSNames)+len(request.EmailAddresses)+len(request.IPAddresses)+len(request.URIs) > 0 {
		return "", errors.New("a client certificate has no subject alternative names")
	}
	if attributes := len(request.Subject.Names); attributes != 2 {
		return "", fmt.Errorf("the subject has %d attributes, want common name and organization only", attributes)
	}
	return name, nil
}
