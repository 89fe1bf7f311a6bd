#!/bin/sh
# Builds the libFuzzer program of one algorithm: build-fuzzer.sh CLANG NAME SOURCE.bpf.c PROGRAM
set -eu
here=$(dirname "$0")
bpf=$here/../../../bpf
stand_ins=$here/../../host-algo/host
exec "$1" -g -O1 -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Werror \
	-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
	"-DHOTCC_ALGO_FILE=\"$3\"" "-DHOTCC_ALGO=$2" \
	-I "$stand_ins" -I "$bpf/include" -I "$bpf" "$here/fuzz.c" -o "$4"
