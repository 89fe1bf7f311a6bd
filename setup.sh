#!/usr/bin/env bash
# Installs what building and testing hotcc needs: system packages (Debian, Ubuntu) and the recipe runner `just`.
# Installs only what is missing; a second run changes nothing. On other distributions, lists what is missing and stops.
#
# usage: ./setup.sh [--check] [--minimal]
#   --check    only report what is missing; exit 1 if something is
#   --minimal  only what building and loading need: no virtual machine, no Prometheus, nothing that only tests use

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly PREFERRED_CLANG=19
readonly OTHER_CLANGS=(22 21 20 18 17 16 15)
readonly BPFFS=/sys/fs/bpf
readonly POLICY=/usr/sbin/policy-rc.d
# Without these, some tests are skipped.
readonly OPTIONAL='prometheus|nats-server|dbus|python3-dbusmock|chromium-headless-shell|podman|golang-github-containers-common|kubernetes-client'

check_only=false
minimal=false
incomplete=false
as_root=()
log=
policy_is_ours=false

say() { printf '%-10s %s\n' "$1" "$2"; }
have() { command -v "$1" >/dev/null 2>&1; }
die() {
	printf 'setup.sh: %s\n' "$1" >&2
	shift
	if (($#)); then printf '%s\n' "$@" >&2; fi
	exit 1
}

# --- Rust -----------------------------------------------------------------------------------------------------------

wanted_rust() { sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml; }

need_rust_command() {
	local bin=${CARGO_HOME:-$HOME/.cargo}/bin
	if ! have cargo && [[ -x $bin/cargo ]]; then
		say missing "$bin on PATH, where cargo is: export PATH=\"$bin:\$PATH\""
		incomplete=true
		PATH=$bin:$PATH
	fi
	have cargo && return
	if have rustup; then
		die "rustup is installed, cargo is not on PATH: run 'rustup toolchain install', add $bin to PATH"
	fi
	die "no Rust toolchain found; nothing was changed. Get one, then run this again:" \
		"  rustup from rustup.rs (it fetches Rust $(wanted_rust) by itself), or" \
		"  your distribution's package of cargo and rustc, when it is 1.95 or later"
}

need_rust_version() {
	local wanted version error
	wanted=$(wanted_rust)
	if $check_only; then
		export RUSTUP_AUTO_INSTALL=0
	fi
	# Under rustup this first call installs the toolchain that rust-toolchain.toml names.
	if ! error=$(cargo --version 2>&1); then
		die "Rust $wanted is not usable: ${error##*$'\n'}" \
			"  install it by hand: rustup toolchain install $wanted --component rustfmt,clippy"
	fi
	version=$(rustc --version | cut -d' ' -f2)
	if [[ $(printf '%s\n' "${wanted%.*}" "$version" | sort -V | head -n1) != "${wanted%.*}" ]]; then
		die "Rust $version is too old, ${wanted%.*} or later is needed: see rustup.rs"
	fi
	say ok "Rust $version"
}

# --- what is missing ------------------------------------------------------------------------------------------------

offered() { apt-cache show "$1" >/dev/null 2>&1; }

# Prints the version of clang to use: the preferred one if it is installed or available, else the newest installed one,
# else the newest available one.
pick_clang() {
	local v
	v=$PREFERRED_CLANG
	if have "clang-$v" || offered "clang-$v"; then echo "$v" && return; fi
	for v in "${OTHER_CLANGS[@]}"; do
		if have "clang-$v"; then echo "$v" && return; fi
	done
	for v in "${OTHER_CLANGS[@]}"; do
		if offered "clang-$v"; then echo "$v" && return; fi
	done
	return 1
}

missing_packages() {
	local clang=$1
	have "clang-$clang" || echo "clang-$clang"
	have pkg-config || echo pkg-config
	have gcc || echo gcc
	have make || echo make
	[[ -e /usr/include/libelf.h ]] || echo libelf-dev
	[[ -e /usr/include/zlib.h ]] || echo zlib1g-dev
	if $minimal; then return; fi
	have "clang-format-$clang" || echo "clang-format-$clang"
	# the fuzzer's runtime
	compgen -G "/usr/lib/llvm-$clang/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a" >/dev/null ||
		compgen -G "/usr/lib/llvm-$clang/lib/clang/*/lib/*/libclang_rt.fuzzer*.a" >/dev/null ||
		echo "libclang-rt-$clang-dev"
	have ip || echo iproute2
	have iperf3 || echo iperf3
	have prometheus || echo prometheus
	# a test captures packets to check their TCP options
	have tcpdump || echo tcpdump
	have tshark || echo tshark
	# in another test, a router translates addresses
	have nft || echo nftables
	# opens pages in tests; the package is 80 MB, and takes 280 MB without the libraries that it needs
	have chromium-headless-shell || have chromium || echo chromium-headless-shell
	# tests of sinr-feeder talk to these
	have nats-server || echo nats-server
	have iw || echo iw
	have dbus-daemon || echo dbus
	/usr/bin/python3 -c 'import dbusmock' 2>/dev/null || echo python3-dbusmock
	# the lab runs a virtual machine, and checks and unpacks stock kernels
	have qemu-system-x86_64 || echo qemu-system-x86
	have gpgv || echo gpgv
	have gpg || echo gnupg
	have xz || echo xz-utils
	have zstd || echo zstd
	have depmod || echo kmod
	# for the packages: to link static programs, to look into the .rpm, to make a root file system to install into, to check
	# units
	have musl-gcc || echo musl-tools
	have rpm || echo rpm
	have mmdebstrap || echo mmdebstrap
	have systemd-analyze || echo systemd
	# to build the image, and to read the manifests for Kubernetes
	have podman || echo podman
	[[ -e /etc/containers/policy.json ]] || echo golang-github-containers-common
	have kubectl || echo kubernetes-client
	# fetches recorded traces
	have curl || echo curl
	# makes certificates for a test
	have openssl || echo openssl
	# `just lint` checks shell scripts with it
	have shellcheck || echo shellcheck
	[[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] || echo debian-archive-keyring
	find_just || ! offered just || echo just
}

is_debian() {
	local ids
	ids=$(sed -n 's/^ID\(_LIKE\)\?=//p' /etc/os-release 2>/dev/null | tr -d '"' | tr '\n' ' ') || true
	[[ " $ids " == *" debian "* || " $ids " == *" ubuntu "* ]] && have apt-get
}

other_distribution() {
	local tool tools=(clang gcc make pkg-config) missing=()
	if ! $minimal; then
		tools+=(clang-format ip iperf3 prometheus tcpdump tshark nft nats-server iw openssl dbus-daemon qemu-system-x86_64 musl-gcc \
			rpm systemd-analyze just)
	fi
	for tool in "${tools[@]}"; do
		have "$tool" || missing+=("$tool")
	done
	[[ -e /usr/include/libelf.h ]] || missing+=("libelf headers")
	[[ -e /usr/include/zlib.h ]] || missing+=("zlib headers")
	if ((${#missing[@]} == 0)); then
		say ok "every tool and header found"
		return
	fi
	printf 'setup.sh: this is neither Debian nor Ubuntu; missing here:'
	printf ' [%s]' "${missing[@]}"
	cat <<-'END'

		needed            Fedora                    Arch
		clang 15-22       clang                     clang
		clang-format 18+  clang-tools-extra         clang
		libFuzzer         compiler-rt               compiler-rt
		C compiler, make  gcc make                  base-devel
		pkg-config        pkgconf-pkg-config        pkgconf
		libelf            elfutils-libelf-devel     libelf
		zlib              zlib-ng-compat-devel      zlib
		iproute2          iproute iproute-tc        iproute2
		iperf3            iperf3                    iperf3
		prometheus        prometheus                prometheus
		tcpdump           tcpdump                   tcpdump
		tshark            wireshark-cli             wireshark-cli
		nft               nftables                  nftables
		nats-server       nats-server               nats-server
		openssl           openssl                   openssl
		dbus-daemon       dbus-daemon               dbus
		python-dbusmock   python3-dbusmock          python-dbusmock
		chromium          chromium-headless         chromium
		QEMU              qemu-system-x86-core      qemu-system-x86
		musl-gcc          musl-gcc                  musl
		rpm               rpm                       rpm-tools
		systemd-analyze   systemd                   systemd
		just              just                      just
		Install these (no service needs to run), then run ./setup.sh again.
	END
	exit 1
}

# --- packages -------------------------------------------------------------------------------------------------------

cleanup() {
	if $policy_is_ours; then "${as_root[@]}" rm -f "$POLICY"; fi
	if [[ -n $log ]]; then rm -f "$log"; fi
}

need_root() {
	((EUID == 0)) && return
	have sudo || die "not root and no sudo; as root run: apt-get install $*"
	as_root=(sudo)
}

apt_get() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1; }

# Installing these packages starts a server and enables it at boot; setup.sh prevents both.
readonly SERVERS=(prometheus nats-server)

forbid_services() {
	[[ -e $POLICY ]] && return
	policy_is_ours=true
	printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$POLICY" >/dev/null
	"${as_root[@]}" chmod 755 "$POLICY"
}

silence() {
	local server=$1
	"${as_root[@]}" deb-systemd-helper disable "$server.service" >>"$log" 2>&1 || true
	"${as_root[@]}" update-rc.d "$server" disable >>"$log" 2>&1 || true
	if [[ -d /run/systemd/system ]]; then
		"${as_root[@]}" systemctl disable --now "$server.service" >>"$log" 2>&1 || true
	fi
}

install_packages() {
	local clang missing package server wanted=() servers=()
	clang=$(pick_clang) || clang=$PREFERRED_CLANG
	missing=$(missing_packages "$clang")
	if [[ -z $missing ]]; then
		say ok "packages, clang-$clang among them"
		return
	fi
	if $check_only; then
		# what apt does not offer cannot be installed; if it is optional, only some tests need it
		missing=$(for package in $missing; do
			if [[ ! $package =~ ^($OPTIONAL)$ ]] || offered "$package"; then echo "$package"; fi
		done)
		if [[ -z $missing ]]; then
			say ok "packages that apt offers, clang-$clang among them"
			return
		fi
		say missing "${missing//$'\n'/ }"
		incomplete=true
		return
	fi
	# shellcheck disable=SC2086  # one word per package
	need_root $missing
	say update "package lists"
	apt_get update || say note "apt-get update failed in part; trying with the lists there are"
	clang=$(pick_clang) || die "apt offers no clang from 15 to 22: add a source that has one (Debian 12, Ubuntu 22.04 and later do)"
	for package in $(missing_packages "$clang"); do
		if offered "$package"; then
			wanted+=("$package")
		elif [[ $package =~ ^($OPTIONAL)$ ]]; then
			say note "apt offers no $package; what uses it will be skipped"
		else
			die "apt offers no $package"
		fi
	done
	((${#wanted[@]})) || return 0
	say install "${wanted[*]}"
	for server in "${SERVERS[@]}"; do
		if [[ " ${wanted[*]} " == *" $server "* ]]; then servers+=("$server"); fi
	done
	if ((${#servers[@]})); then forbid_services; fi
	if ! apt_get install -y --no-install-recommends "${wanted[@]}"; then
		tail -n 20 "$log" >&2
		die "apt-get install failed (its last lines are above)"
	fi
	for server in "${servers[@]}"; do silence "$server"; done
	say ok "packages, clang-$clang among them"
}

# --- just -----------------------------------------------------------------------------------------------------------

# Succeeds if just is installed. Sets just_dir to its directory if that is not in PATH.
find_just() {
	local dir
	just_dir=
	have just && return
	for dir in "${CARGO_HOME:-$HOME/.cargo}/bin" "$HOME/.local/bin"; do
		if [[ -x $dir/just ]]; then
			just_dir=$dir
			return
		fi
	done
	return 1
}

install_just() {
	if ! find_just; then
		if $check_only; then
			say missing just
			incomplete=true
			return
		fi
		say build "just, with cargo (some minutes)"
		cargo install just --locked >>"$log" 2>&1 || pip_install_just || {
			tail -n 20 "$log" >&2
			die "could not install just (the last lines are above); see just.systems for other ways"
		}
		hash -r
		find_just || die "just was installed, but not in a place known here; add it to PATH"
	fi
	if [[ -n $just_dir ]]; then
		say missing "$just_dir on PATH, where just is: export PATH=\"$just_dir:\$PATH\""
		incomplete=true
	else
		say ok "$(just --version)"
	fi
}

pip_install_just() {
	say note "cargo could not build just; trying the Python wheel"
	if have pipx; then
		pipx install rust-just >>"$log" 2>&1
	else
		PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --user rust-just >>"$log" 2>&1
	fi
}

# --- bpffs ----------------------------------------------------------------------------------------------------------

mount_bpffs() {
	if [[ $(stat -f -c %T "$BPFFS" 2>/dev/null) == bpf_fs ]]; then
		if (($(stat -c 0%a "$BPFFS") & 0022)) && ((EUID == 0)) && ! $check_only; then
			chmod 0755 "$BPFFS" # hotcc refuses one that other users can write to
		fi
		say ok "bpffs at $BPFFS"
	elif ((EUID != 0)); then
		say note "no bpffs at $BPFFS; as root: mount -t bpf -o mode=0755 bpf $BPFFS"
	elif $check_only; then
		say missing "bpffs at $BPFFS"
		incomplete=true
	elif mount -t bpf -o mode=0755 bpf "$BPFFS" 2>>"$log"; then
		say mount "bpffs at $BPFFS"
	else
		say note "cannot mount bpffs at $BPFFS ($(tail -n1 "$log")); tests on the real kernel need it"
	fi
}

main() {
	local option
	for option in "$@"; do
		case $option in
		--check) check_only=true ;;
		--minimal) minimal=true ;;
		-h | --help)
			sed -n '2,7s/^# \{0,1\}//p' setup.sh
			exit 0
			;;
		*)
			echo "usage: ./setup.sh [--check] [--minimal]" >&2
			exit 2
			;;
		esac
	done
	PATH=$PATH:/usr/sbin:/sbin
	trap cleanup EXIT
	trap 'exit 130' INT TERM HUP

	need_rust_command
	need_rust_version
	log=$(mktemp)
	if is_debian; then
		install_packages
		if ! $minimal; then install_just; fi
	else
		other_distribution
	fi
	mount_bpffs
	if $incomplete; then
		say stop "not complete: see the lines 'missing' above"
		exit 1
	fi
	if $minimal; then
		say ready "next: cargo build --release -p hotcc -p sinr-feeder -p pep-agent"
		return
	fi
	say ready "next: 'just demo' shows it at work, 'just test' runs the tests (as root those on the kernel too)"
}

main "$@"
