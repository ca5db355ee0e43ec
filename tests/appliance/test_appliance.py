#!/usr/bin/env python3
"""The driver half alone: it needs the C library and nothing else, it is
small, and a program of it runs.

usage: test_appliance.py ARCHIVE PROGRAM --cc COMPILER --drivers NAME...
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'structure'))
from common import Tap  # noqa: E402

LIMIT_BYTES = 400 * 1024  # with one card's driver
# Made by the linker, or the loader's; no library's.
NOT_LIBC = {'_GLOBAL_OFFSET_TABLE_', '__tls_get_addr'}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True,
                          check=True).stdout


def names(*nm):
    """Symbols without their versions."""
    return {line.split()[-1].split('@')[0]
            for line in output(*nm).splitlines() if len(line.split()) > 1}


def check_needs(tap, archive, compiler):
    libc = output(*compiler, '-print-file-name=libc.so.6').strip()
    own = output(*compiler, '-print-libgcc-file-name').strip()
    wanted = names('nm', '-u', archive) - names('nm', '--defined-only', archive)
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('archive')
    parser.add_argument('program')
    parser.add_argument('--cc', required=True)
    parser.add_argument('--drivers', nargs='+', required=True)
    options = parser.parse_args()
    tap = Tap()
    n_cards = len(set(options.drivers) - {'cpu'})
    check_needs(tap, options.archive, options.cc.split())
    tap.check('the program needs the C library alone', [
        f'needs {n}' for n in needed(options.program)
        if not n.startswith(('libc.so', 'ld-linux'))])
    print(f'# members: {loaded_bytes(options.archive)} bytes loaded')
    with tempfile.TemporaryDirectory() as folder:
        path = whole(options.cc, options.archive, folder)
        check_size(tap, 'all of it, stripped', os.path.getsize(path),
                   n_cards)
    check_size(tap, 'the program, stripped', os.path.getsize(options.program),
               n_cards)
    check_runs(tap, options.program, options.drivers)
    tap.finish()


if __name__ == '__main__':
    main()
