#!/usr/bin/env bash
# Makes DIR for builds with musl-gcc (Debian: musl-tools, linux-libc-dev): the
# kernel's headers, which musl does not bring, and a file for
# `meson setup --native-file DIR/musl.ini`.
#
# usage: musl.sh DIR
set -euo pipefail
dir=$(realpath -m "$1")
mkdir -p "$dir/include"
triplet=$(gcc -print-multiarch)
for name in linux asm-generic; do
    ln -sfn "/usr/include/$name" "$dir/include/$name"
done
asm=/usr/include/$triplet/asm
[ -d "$asm" ] || asm=/usr/include/asm
ln -sfn "$asm" "$dir/include/asm"
cat >"$dir/musl.ini.new" <<INI
[binaries]
c = 'musl-gcc'
ar = 'gcc-ar'

[built-in options]
c_args = ['-isystem', '$dir/include']
INI
mv "$dir/musl.ini.new" "$dir/musl.ini"
