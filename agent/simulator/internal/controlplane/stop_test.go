package controlplane

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Claim: A request to stop a cluster of a group is answered, however quickly it stops. Broken: the answer left to the end of the handler.
func TestAStopIsAnswered(t *testing.T) {
	s := &supervisor{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(s.handleStop))
	s.options.stop = func() { server.CloseClientConnections() }
	server.Start()
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/stop", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatalf("the stop has no answer: %v", err)
	}
	defer response.Body.Close()
	answer := make([]byte, 3)
	if _, err := io.ReadFull(response.Body, answer); err != nil || string(answer) != "{}\n" {
		t.Errorf("the answer is %q, %v", answer, err)
	}
}
