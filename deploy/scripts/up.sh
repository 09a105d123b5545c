#!/usr/bin/env bash
# Starts the five services on loopback, each a process with a log and a pid
# file under run/, and waits until they have found each other.
#   DOWNLOADERS=3   how many downloaders (ports 7072, 7172, 7272 ...)
#   OTLP=host:port  where traces go; default: Jaeger on 127.0.0.1:4317 if it is built
#   TRACE_RATIO=1   share of leases that are traced; default 0.01
# Running it again starts what is missing, further downloaders among it.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
downloaders=${DOWNLOADERS:-1}
case $downloaders in
# The twenty-first would listen where the first has its metrics.
[1-9] | 1[0-9] | 20) ;;
*) echo "up: DOWNLOADERS must be 1 to 20, is \"$downloaders\"" >&2; exit 2 ;;
esac
mkdir -p "$run"

if [ -x "$jaeger" ] && [ -z "${OTLP:-}" ]; then
	start jaeger "$jaeger" --config "$root/deploy/jaeger.yaml"
	OTLP=127.0.0.1:4317
fi
common=()
if [ -n "${OTLP:-}" ]; then common+=(--otlp "$OTLP"); fi
if [ -n "${TRACE_RATIO:-}" ]; then common+=(--trace-ratio "$TRACE_RATIO"); fi

start scheduler "$bin/scheduler" --dir "$run/frontier" "${common[@]}"
start dnser "$bin/dnser" --cache-file "$run/dns.cache" "${common[@]}"
start extractor "$bin/extractor" --dir "$run" "${common[@]}"
for ((i = 1; i <= downloaders; i++)); do
	port=$((7072 + 100 * (i - 1)))
	start "downloader-$i" "$bin/downloader" --id "downloader-$i" --listen "127.0.0.1:$port" --debug "127.0.0.1:$((port + 2000))" "${common[@]}"
done
start gateway "$bin/gateway" "${common[@]}"

# ended: tells of what has been started and does not run any more.
ended() {
	local name none=1
	for name in $(names); do
		if [ "$name" = jaeger ] || alive "$name"; then continue; fi
		none=0
		echo "-- $name has ended; the last of its log:" >&2
		tail -n 5 "$run/$name.log" >&2
	done
	return $none
}

deadline=$((SECONDS + 60))
until found=$("$bin/lycosa" instance wait --timeout 2s "downloader=$downloaders" extractor dnser 2>&1); do
	if ended; then
		echo "up: not all services run; the others do (make up again starts what is missing, make down stops them). Logs are in $run" >&2
		exit 1
	fi
	if [ "$SECONDS" -ge "$deadline" ]; then
		echo "$found" >&2
		echo "up: the services have not found each other; see the logs in $run" >&2
		exit 1
	fi
done
if [ -f "$run/jaeger.pid" ] && ! alive jaeger; then
	echo "jaeger has ended, so traces are lost; see $run/jaeger.log"
fi
cat <<EOF
All are up. The admin API is on 127.0.0.1:7070:
  bin/lycosa job create --seed https://example.org/ --contact you@example.org --start
  bin/lycosa job list
Results go to $run/warc, the crawl log to $run/logs. Stop with: make down
EOF
