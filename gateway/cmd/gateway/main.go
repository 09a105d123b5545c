// Command gateway is the control room as a service of its own. See README.md of
// its module for its settings.
package main

import (
	"context"

	"lycosa.dev/gateway"
	"lycosa.dev/internal/config"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
)

func main() {
	rpc.Main("gateway", func(ctx context.Context) error {
		cfg := gateway.Default()
		if err := config.Main("gateway", &cfg); err != nil {
			return err
		}
		return service.Run(ctx, "gateway", gatewayv1.AdminService_ServiceDesc.ServiceName, cfg.Config,
			func(deps service.Deps) (service.Service, error) { return gateway.New(cfg, deps) })
	})
}
