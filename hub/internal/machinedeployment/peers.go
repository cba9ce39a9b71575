package machinedeployment

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
)

// peers are the other deployments that share the surge of one. The zero value has no peers, and costs no read.
type peers struct {
	byUID  map[types.UID]*peer
	byName map[string]*peer
	sets   map[types.UID]*peerSet
}

// peer is one of them. Its ownerless Machines are those whose set does not exist.
type peer struct {
	name                string
	selector            labels.Selector
	replicas, ownerless int
	sets                []*peerSet
}

// peerSet is a set of a peer.
type peerSet struct {
	*v1alpha1.MachineSet
	machines int
}

// addPeers picks the deployments with the surge group of this one.
func (s *scope) addPeers(deployments []v1alpha1.MachineDeployment) {
	group := s.deployment.Spec.Strategy.SurgeGroup()
	if group == "" {
		return
	}
	s.peers = peers{byUID: map[types.UID]*peer{}, byName: map[string]*peer{}, sets: map[types.UID]*peerSet{}}
	for i := range deployments {
		other := &deployments[i]
		if other.UID == s.deployment.UID || other.Spec.Strategy.SurgeGroup() != group {
			continue
		}
		found := &peer{
			name: other.Name, replicas: replicasOf(other),
			selector: labels.SelectorFromSet(other.Spec.Selector.MatchLabels),
		}
		s.peers.byUID[other.UID], s.peers.byName[other.Name] = found, found
	}
}

// addSet notes a set that controller, nil for none, has, if that is a peer, or that a peer is about to adopt.
func (p *peers) addSet(set *v1alpha1.MachineSet, controller *metav1.OwnerReference) {
	owner := p.ownerOf(set, controller)
	if owner != nil {
		p.sets[set.UID] = &peerSet{MachineSet: set}
		owner.sets = append(owner.sets, p.sets[set.UID])
	}
}

func (p *peers) ownerOf(set *v1alpha1.MachineSet, controller *metav1.OwnerReference) *peer {
	if controller != nil {
		return p.byUID[controller.UID]
	}
	for _, name := range slices.Sorted(maps.Keys(p.byName)) {
		if own, _ := madeBy(set, name); own && isOrphanOf(set, controller, name, p.byName[name].selector) {
			return p.byName[name]
		}
	}
	return nil
}

// addMachine notes a Machine of the set of that UID, if a peer has it. One whose set does not exist takes up room all the
// same; one of an existing set that is no peer's does not.
func (p *peers) addMachine(machine *v1alpha1.Machine, set types.UID, exists bool) {
	if owner := p.sets[set]; owner != nil {
		owner.machines++
	} else if owner := p.byName[machine.Labels[v1alpha1.MachineDeploymentNameLabel]]; owner != nil && !exists {
		owner.ownerless++
	}
}

// planPeers are what the planner needs to know of them; unseen are the sets whose controller may still have to work.
func (p *peers) planPeers(unseen map[types.UID]bool) []plan.Peer {
	facts := make([]plan.Peer, 0, len(p.byUID))
	for _, peer := range p.byUID {
		fact := plan.Peer{Name: peer.name, Replicas: peer.replicas, Machines: peer.ownerless}
		for _, set := range peer.sets {
			if set.DeletionTimestamp != nil {
				fact.Machines += set.machines // It makes no more.
				continue
			}
			fact.Machines += max(setReplicas(set.MachineSet), set.machines)
			fact.Unseen = fact.Unseen || unseen[set.UID]
		}
		facts = append(facts, fact)
	}
	return facts
}
