#!/usr/bin/env bash
# Makes a .deb and an .rpm of built programs, and SHA256SUMS.
#
# usage: deploy/package.sh PROGRAMS OUTPUT      PROGRAMS: folder of the built programs; OUTPUT: folder, emptied first

set -euo pipefail
(($# == 2)) || {
	sed -n '2,4s/^# \{0,1\}//p' "$0" >&2
	exit 2
}
programs=$(realpath "$1")
mkdir -p "$2"
output=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly SHIPPED=(hotcc sinr-feeder pep-agent)
readonly OLDEST_LIBC=2.36 # of Debian 12, the oldest distribution that the packages are for
version=$(sed -n '0,/^version = /s/^version = "\(.*\)"/\1/p' Cargo.toml)
find "$output" -mindepth 1 -delete
tree=$output/build/tree

# --- the files of both packages -------------------------------------------------------------------------------------

mkdir -p "$tree"/usr/share/{man/man1,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
for program in "${SHIPPED[@]}"; do
	install -D -s -t "$tree/usr/bin" "$programs/$program"
	"$programs/$program" man "$tree/usr/share/man/man1"
	"$programs/$program" completions bash >"$tree/usr/share/bash-completion/completions/$program"
	"$programs/$program" completions zsh >"$tree/usr/share/zsh/vendor-completions/_$program"
	"$programs/$program" completions fish >"$tree/usr/share/fish/vendor_completions.d/$program.fish"
done
gzip -9n "$tree"/usr/share/man/man1/*.1
install -D -m 644 -t "$tree/usr/lib/systemd/system" deploy/*.service
install -D -m 644 deploy/sysusers.conf "$tree/usr/lib/sysusers.d/hotcc.conf"
install -D -m 644 deploy/tmpfiles.conf "$tree/usr/lib/tmpfiles.d/hotcc.conf"
install -D -m 644 -t "$tree/usr/share/hotcc" deploy/prometheus-rules.yml deploy/grafana-dashboard.json
install -D -m 644 -t "$tree/etc/hotcc" deploy/config/*.toml
install -d "$tree/usr/share/doc/hotcc"
cat LICENSE.md LICENSE-MIT LICENSE-APACHE >"$tree/usr/share/doc/hotcc/copyright"

# --- Debian ---------------------------------------------------------------------------------------------------------

cp -r deploy/debian "$tree/DEBIAN"
(cd "$tree" && find etc -type f -printf '/%p\n' | sort) >"$tree/DEBIAN/conffiles"
libc=$(objdump -T "$tree"/usr/bin/* | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
if [[ $(printf '%s\n' "$libc" "GLIBC_$OLDEST_LIBC" | sort -V | tail -n 1) != "GLIBC_$OLDEST_LIBC" ]]; then
	echo "package.sh: the programs need $libc, newer than $OLDEST_LIBC: build them on Debian 12" >&2
	exit 1
fi
cat >"$tree/DEBIAN/control" <<END
Package: hotcc
Version: $version
Architecture: amd64
Maintainer: the hotcc authors <hotcc@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)
Depends: passwd, libc6 (>= ${libc#GLIBC_}), libgcc-s1
Section: net
Priority: optional
Description: TCP congestion control as BPF programs
 Loads, tunes, swaps and watches TCP congestion controls on a stock kernel, feeds
 them radio readings, and runs the agents of a performance-enhancing proxy.
END
chmod -R go-w "$tree"
dpkg-deb --root-owner-group -Zzstd --build "$tree" "$output/hotcc_${version}_amd64.deb"
rm -r "$tree/DEBIAN"

# --- RPM ------------------------------------------------------------------------------------------------------------

mv "$tree/usr/share/zsh/vendor-completions" "$tree/usr/share/zsh/site-functions"
rpmbuild --quiet -bb --target x86_64 --define "_topdir $output/build/rpm" --define "_rpmdir $output" \
	--define "_rpmfilename %%{NAME}-%%{VERSION}.%%{ARCH}.rpm" --define "_binary_payload w9.zstdio" \
	--define "version $version" --define "libc ${libc#GLIBC_}" --define "tree $tree" deploy/hotcc.spec

rm -r "$output/build"
(cd "$output" && sha256sum ./*.deb ./*.rpm | sed 's|\./||' >SHA256SUMS)
cat "$output/SHA256SUMS"
