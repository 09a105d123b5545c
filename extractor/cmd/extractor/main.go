// Command extractor runs the extractor as a service of its own.
package main

import (
	"context"

	"lycosa.dev/extractor"
	"lycosa.dev/internal/config"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
)

func main() {
	rpc.Main("extractor", func(ctx context.Context) error {
		cfg := extractor.Default()
		if err := config.Main("extractor", &cfg); err != nil {
			return err
		}
		return service.Run(ctx, "extractor", extractorv1.ExtractorService_ServiceDesc.ServiceName, cfg.Config,
			func(deps service.Deps) (service.Service, error) { return extractor.New(cfg, deps) })
	})
}
