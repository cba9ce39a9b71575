package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// An object that the API server has and this code cannot decode, because an older CustomResourceDefinition let it in or a
// backup brought it back, must not make a list or a watch fail: all other objects are in the same answer. So every kind
// decodes itself. Where spec or status cannot be decoded, the object has its metadata and DecodeError and nothing else, and
// cannot be encoded again, so that no write puts an empty spec in the place of the one that was not understood. See
// docs/design/undecodable.md. "make generate" writes the methods of the kinds.

// maxDecodeError bounds DecodeError, because a decoder may repeat what it was given.
const maxDecodeError = 256

// decodeObject decodes data, which is JSON, into an object of a type without methods; kind, meta and problem are fields of it.
// What it cannot decode, it says in problem, beside the metadata.
func decodeObject[T any](data []byte, object *T, kind *metav1.TypeMeta, meta *metav1.ObjectMeta, problem *string) error {
	var decoded, empty T
	cause := utiljson.Unmarshal(data, &decoded)
	if *object = decoded; cause == nil {
		return nil
	}
	header := metav1.PartialObjectMetadata{}
	if err := utiljson.Unmarshal(data, &header); err != nil {
		return err
	}
	*object = empty
	*kind, *meta, *problem = header.TypeMeta, header.ObjectMeta, fmt.Sprintf("%.*s", maxDecodeError, cause.Error())
	return nil
}

// encodeObject encodes an object of a type without methods, unless it was not decoded for that problem.
func encodeObject(kind, name, problem string, object any) ([]byte, error) {
	if problem != "" {
		return nil, fmt.Errorf("%s %s was not decoded (%s), so it cannot be written: repair it with kubectl edit", kind, name, problem)
	}
	return json.Marshal(object)
}
