# List the recipes.
default:
    @just --list

# Install what is missing on this machine (system packages, just).
setup:
    ./setup.sh

# Build everything, optimised.
build:
    cargo build --release --workspace

# Check an edit: formatting, clippy, and tests without root or a virtual machine (units, manual, structure).
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --workspace --lib --bins --test docs --test structure

# Run all tests; tests on the real kernel need root and print SKIPPED without it.
test *args:
    #!/usr/bin/env bash
    set -uo pipefail
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if [[ -t 1 ]]; then export CARGO_TERM_COLOR=always; fi
    # All but the lab's tests mostly wait. So the lab's virtual machines run beside them, with what they leave idle.
    apart=
    if [[ -z "{{ args }}" ]] && cargo test --workspace --no-run; then
        apart="--skip stock_kernels::"
        set -m
        chrt --idle 0 cargo test --workspace --test in_lab -- --show-output >"$log.lab" 2>&1 &
        lab=$!
        trap 'kill -- -$lab 2>/dev/null; rm -f "$log" "$log.lab"' EXIT
    fi
    cargo test --workspace {{ args }} -- --show-output $apart 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    if [[ -n $apart && $status == 0 ]]; then
        wait "$lab" || status=$?
        tee -a "$log" <"$log.lab"
    fi
    mapfile -t skipped < <(sed -n 's/^SKIPPED //p' "$log" | sort -u)
    if ((EUID == 0)); then who="as root"; else who="not root: 'sudo -E env PATH=\"\$PATH\" just test' runs them"; fi
    echo "kernel tests skipped: ${#skipped[@]} ($who)"
    if ((${#skipped[@]})); then printf '  %s\n' "${skipped[@]}"; fi
    exit "$status"

# Check formatting, clippy, docs and shell scripts; warnings are errors.
lint: && (clang-format "--dry-run" "-Werror") shellcheck
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Format Rust and C in place.
fmt: && (clang-format "-i")
    cargo fmt --all

# Run the demo: crest beside bbr, cubic and dtcp on a link whose rate changes, then tune and swap under running traffic.
demo *args: build
    cargo run --release -p hotcc-demo --bin hotcc-demo -- {{ args }}

# Measure what the programs cost.
bench *args: build
    cargo run --release -p hotcc-micro --bin hotcc-microbench -- {{ args }}

# Needs the recorded traces (docs/reference/traces.md).
# Rank every congestion control on recorded links, and write docs/scoreboard.md: --quick simulates, --only cc,... chooses.
scoreboard *args: build
    target/release/hotcc-bench scoreboard --page docs/scoreboard.md --kernel-case link=verizon --kernel-case link=umts \
        --kernel-case link=drive-5 {{ args }} bench/scenarios/scoreboard*.toml

# Needs the recorded traces, too.
# Repeat a random tenth of the scoreboard's runs on the kernel, and write to docs/scoreboard.md whether all bytes agree.
repeat-scoreboard *args: build
    target/release/hotcc-bench repeat --page docs/scoreboard.md {{ args }} bench/scenarios/scoreboard.toml

# Simulate every congestion control under the criteria of RFC 9743, and write docs/dossier.md.
dossier *args: build
    target/release/hotcc-bench dossier --sim --page docs/dossier.md {{ args }} bench/scenarios/dossier-*.toml

# Simulate the connections from which the canary's tests draw, and write them to crates/canary/tests (needs jq).
canary-flows: build
    #!/usr/bin/env bash
    set -euo pipefail
    mkdir -p lab-results
    target/release/hotcc-bench lab --sim --json --out lab-results crates/canary/tests/recorded.toml > lab-results/recorded.json
    { echo "# just canary-flows"; jq -r -f crates/canary/tests/recorded.jq lab-results/recorded.json; } \
        > crates/canary/tests/recorded.csv

# Load, swap and unload every algorithm on stock kernels, in virtual machines (default: all supported).
matrix *kernels: build
    cargo run --release -p hotcc-bench --bin hotcc-bench -- matrix {{ kernels }}

# Build the programs for arm64. Then kernels such as 6.12-arm64 can be used, too: just matrix 6.12-arm64
build-arm64:
    bench/arm64.sh

# Count the instructions that algorithms take for each ACK, in a virtual machine (default: Linux 6.12).
cost *args: build
    cargo run --release -p hotcc-bench --bin hotcc-bench -- cost {{ args }}

# Run scenarios in the lab and write their reports: just lab bench/scenarios/dtcp-lte-loss.toml
lab *args: build
    cargo run --release -p hotcc-bench --bin hotcc-bench -- lab {{ args }}

# Run the scenarios that docs/algorithms/figures/NAME.md names, and put their figures into that page: just figures dtcp
figures name kernels="6.12 newest" *args: build
    #!/usr/bin/env bash
    set -euo pipefail
    page="docs/algorithms/figures/{{ name }}.md"
    scenarios() { sed -n 's|^<!-- figures: \([a-z0-9-]*\).* -->$|bench/scenarios/\1.toml|p' | sort -u; }
    mapfile -t measured < <(grep -v ' simulated' "$page" | scenarios)
    mapfile -t simulated < <(grep ' simulated' "$page" | scenarios)
    # if a run fails, go on: the page names invalid runs
    if ((${#measured[@]})); then
        for kernel in {{ kernels }}; do
            target/release/hotcc-bench lab --lab "vm:$kernel" {{ args }} "${measured[@]}" || true
        done
    fi
    if ((${#simulated[@]})); then
        target/release/hotcc-bench lab --sim {{ args }} "${simulated[@]}" || true
    fi
    target/release/hotcc-bench figures "$page"

# The gates of crest need the recorded traces (docs/reference/traces.md).
# Run an algorithm's gates, and put their table into its page of figures; takes hours in the lab, minutes with --sim.
gates name *args: build
    target/release/hotcc-bench gates --page "docs/algorithms/figures/{{ name }}.md" {{ args }} bench/scenarios/{{ name }}-*.toml

# Fuzz one algorithm, until interrupted or for a given time (s): just fuzz dtcp -max_total_time=600
fuzz name *options:
    #!/usr/bin/env bash
    set -euo pipefail
    mkdir -p "target/fuzz/{{ name }}/corpus"
    clang=$(command -v ${HOTCC_CLANG:-} clang-{19,22,21,20,18,17,16,15} clang | head -n 1) ||
        { echo "no clang 15 or later found: run ./setup.sh" >&2 && exit 1; }
    crates/cc-tests/host/build-fuzzer.sh "$clang" "{{ name }}" "$PWD/bpf/algos/{{ name }}.bpf.c" "target/fuzz/{{ name }}/fuzz"
    cd "target/fuzz/{{ name }}" && ./fuzz -max_len=4096 {{ options }} corpus

# Run scenarios, and one case in ten of wide grids, in the simulator and on Linux 6.12, and write to
# docs/reference/simulator.md how far the results differ.
validate scenarios="bench/scenarios/dtcp-lte-loss.toml bench/scenarios/dtcp-intra-fairness.toml bench/scenarios/recorded-link.toml bench/scenarios/scoreboard.toml" grids="bench/scenarios/signal-age.toml bench/scenarios/capacity-age.toml bench/scenarios/queues.toml bench/scenarios/dossier-*.toml": build
    #!/usr/bin/env bash
    set -euo pipefail
    scenarios=({{ scenarios }}) grids=({{ grids }}) results=()
    # a limit that does not hold does not stop the comparison
    for backend in --sim --lab=vm; do
        if ((${#scenarios[@]})); then target/release/hotcc-bench lab $backend --one-seed "${scenarios[@]}" || true; fi
        if ((${#grids[@]})); then target/release/hotcc-bench lab $backend --one-in 10 "${grids[@]}" || true; fi
    done
    for scenario in "${scenarios[@]}" "${grids[@]}"; do results+=("lab-results/$(basename "$scenario" .toml)"); done
    target/release/hotcc-bench validate --page docs/reference/simulator.md "${results[@]}"

# Run tests at length, also some that `just test` leaves out, and record the results in docs/reference/soak.md.
soak *args: build
    target/release/hotcc-bench soak {{ args }}

# Make the .debs, the .rpms and SHA256SUMS in target/package: static programs, manual pages, completions, units.
package:
    deploy/package.sh

# Install, upgrade and purge the packages: in clean Debians, and in a virtual machine with systemd, as the manual says; run
# the image.
test-package:
    cargo test --workspace --test package --test installed --test container -- --include-ignored --show-output

# Build the container image localhost/hotcc of the static programs.
image: package
    podman build --tag localhost/hotcc --file deploy/container/Containerfile "${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-musl/release"

# Remove everything that was built.
clean:
    cargo clean

# The configuration needs clang-format 18 or later; the sources are formatted with 19, so 19 is tried first.
[private]
clang-format *options:
    #!/usr/bin/env bash
    set -euo pipefail
    for tool in clang-format-{19,22,21,20,18} clang-format; do
        command -v "$tool" >/dev/null || continue
        version=$("$tool" --version | sed 's/.*version \([0-9]*\).*/\1/')
        ((version >= 18)) || continue
        echo "$tool {{ options }} (bpf/**/*.[ch], crates/*/host/*.[ch])"
        find bpf crates/cc-tests crates/host-algo -name '*.[ch]' -print0 | xargs -0 "$tool" {{ options }}
        exit
    done
    echo "no clang-format 18 or later found: run ./setup.sh" >&2
    exit 1

[private]
shellcheck:
    #!/usr/bin/env bash
    set -euo pipefail
    if command -v shellcheck >/dev/null; then
        find . -path ./target -prune -o -name '*.sh' -print0 | xargs -0 shellcheck .ci/run deploy/debian/* deploy/rpm/*
    else
        echo "shellcheck is not installed: shell scripts were not checked"
    fi
