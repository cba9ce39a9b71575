package loadtest

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"
)

// discardAnswer makes a request, and reads its answer to the end without keeping it: a hundred answers at once, each of many megabytes,
// would be more than an agent has memory for.
func discardAnswer(ctx context.Context, request *rest.Request) error {
	answer, err := request.Stream(ctx)
	if err != nil {
		return err
	}
	defer answer.Close()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}
