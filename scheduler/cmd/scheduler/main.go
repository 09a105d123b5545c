// Command scheduler runs the frontier as a service of its own.
package main

import (
	"context"

	"lycosa.dev/internal/config"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler"
)

func main() {
	rpc.Main("scheduler", func(ctx context.Context) error {
		cfg := scheduler.Default()
		if err := config.Main("scheduler", &cfg); err != nil {
			return err
		}
		return service.Run(ctx, "scheduler", schedulerv1.SchedulerService_ServiceDesc.ServiceName, cfg.Config,
			func(deps service.Deps) (service.Service, error) { return scheduler.New(cfg, deps) })
	})
}
