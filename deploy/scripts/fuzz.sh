#!/usr/bin/env bash
# Fuzzes the targets of fuzz-targets, two at a time:
#   fuzz.sh TIME all|ci|FuzzName...
# TIME is for each target, such as 60s. A finding is written to the package's
# testdata/fuzz, where every later test run tries it; commit it with what mends
# it. KEEP=n also copies the n newest short inputs of each target that reached
# new code from the build cache to testdata/fuzz. JOBS=n runs n targets at a time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
time=${1:?usage: fuzz.sh TIME all|ci|FuzzName...}
shift
[ $# -gt 0 ] || set -- all

list=$(grep -v '^#' "$here/fuzz-targets")

# The list and the code must name the same targets.
written=$(grep -rn --include='*_test.go' -oE '^func Fuzz[A-Za-z0-9_]+' . | grep -v '^./\.tools/' | sed -E 's|^(.*)/[^/]+_test\.go:[0-9]+:func (Fuzz.*)$|\1 \2|' | sort)
listed=$(awk '{print $1, $2}' <<<"$list" | sort)
if ! difference=$(diff <(echo "$listed") <(echo "$written")); then
	echo "fuzz: deploy/scripts/fuzz-targets and the code differ (<: the target is missing in the code, >: it is missing in the list):" >&2
	grep '^[<>]' <<<"$difference" >&2
	exit 1
fi

chosen=()
for want in "$@"; do
	found=
	while read -r package target mark; do
		if [ "$want" = all ] || [ "$want" = "$mark" ] || [ "$want" = "$target" ]; then
			chosen+=("$package $target")
			found=1
		fi
	done <<<"$list"
	[ -n "$found" ] || { echo "fuzz: no target $want; those there are: $(awk '{print $2}' <<<"$list" | xargs)" >&2; exit 2; }
done

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

one() { # package target
	local log="$logs/$2"
	if go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -parallel 1 "$1" >"$log" 2>&1; then
		printf 'fuzz: %-20s %s\n' "$2" "$(grep -E '^fuzz: elapsed' "$log" | tail -1 | sed 's/^fuzz: //')"
	elif ! grep -q 'Failing input written' "$log" && grep -q 'context deadline exceeded' "$log"; then
		# The end of the time, told as an error: go.dev/issue/48591.
		printf 'fuzz: %-20s ended while a value was tried\n' "$2"
	else
		echo "fuzz: $2 failed:" >&2
		cat "$log" >&2
		return 1
	fi
	if [ "${KEEP:-0}" -gt 0 ]; then
		local cache
		cache="$(go env GOCACHE)/fuzz/$(go list "$1")/$2"
		[ -d "$cache" ] || return 0
		mkdir -p "$1/testdata/fuzz/$2"
		find "$cache" -type f -size -4k -printf '%T@ %p\n' | sort -rn | head -n "$KEEP" | cut -d' ' -f2- | xargs -r -I{} cp {} "$1/testdata/fuzz/$2/"
	fi
}

failed=0
running=0
for c in "${chosen[@]}"; do
	read -r package target <<<"$c"
	one "$package" "$target" &
	running=$((running + 1))
	if [ "$running" -ge "${JOBS:-2}" ]; then
		wait -n || failed=1
		running=$((running - 1))
	fi
done
while [ "$running" -gt 0 ]; do
	wait -n || failed=1
	running=$((running - 1))
done
exit "$failed"
