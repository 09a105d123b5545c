#!/usr/bin/env bash
# Enforces the import directions of DESIGN.md: proto imports nothing of ours;
# internal only proto; a service only proto, internal and itself; deploy may
# import everything. Tests count like other code.
set -euo pipefail
cd "$(dirname "$0")/../.."

check() { # module allowed...
	local module=$1
	shift
	local allowed
	allowed=$(printf 'lycosa\\.dev/%s(/|$)|' "$module" "$@")
	# shellcheck disable=SC2016
	go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}
{{end}}{{range .TestImports}}{{$p}} {{.}}
{{end}}{{range .XTestImports}}{{$p}} {{.}}
{{end}}' "./$module/..." | grep -E ' lycosa\.dev/' | grep -vE " (${allowed%|})" |
		sed 's/\(.*\) \(.*\)/\1 must not import \2/' || true
}

bad=$(
	check proto
	check internal proto
	for service in downloader extractor dnser scheduler gateway; do
		check "$service" proto internal
	done
)
if [ -n "$bad" ]; then
	echo "$bad" >&2
	exit 1
fi
echo "import directions hold"
