#!/usr/bin/env bash
# Stops what up.sh has started: gateway and scheduler first, so that leases
# come home; each has 40 seconds, then it is killed. Nothing is lost either way.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
for name in $(names); do
	if alive "$name"; then
		pid=$(cat "$run/$name.pid")
		kill -TERM "$pid" 2>/dev/null || true
		for ((i = 0; i < 400; i++)); do
			running "$pid" || break
			sleep 0.1
		done
		if running "$pid"; then
			echo "$name did not stop in 40s and is killed"
			kill -KILL "$pid" 2>/dev/null || true
		else
			echo "$name stopped"
		fi
	fi
	rm -f "$run/$name.pid"
done
