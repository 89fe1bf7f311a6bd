#!/usr/bin/env bash
# Writes what a package contains beside its programs and this folder's files: manual pages, completions, the copyright.
#
# usage: deploy/pages.sh FOLDER PACKAGE PROGRAM...      FOLDER: where the built programs are; written to FOLDER/pages/PACKAGE

set -euo pipefail
(($# >= 3)) || {
	sed -n '2,4s/^# \{0,1\}//p' "$0" >&2
	exit 2
}
folder=$(realpath "$1") package=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pages=$folder/pages/$package
rm -rf "$pages"
mkdir -p "$pages"/{man,bash,zsh,fish}
for program; do
	"$folder/$program" man "$pages/man"
	"$folder/$program" completions bash >"$pages/bash/$program"
	"$folder/$program" completions zsh >"$pages/zsh/_$program"
	"$folder/$program" completions fish >"$pages/fish/$program.fish"
done
gzip -9n "$pages"/man/*.1
cat LICENSE.md LICENSE-MIT LICENSE-APACHE >"$pages/copyright"
