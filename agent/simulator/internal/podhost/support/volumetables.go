package support

import corev1 "k8s.io/api/core/v1"

var volumeMount = map[string]rule{
	"Name": accepted,
	// checkMount refuses it for an emptyDir. A container with the podhost's own user can take
	// itself the right to write: a refusal would keep hollow nodes from a podhost without root.
	"ReadOnly":          without("all other volumes are read-only, as far as their modes can make them"),
	"RecursiveReadOnly": only("cannot be honoured: "+noMounts, corev1.RecursiveReadOnlyDisabled),
	"MountPath":         accepted, // checkMount
	"SubPath":           accepted,
	"MountPropagation":  only("cannot be honoured: "+noMounts, corev1.MountPropagationNone),
	"SubPathExpr":       refused("use subPath"),
	"BindMountOptions":  refused(noMounts),
}

var volume = map[string]rule{
	"Name":         accepted,
	"VolumeSource": inside,
}

var volumeSource = map[string]rule{
	"EmptyDir":              inside,
	"Secret":                inside,
	"ConfigMap":             inside,
	"DownwardAPI":           inside,
	"Projected":             inside,
	"HostPath":              refused("the machine's files are not given to pods"),
	"GCEPersistentDisk":     refused(noSuchVolume),
	"AWSElasticBlockStore":  refused(noSuchVolume),
	"GitRepo":               refused(noSuchVolume),
	"NFS":                   refused(noSuchVolume),
	"ISCSI":                 refused(noSuchVolume),
	"Glusterfs":             refused(noSuchVolume),
	"PersistentVolumeClaim": refused(noSuchVolume),
	"RBD":                   refused(noSuchVolume),
	"FlexVolume":            refused(noSuchVolume),
	"Cinder":                refused(noSuchVolume),
	"CephFS":                refused(noSuchVolume),
	"Flocker":               refused(noSuchVolume),
	"FC":                    refused(noSuchVolume),
	"AzureFile":             refused(noSuchVolume),
	"VsphereVolume":         refused(noSuchVolume),
	"Quobyte":               refused(noSuchVolume),
	"AzureDisk":             refused(noSuchVolume),
	"PhotonPersistentDisk":  refused(noSuchVolume),
	"PortworxVolume":        refused(noSuchVolume),
	"ScaleIO":               refused(noSuchVolume),
	"StorageOS":             refused(noSuchVolume),
	"CSI":                   refused(noSuchVolume),
	"Ephemeral":             refused(noSuchVolume),
	"Image":                 refused(noSuchVolume),
}

var emptyDir = map[string]rule{
	"Medium":    refused("the directory lies on the machine's disk"),
	"SizeLimit": refused("the size is not limited"),
	"Mode":      refused(noFileUsers),
}

var secretVolume = map[string]rule{
	"SecretName":  accepted,
	"Items":       inside,
	"DefaultMode": accepted,
	"Optional":    accepted,
	"DefaultUser": refused(noFileUsers),
}

var configMapVolume = map[string]rule{
	"LocalObjectReference": accepted,
	"Items":                inside,
	"DefaultMode":          accepted,
	"Optional":             accepted,
	"DefaultUser":          refused(noFileUsers),
}

var downwardAPIVolume = map[string]rule{
	"Items":       inside,
	"DefaultMode": accepted,
	"DefaultUser": refused(noFileUsers),
}

var downwardAPIFile = map[string]rule{
	"Path":             accepted,
	"FieldRef":         accepted,
	"ResourceFieldRef": accepted,
	"Mode":             accepted,
	"User":             refused(noFileUsers),
}

var keyToPath = map[string]rule{
	"Key":  accepted,
	"Path": accepted,
	"Mode": accepted,
	"User": refused(noFileUsers),
}

var projectedVolume = map[string]rule{
	"Sources":     inside,
	"DefaultMode": accepted,
	"DefaultUser": refused(noFileUsers),
}

var projection = map[string]rule{
	"Secret":              inside,
	"DownwardAPI":         inside,
	"ConfigMap":           inside,
	"ServiceAccountToken": inside,
	"ClusterTrustBundle":  refused("trust bundles are not read"),
	"PodCertificate":      refused("pod certificates are not requested"),
}

// objectProjection serves Secrets and ConfigMaps.
var objectProjection = map[string]rule{
	"LocalObjectReference": accepted,
	"Items":                inside,
	"Optional":             accepted,
}

var tokenProjection = map[string]rule{
	"Audience":          accepted,
	"ExpirationSeconds": accepted,
	"Path":              accepted,
	"User":              refused(noFileUsers),
}
