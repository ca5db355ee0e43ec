#!/usr/bin/env bash
# Installs the Debian packages that are missing. Says nothing, asks nothing
# and touches no network when none is. Those that only turn something on are
# done without where they cannot be had.
#
# usage: install-deps.sh build | package | package-arm64 | check
set -euo pipefail

build="gcc libc6-dev meson ninja-build pkg-config llvm-19-dev zlib1g-dev libcjson-dev"
optional="libsqlite3-dev libpci-dev libsodium-dev opencl-c-headers
    libpng-dev libturbojpeg0-dev"
check="$build g++ libcmocka-dev libonnx-testdata libopenblas-dev clang-format-14 binutils ocl-icd-libopencl1 pocl-opencl-icd"
# A program that stands for each package, where one does: what is here by
# another way than apt need not be installed.
declare -A program=([gcc]=gcc [g++]=g++ [meson]=meson [ninja-build]=ninja
    [pkg-config]=pkg-config [llvm-19-dev]=llvm-config-19 [binutils]=nm
    [clang-format-14]=clang-format-14 [chromium]=chromium
    [gcc-aarch64-linux-gnu]=aarch64-linux-gnu-gcc [qemu-user-static]=qemu-aarch64-static)
declare -A module=([zlib1g-dev]=zlib [libcjson-dev]=libcjson [libcmocka-dev]=cmocka
    [libopenblas-dev]=openblas [libsqlite3-dev]=sqlite3 [libpci-dev]=libpci
    [libsodium-dev]=libsodium [libpng-dev]=libpng [libturbojpeg0-dev]=libturbojpeg)

installed() {
    if command -v dpkg-query >/dev/null; then
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
    elif [ -n "${program[$1]:-}" ]; then
        command -v "${program[$1]}" >/dev/null
    elif [ -n "${module[$1]:-}" ]; then
        pkg-config --exists "${module[$1]}"
    else
        true
    fi
}

case "${1:-}" in
build) wanted=$build ;;
package) wanted="$build $optional debhelper dpkg-dev python3-dev" optional="" ;;
package-arm64) # the libraries that are linked are another matter
    wanted="gcc libc6-dev meson ninja-build pkg-config debhelper dpkg-dev
        gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static"
    optional=""
    ;;
check)
    wanted=$check
    # look at the pages of reports, at documents, metrics and manuals; make packages
    # and the site
    optional="$optional chromium python3-dev python3-numpy python3-jsonschema
        python3-prometheus-client mandoc debhelper dpkg-dev doxygen mkdocs mkdocs-material
        musl-tools cpio openssl"
    ;;
*)
    echo "usage: $0 build | package | package-arm64 | check" >&2
    exit 2
    ;;
esac

missing=()
for package in $wanted; do
    installed "$package" || missing+=("$package")
done
extra=()
for package in $optional; do
    installed "$package" || extra+=("$package")
done
[ ${#missing[@]} -gt 0 ] || [ ${#extra[@]} -gt 0 ] || exit 0

stop() {
    if [ ${#missing[@]} -eq 0 ]; then
        echo "$1 Going on without ${extra[*]}." >&2
        exit 0
    fi
    echo "$1" >&2
    echo "Needed and not installed: ${missing[*]}" >&2
    echo "On Debian 12: apt-get install ${missing[*]}" >&2
    exit 1
}

command -v apt-get >/dev/null || stop "This system has no apt-get."
root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || stop "Neither root nor sudo here."
    root=(sudo)
    # Without a terminal nobody can type a password.
    [ -t 0 ] || root=(sudo -n)
fi
apt() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null
}
install() {
    apt install -y --no-install-recommends "$@"
}
echo "Installing ${missing[*]} ${extra[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The lists may be recent enough; a bare image has none at all.
if ! install "${missing[@]}" "${extra[@]}" >"$log" 2>&1 &&
    ! { apt update && install "${missing[@]}" "${extra[@]}"; } >"$log" 2>&1 &&
    ! { [ ${#missing[@]} -gt 0 ] && install "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    stop "apt-get failed."
fi
