# shellcheck shell=bash
# What up.sh, down.sh and status.sh share: where things are.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034
bin=${LYCOSA_BIN:-$root/bin}
run=${LYCOSA_RUN:-$root/run}          # logs, pid files and data of what make up starts
# shellcheck disable=SC2034
jaeger=${LYCOSA_JAEGER:-$root/.tools/bin/jaeger}

# alive NAME: the process that was started under this name still runs. One that
# has ended and that nobody has waited for does not, and neither does another
# program that has got the number of a process that is gone.
alive() {
	local pid program comm
	pid=$(cat "$run/$1.pid" 2>/dev/null) && [ -n "$pid" ] && running "$pid" || return 1
	case $1 in
	downloader*) program=downloader ;;
	jaeger) program=$(basename "$jaeger") ;;
	*) program=$1 ;;
	esac
	# Of a name 15 characters are kept; between fork and exec it is another's.
	for _ in 1 2 3 4 5; do
		comm=$(cat "/proc/$pid/comm" 2>/dev/null || ps -o comm= -p "$pid" 2>/dev/null) || true
		[ "${comm##*/}" = "${program:0:15}" ] && return 0
		running "$pid" || return 1
		sleep 0.1
	done
	return 1
}

running() { # pid
	kill -0 "$1" 2>/dev/null && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"
}

# start NAME COMMAND...: starts a process with a log and a pid file.
start() {
	local name=$1
	shift
	if alive "$name"; then
		echo "$name runs already (pid $(cat "$run/$name.pid"))"
		return
	fi
	# A group of its own, so that Ctrl-C in this terminal does not reach it.
	setsid "$@" >>"$run/$name.log" 2>&1 </dev/null &
	echo $! >"$run/$name.pid"
	echo "$name started (pid $!, log $run/$name.log)"
}

# names: what has a pid file, in the order to stop it: gateway and scheduler
# first, so that leases come home while the others are still there.
names() {
	local f n
	for n in gateway scheduler; do [ -f "$run/$n.pid" ] && echo "$n"; done
	for f in "$run"/downloader*.pid "$run"/extractor.pid "$run"/dnser.pid "$run"/jaeger.pid; do
		[ -f "$f" ] && basename "$f" .pid
	done
	return 0
}
