#!/usr/bin/env python3
"""The driver half alone: it needs the C library and nothing else, it is
small, and a program of it runs.

usage: test_appliance.py ARCHIVE PROGRAM RUNNER BUNDLE --cc COMPILER
                         --drivers NAME... [--signatures]
"""
import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'structure'))
from common import Tap, hardening_complaints  # noqa: E402

LIMIT_BYTES = 448 * 1024  # with one card's driver, collectives too
# The C library's share is some 780 KiB, 17 of them for being loaded anywhere.
RUNNER_BYTES = 1136 * 1024  # for CPU, NVIDIA and AMD
ADRENO_BYTES = 64 * 1024    # beside them
SIGNATURE_BYTES = 216 * 1024  # libsodium's tables for Ed25519, and its start
MUSL_BYTES = 480 * 1024  # the same with musl
RUNNER_RSS_KIB = 8 * 1024
# Made by the linker, or the loader's; no library's.
NOT_LIBC = {'_GLOBAL_OFFSET_TABLE_', '__tls_get_addr'}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True,
                          check=True).stdout


def names(*nm):
    """Symbols without their versions."""
    return {line.split()[-1].split('@')[0]
            for line in output(*nm).splitlines() if len(line.split()) > 1}


def musl_folder(compiler):
    """Where musl's library is, if that is what the compiler links."""
    done = subprocess.run([*compiler, '-###', '-x', 'c', '/dev/null', '-o',
                           '/dev/null'], capture_output=True, text=True,
                          check=True)
    start = [word for word in done.stderr.split() if word.endswith('/crti.o')]
    folder = os.path.dirname(start[0]) if start else ''
    return folder if 'musl' in folder else None


def check_needs(tap, archive, compiler):
    own = output(*compiler, '-print-libgcc-file-name').strip()
    wanted = names('nm', '-u', archive) - names('nm', '--defined-only', archive)
    musl = musl_folder(compiler)
    if musl:
        offered = names('nm', '--defined-only', os.path.join(musl, 'libc.a'))
    else:
        libc = output(*compiler, '-print-file-name=libc.so.6').strip()
        offered = names('nm', '-D', '--defined-only', libc)
    offered |= names('nm', '--defined-only', own)  # the compiler's, static
    tap.check('the archive needs symbols of the C library alone',
              sorted(f'undefined: {name}'
                     for name in wanted - offered - NOT_LIBC))


def check_size(tap, name, n_bytes, n_cards):
    limit = LIMIT_BYTES * max(n_cards, 1)
    print(f'# {name}: {n_bytes} bytes, {n_bytes / 1024:.0f} KiB')
    tap.check(f'{name}: at most {limit // 1024} KiB',
              [f'{n_bytes} bytes'] if n_bytes > limit else [])


def loaded_bytes(path):
    """Text, data and bss of an archive's members or a program."""
    rows = [line.split() for line in output('size', path).splitlines()[1:]]
    return sum(int(row[3]) for row in rows)


def whole(compiler, archive, folder):
    """A shared object of everything in the archive, stripped: what a user who
    calls every function links in."""
    path = os.path.join(folder, 'whole.so')
    output(*compiler.split(), '-shared', '-s', '-o', path,
           '-Wl,--whole-archive', archive, '-Wl,--no-whole-archive')
    return path


def needed(path):
    return [line.split('[')[1].rstrip(']')
            for line in output('readelf', '-d', path).splitlines()
            if '(NEEDED)' in line]


def check_runs(tap, program, drivers):
    """On the CPU if that is built in; else a card that is absent is told."""
    name = 'CPU' if 'cpu' in drivers else drivers[0].upper()
    done = subprocess.run([program, name], capture_output=True, text=True,
                          timeout=60, check=False)
    good = done.returncode == 0 and '0x600d' in done.stdout
    absent = name != 'CPU' and done.returncode == 3 and name in done.stderr
    tap.check(f'a program with {name}', [] if good or absent else [
        f'exit code {done.returncode}: {done.stdout}{done.stderr}'])


