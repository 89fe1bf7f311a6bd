#!/usr/bin/env bash
# Builds the project's programs for arm64, in target/aarch64-unknown-linux-gnu/release. Unpacks to `debian` beside it the files
# of Debian's packages that the lab's guests also need, or that the programs are linked with. Installs nothing, except Rust's
# standard library for arm64.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET=aarch64-unknown-linux-gnu
readonly PACKAGES=iproute2,libc6-dev,libelf-dev,zlib1g-dev
place=$(realpath -m "${CARGO_TARGET_DIR:-target}")/$TARGET
readonly place

die() {
	printf 'arm64.sh: %s\n' "$@" >&2
	exit 1
}

for tool in aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-system-aarch64:qemu-system-arm mmdebstrap:mmdebstrap readelf:binutils; do
	command -v "${tool%:*}" >/dev/null || die "${tool%:*} is not installed: apt-get install ${tool#*:}"
done
if [[ ! -d $(rustc --print target-libdir --target "$TARGET") ]]; then
	rustup target add "$TARGET" || die "this Rust toolchain has no $TARGET, and rustup cannot fetch it"
fi
if [[ ! -d $place/debian ]]; then
	mkdir -p "$place"
	rm -rf "$place/debian.partial"
	# the programs run on this release and later ones
	mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$PACKAGES" bookworm "$place/debian.partial"
	mv "$place/debian.partial" "$place/debian"
fi

export AR=aarch64-linux-gnu-ar CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CFLAGS_aarch64_unknown_linux_gnu="--sysroot=$place/debian"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C link-arg=--sysroot=$place/debian"
cargo build --release --locked --target "$TARGET" --workspace --bins
