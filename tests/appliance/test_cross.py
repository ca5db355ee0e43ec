#!/usr/bin/env python3
"""The driver half alone, built for another processor: its runner is static and
small, and runs a bundle that was made for that kind of processor elsewhere.

usage: test_cross.py RUNNER BUNDLE [EMULATOR...]   EMULATOR: words before RUNNER
"""
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'structure'))
from common import Tap  # noqa: E402

RUNNER_BYTES = 1312 * 1024  # of AArch64: all drivers, no signatures
PT_INTERP = 3


def segment_types(path):
    with open(path, 'rb') as file:
        data = file.read()
    at, = struct.unpack_from('<Q', data, 32)
    size, count = struct.unpack_from('<HH', data, 54)
    return [struct.unpack_from('<I', data, at + i * size)[0]
            for i in range(count)]


def main():
    runner, bundle, *emulator = sys.argv[1:]
    tap = Tap()
    n_bytes = os.path.getsize(runner)
    print(f'# {os.path.basename(runner)}: {n_bytes} bytes, '
          f'{n_bytes / 1024:.0f} KiB')
    tap.check(f'the runner: at most {RUNNER_BYTES // 1024} KiB',
              [f'{n_bytes} bytes'] if n_bytes > RUNNER_BYTES else [])
    tap.check('the runner is static', ['it names a loader']
              if PT_INTERP in segment_types(runner) else [])
    with tempfile.TemporaryDirectory() as folder:
        given, got = os.path.join(folder, 'x'), os.path.join(folder, 'out')
        with open(given, 'wb') as file:
            file.write(struct.pack('<32f', *range(32)))
        done = subprocess.run(
            [*emulator, runner, bundle, '--device', 'CPU', '--in', f'x={given}',
             '--out', f'out={got}'],
            capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            complaints = [done.stderr]
        else:
            with open(got, 'rb') as file:
                result = struct.unpack('<32f', file.read())
            complaints = [f'{i}: {value}, not {i + i % 5}'
                          for i, value in enumerate(result)
                          if value != i + i % 5]
    tap.check('a bundle on the CPU', complaints)
    tap.finish()


if __name__ == '__main__':
    main()
