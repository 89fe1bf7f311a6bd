#!/usr/bin/env bash
# Makes in target/package, as .deb and .rpm, the packages hotcc and hotcc-bench, and SHA256SUMS. Their files are listed in
# loader/Cargo.toml and bench/cli/Cargo.toml.
#
# The programs of hotcc are static. They are linked with musl, as a static glibc loads plug-ins of the system's libc to look up
# groups and hosts, and crashes in them. libelf and zlib are compiled from the sources that libbpf-sys carries: elfutils' own build refuses musl.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET=x86_64-unknown-linux-musl
readonly TOOLS=(cargo-deb@3.8.0 cargo-generate-rpm@0.21.1)
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR
readonly tools=$CARGO_TARGET_DIR/tools programs=$CARGO_TARGET_DIR/$TARGET/release
readonly lab=$CARGO_TARGET_DIR/release output=$CARGO_TARGET_DIR/package

die() {
	printf 'package.sh: %s\n' "$@" >&2
	exit 1
}

# --- tools ----------------------------------------------------------------------------------------------------------

command -v musl-gcc >/dev/null || die "musl-gcc is not installed: run ./setup.sh, or apt-get install musl-tools"
if [[ ! -d $(rustc --print target-libdir --target "$TARGET") ]]; then
	rustup target add "$TARGET" ||
		die "this Rust toolchain has no $TARGET, and rustup cannot fetch it: install the toolchain's package for musl"
fi
for tool in "${TOOLS[@]}"; do
	[[ -e $tools/$tool ]] && continue
	cargo install --quiet --locked --no-default-features --root "$tools" "$tool" ||
		die "cannot build $tool: it comes from crates.io, once"
	touch "$tools/$tool"
done

# --- programs -------------------------------------------------------------------------------------------------------

libbpf=$(cargo metadata --format-version 1 --locked --filter-platform "$TARGET" | grep -o '"[^"]*/libbpf-sys-[^"/]*/Cargo.toml"' | sort -u)
libbpf=$(dirname "${libbpf//\"/}")
libraries=$CARGO_TARGET_DIR/$TARGET/$(basename "$libbpf")
if [[ ! -e $libraries/libelf.a ]]; then
	rm -rf "$libraries"
	mkdir -p "$libraries"/{elf,z}
	# what elfutils' configure finds out
	cat >"$libraries/config.h" <<-'END'
		#define HAVE_DECL_MEMPCPY 1
		#define HAVE_DECL_MEMRCHR 1
		#define HAVE_DECL_POWEROF2 1
		#define HAVE_DECL_REALLOCARRAY 1
		#define HAVE_ERR_H 1
		#define HAVE_GCC_STRUCT 1
		#define HAVE_MREMAP 1
		#define HAVE_VISIBILITY 1
		#include <eu-config.h>
	END
	compile=(musl-gcc -c -O2 -fPIC -std=gnu99 -D_GNU_SOURCE)
	(cd "$libraries/z" && "${compile[@]}" -DHAVE_UNISTD_H "$libbpf"/zlib/*.c)
	(cd "$libraries/elf" && "${compile[@]}" -DHAVE_CONFIG_H -I"$libraries" -I"$libbpf"/{elfutils/libelf,elfutils/lib,zlib} \
		"$libbpf"/elfutils/libelf/*.c)
	ar rcsD "$libraries/libz.a" "$libraries"/z/*.o
	ar rcsD "$libraries/libelf.a" "$libraries"/elf/*.o
fi
# linux/ and asm/ are the kernel's, and not musl's: looked for last
kernel_headers=/usr/include/$(gcc -print-multiarch)
LIBBPF_SYS_LIBRARY_PATH_x86_64_unknown_linux_musl=$libraries \
	LIBBPF_SYS_EXTRA_CFLAGS="-I$libbpf/elfutils/libelf -I$libbpf/zlib -idirafter /usr/include -idirafter $kernel_headers" \
	cargo build --release --locked --target "$TARGET" -p hotcc -p sinr-feeder -p pep-agent --bins --features hotcc/static
strip "$programs"/{hotcc,sinr-feeder,pep-agent}
deploy/pages.sh "$programs" hotcc hotcc sinr-feeder pep-agent

# The lab's use the system's C library, as the simulator loads the algorithms as shared objects.
cargo build --release --locked -p hotcc-bench -p hotcc-lab-guest --bins
strip "$lab"/{hotcc-bench,hotcc-guest}
deploy/pages.sh "$lab" hotcc-bench hotcc-bench

# --- packages -------------------------------------------------------------------------------------------------------

export PATH=$tools/bin:$PATH
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH
version=$(sed -n '0,/^version = /s/^version = "\(.*\)"/\1/p' Cargo.toml)
rm -rf "$output"
mkdir -p "$output"
deb=(cargo deb --no-build --no-strip --compress-system --output)
rpm=(cargo generate-rpm --payload-compress gzip --output)
(
	cd loader
	"${deb[@]}" "$output/hotcc_${version}_amd64.deb" --target "$TARGET"
	"${rpm[@]}" "$output/hotcc-$version.x86_64.rpm" --target "$TARGET"
)
(
	cd bench/cli
	"${deb[@]}" "$output/hotcc-bench_${version}_amd64.deb"
	"${rpm[@]}" "$output/hotcc-bench-$version.x86_64.rpm"
)
cd "$output"
sha256sum -- *.deb *.rpm | tee SHA256SUMS
