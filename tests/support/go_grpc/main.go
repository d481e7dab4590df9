// A gRPC server in Go, for tests: gRPC's own service for tests, with reflection and health.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

type service struct {
	testgrpc.UnimplementedTestServiceServer
}

// UnaryCall answers with what it was told, or fails as it was told to.
func (*service) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if told := in.GetResponseStatus(); told != nil && told.Code != 0 {
		return nil, status.Error(codes.Code(told.Code), told.Message)
	}
	given, _ := metadata.FromIncomingContext(ctx)
	told := fmt.Sprint(given.Get(":authority"), given.Get("mainspring-token"))
	return &testgrpc.SimpleResponse{Payload: in.GetPayload(), Username: told}, nil
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, &service{})
	healthpb.RegisterHealthServer(server, health.NewServer())
	reflection.RegisterV1(server) // and not v1alpha, which the server in Python has
	fmt.Println("listening on", listener.Addr().(*net.TCPAddr).Port)
	go func() { // it ends with whoever started it
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	log.Fatal(server.Serve(listener))
}