def check_runner(tap, runner, bundle, drivers, is_musl, has_signatures):
    """doorbell-run is static, small, and runs a bundle on the CPU."""
    size = os.path.getsize(runner)
    print(f'# {os.path.basename(runner)}: {size} bytes, {size / 1024:.0f} KiB')
    limit = MUSL_BYTES if is_musl else RUNNER_BYTES
    if {'nv', 'amd', 'qcom'} <= set(drivers):
        limit += ADRENO_BYTES
    if has_signatures:
        limit += SIGNATURE_BYTES
    tap.check(f'the runner: at most {limit // 1024} KiB',
              [f'{size} bytes'] if size > limit else [])
    tap.check('the runner is static', [f'needs {n}' for n in needed(runner)])
    tap.check('the runner is hardened', hardening_complaints(runner, True))
    if 'cpu' not in drivers or os.uname().machine != 'x86_64':
        tap.skip('a bundle on the CPU', 'no x86-64 CPU driver')
        return
    x = struct.pack('<32f', *range(32))
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in 'xy']
        with open(paths[0], 'wb') as file:
            file.write(x)
        zero = struct.pack('<32f', *[0] * 32)
        with open(paths[1], 'wb') as file:
            file.write(zero)
        outs = []
        for path in paths:
            done = subprocess.run(
                [runner, bundle, '--device', 'CPU', '--in', f'x={path}',
                 '--out', f'out={path}.out'],
                capture_output=True, text=True, timeout=60, check=False)
            if done.returncode:
                tap.check('a bundle on the CPU', [done.stderr])
                return
            with open(path + '.out', 'rb') as file:
                outs.append(struct.unpack('<32f', file.read()))
        kib = resident_kib([runner, bundle, '--device', 'CPU', '--in',
                            f'x={paths[0]}', '--times', '1000000000'])
    # x + w and 0 + w, rounded: w is about 1, x up to 31
    tap.check('a bundle on the CPU', [
        f'{i}: {a} is not {i} + {b}' for i, (a, b) in enumerate(zip(*outs))
        if abs(a - b - i) > 1e-5])
    made = output(runner, bundle, '--device', 'CPU', '--in', 'x=4x8')
    tap.check('values for a shape', [made] if made.count(' ') < 9 else [])
    print(f'# the runner: {kib} KiB resident')
    tap.check(f'the runner: at most {RUNNER_RSS_KIB} KiB resident',
              [f'{kib} KiB'] if kib > RUNNER_RSS_KIB else [])


def resident_kib(command):
    """The most that a program which is stopped after a while has had."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        time.sleep(0.5)
        with open(f'/proc/{process.pid}/status', encoding='utf-8') as file:
            peak = [line for line in file if line.startswith('VmHWM')]
        process.kill()
    return int(peak[0].split()[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('archive')
    parser.add_argument('program')
    parser.add_argument('runner')
    parser.add_argument('bundle')
    parser.add_argument('--cc', required=True)
    parser.add_argument('--drivers', nargs='+', required=True)
    parser.add_argument('--signatures', action='store_true')
    options = parser.parse_args()
    tap = Tap()
    n_cards = len(set(options.drivers) - {'cpu'})
    check_needs(tap, options.archive, options.cc.split())
    tap.check('the program needs the C library alone', [
        f'needs {n}' for n in needed(options.program)
        if not n.startswith(('libc.so', 'ld-linux', 'libc.musl'))])
    print(f'# members: {loaded_bytes(options.archive)} bytes loaded')
    with tempfile.TemporaryDirectory() as folder:
        path = whole(options.cc, options.archive, folder)
        check_size(tap, 'all of it, stripped', os.path.getsize(path),
                   n_cards)
    check_size(tap, 'the program, stripped', os.path.getsize(options.program),
               n_cards)
    check_runs(tap, options.program, options.drivers)
    check_runner(tap, options.runner, options.bundle, options.drivers,
                 musl_folder(options.cc.split()), options.signatures)
    tap.finish()


if __name__ == '__main__':
    main()
