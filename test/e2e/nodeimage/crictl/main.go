// Program crictl has the one command of the real one that kind needs to load an image into a node: inspecti, which asks the
// container runtime for an image. The real one cannot be built where there is only the Go module proxy.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const endpoint = "unix:///run/containerd/containerd.sock"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crictl:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 || args[0] != "inspecti" {
		return errors.New("this crictl can do only: crictl inspecti IMAGE")
	}
	connection, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	response, err := cri.NewImageServiceClient(connection).ImageStatus(ctx,
		&cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: args[1]}})
	if err != nil {
		return fmt.Errorf("asking for image %s: %w", args[1], err)
	}
	if response.GetImage() == nil {
		return fmt.Errorf("no such image: %s", args[1])
	}
	type status struct {
		ID          string   `json:"id"`
		RepoTags    []string `json:"repoTags"`
		RepoDigests []string `json:"repoDigests"`
	}
	image := response.GetImage()
	return json.NewEncoder(os.Stdout).Encode(map[string]status{
		"status": {ID: image.GetId(), RepoTags: image.GetRepoTags(), RepoDigests: image.GetRepoDigests()},
	})
}
