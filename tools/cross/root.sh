#!/usr/bin/env bash
# Unpacks into DIR the arm64 libraries that a cross-build links and that its
# programs load, and says where in DIR/root.ini, for meson. DIR/var/lib/dpkg
# says which package has which file, for dpkg-shlibdeps. Uses apt's sources but a
# state of its own: the packages of this system stay as they are, and no rights
# are needed.
#
# usage: root.sh DIR
set -euo pipefail
packages="libc6-dev libgcc-s1 libllvm19 zlib1g-dev libcjson-dev libcmocka-dev
    libsqlite3-dev libpci-dev libsodium-dev opencl-c-headers"
dir=${1:?usage: $0 DIR}
[ "$(cat "$dir/.packages" 2>/dev/null)" != "$packages" ] || exit 0

rm -rf "$dir"
mkdir -p "$dir"
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state"/lists/partial "$state"/archives/partial
: >"$state/status"
apt() {
    apt-get -qq -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
        -o Dir::State="$state" -o Dir::State::status="$state/status" \
        -o Dir::Cache="$state" -o Debug::NoLocking=1 \
        -o Acquire::Languages=none -o Acquire::Retries=0 \
        -o Acquire::http::Timeout=10 -o APT::Sandbox::User= "$@" </dev/null
}
apt update
# shellcheck disable=SC2086 # names without blanks
apt install --download-only --no-install-recommends $packages
# dpkg's records of what is unpacked: names of files begin with DIR's, which
# dpkg takes for any other folder.
records=$dir/var/lib/dpkg
mkdir -p "$records"/info "$records"/updates
echo 1 >"$records/info/format" # names of files have the architecture
record() {
    local base name root
    name=$(dpkg-deb -f "$1" Package)
    root=$(realpath "$dir")
    base=$records/info/$name
    [ "$(dpkg-deb -f "$1" Multi-Arch)" != same ] || base=$base:arm64
    dpkg-deb --fsys-tarfile "$1" | tar t | sed -n "s|^\.\(/.*[^/]\)/*$|$root\1|p" \
        >"$base.list"
    dpkg-deb -I "$1" symbols >"$base.symbols" 2>/dev/null || rm "$base.symbols"
    dpkg-deb -I "$1" shlibs >"$base.shlibs" 2>/dev/null || rm "$base.shlibs"
    dpkg-deb -f "$1" | sed "1a Status: install ok installed" >>"$records/status"
    echo >>"$records/status"
}
for package in "$state"/archives/*.deb; do
    dpkg-deb -x "$package" "$dir"
    record "$package"
done
# Links to absolute names leave the directory.
find "$dir" -lname '/*' | while read -r link; do
    ln -sfn "$(realpath -ms --relative-to="$(dirname "$link")" \
        "$dir$(readlink "$link")")" "$link"
done
printf "[constants]\nroot = '%s'\n" "$(realpath "$dir")" >"$dir/root.ini"
echo "$packages" >"$dir/.packages"
