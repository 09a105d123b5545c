// Command dnser is the service that resolves the hosts of links. See README.md
// of its module for its settings.
package main

import (
	"context"

	"lycosa.dev/dnser"
	"lycosa.dev/internal/config"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
)

func main() {
	rpc.Main("dnser", func(ctx context.Context) error {
		cfg := dnser.Default()
		if err := config.Main("dnser", &cfg); err != nil {
			return err
		}
		return service.Run(ctx, "dnser", dnserv1.DnserService_ServiceDesc.ServiceName, cfg.Config,
			func(deps service.Deps) (service.Service, error) { return dnser.New(cfg, deps) })
	})
}
