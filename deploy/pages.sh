#!/usr/bin/env bash
# Writes what the packages contain beside the programs and this folder's files: manual pages, completions, the copyright.
#
# usage: deploy/pages.sh PROGRAMS      PROGRAMS: folder of the built programs; written to PROGRAMS/pages

set -euo pipefail
(($# == 1)) || {
	sed -n '2,4s/^# \{0,1\}//p' "$0" >&2
	exit 2
}
programs=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pages=$programs/pages
rm -rf "$pages"
mkdir -p "$pages"/{man,bash,zsh,fish}
for program in hotcc sinr-feeder pep-agent; do
	"$programs/$program" man "$pages/man"
	"$programs/$program" completions bash >"$pages/bash/$program"
	"$programs/$program" completions zsh >"$pages/zsh/_$program"
	"$programs/$program" completions fish >"$pages/fish/$program.fish"
done
gzip -9n "$pages"/man/*.1
cat LICENSE.md LICENSE-MIT LICENSE-APACHE >"$pages/copyright"
