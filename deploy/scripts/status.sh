#!/usr/bin/env bash
# Shows what up.sh has started and who has joined.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
if [ -z "$(names)" ]; then
	echo "nothing was started here (make up)"
	exit 0
fi
for name in $(names); do
	if alive "$name"; then
		echo "$name: runs, pid $(cat "$run/$name.pid")"
	else
		echo "$name: has ended; last of its log: $(tail -n 1 "$run/$name.log" 2>/dev/null)"
	fi
done
"$bin/lycosa" instance list || true
