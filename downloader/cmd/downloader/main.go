// Command downloader runs one downloader as a service of its own.
package main

import (
	"context"

	"lycosa.dev/downloader"
	"lycosa.dev/internal/config"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
)

func main() {
	rpc.Main("downloader", func(ctx context.Context) error {
		cfg := downloader.Default()
		if err := config.Main("downloader", &cfg); err != nil {
			return err
		}
		return service.Run(ctx, "downloader", downloaderv1.DownloaderService_ServiceDesc.ServiceName, cfg.Config,
			func(deps service.Deps) (service.Service, error) { return downloader.New(cfg, deps) })
	})
}
