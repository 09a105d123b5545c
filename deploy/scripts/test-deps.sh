#!/usr/bin/env bash
# Installs what the tests need and writes the environment they read:
#   test-deps.sh TOOLS_DIR
# Packages come from apt where it is there and we may use it; a test whose part
# is missing is skipped and says so.
set -euo pipefail
tools=${1:?usage: test-deps.sh TOOLS_DIR}
mkdir -p "$tools/sites" "$tools/npm"
tools=$(cd "$tools" && pwd)

say() { echo "test-deps: $*" >&2; }

sudo=()
if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null; then sudo=(sudo -n); fi

packages=()
want() { # command package
	command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || packages+=("$2")
}
want nginx nginx-light
want apache2 apache2-bin
want unbound unbound
want nsd nsd
want openssl openssl
want node nodejs
want npm npm

updated=
update() { [ -n "$updated" ] || "${sudo[@]}" apt-get update -qq >/dev/null; updated=1; }

if command -v apt-get >/dev/null; then
	if [ ${#packages[@]} -gt 0 ]; then
		say "installing ${packages[*]}"
		# The servers are for the tests, which start and stop them: their packages
		# must not.
		if [ ! -e /usr/sbin/policy-rc.d ] && printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee /usr/sbin/policy-rc.d >/dev/null; then
			"${sudo[@]}" chmod +x /usr/sbin/policy-rc.d
			trap '"${sudo[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
		fi
		if ! { update && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >"$tools/apt.log" 2>&1; }; then
			say "could not install ${packages[*]} (see $tools/apt.log): tests that need them are skipped"
		fi
	fi
	# Real sites: documentation packages, unpacked and not installed.
	for site in python3.11-doc debian-reference-zh-cn apache2-doc; do
		[ -d "$tools/sites/$site/usr" ] && continue
		say "unpacking $site"
		if ! (update && cd "$tools/sites" && apt-get download -qq "$site" >/dev/null && dpkg -x "$site"_*.deb "$site" && rm -f "$site"_*.deb); then
			say "could not fetch $site: tests that crawl it are skipped"
		fi
	done
else
	say "no apt-get here: install by hand ${packages[*]:-nothing}; tests that crawl Debian's documentation are skipped"
fi

if command -v npm >/dev/null && [ ! -d "$tools/npm/node_modules/warcio" ]; then
	say "installing warcio"
	npm install --prefix "$tools/npm" --no-audit --no-fund --no-save --silent "warcio@${WARCIO_VERSION:-2.4.11}" ||
		say "could not install warcio: WARC files are not read by it"
fi

{
	echo "export LYCOSA_SITES='$tools/sites'"
	if [ -d "$tools/npm/node_modules/warcio" ]; then echo "export LYCOSA_WARCIO='$tools/npm'"; fi
	# shellcheck disable=SC2016
	echo 'export PATH="$PATH:/usr/sbin"'
} >"$tools/test-env"
