#!/usr/bin/env python3
"""Sorting on simulated cards, whose kernels have a row's keys in memory that
threads share: stable, NaN the greatest, of rows that fit and of longer ones;
the same kernels on the host; how many kernels there are.

usage: test_sort.py DOORBELL DEVICE...
"""
import math
import os
import random
import struct
import sys
import tempfile

from cli import Tap, expect, run


def save(path, code, rows):
    kind = {'f': '<f4', 'q': '<i8'}[code]
    header = (f"{{'descr': '{kind}', 'fortran_order': False, "
              f"'shape': ({len(rows)}, {len(rows[0])}), }}")
    header += ' ' * (-(11 + len(header)) % 64) + '\n'
    with open(path, 'wb') as file:
        file.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) +
                   header.encode())
        for row in rows:
            file.write(struct.pack(f'<{len(row)}{code}', *row))


def load(path):
    with open(path, 'rb') as file:
        data = file.read()
    data = data[10 + struct.unpack_from('<H', data, 8)[0]:]
    return list(struct.unpack(f'<{len(data) // 8}q', data))


def rows_of(rng, code, n_rows, n):
    """With many equal ones."""
    if code == 'q':
        return [[rng.choice((rng.randrange(-2**62, 2**62),
                             rng.randrange(-4, 4))) for _ in range(n)]
                for _ in range(n_rows)]
    few = (0.0, -0.0, math.inf, -math.inf, math.nan, 0.5, -2.25)
    return [[rng.choice((rng.choice(few), rng.randrange(n) / 8))
             for _ in range(n)] for _ in range(n_rows)]


def order(row, descending=False):
    """NaN is the greatest, in either direction."""
    sign = -1 if descending else 1
    keys = [(sign, 0) if math.isnan(x) else (0, sign * x) for x in row]
    return sorted(range(len(row)), key=keys.__getitem__)


def wanted(rows):
    up, down = [order(row) for row in rows], [order(row, True) for row in rows]
    across = [order(column) for column in zip(*rows)]
    return {
        'argsort(x)': sum(up, []),
        'argsort(x, -1, True)': sum(down, []),
        'argsort(x, 0)': [at[i] for i in range(len(rows)) for at in across],
        'argsort(x) & 255': [i & 255 for i in sum(up, [])],
        'topk(x, 17)[1]': sum((at[:17] for at in down), []),
        'topk(x, 1, -1, False)[1]': [at[0] for at in up],
    }


def check_orders(tap, folder, devices):
    rng = random.Random(8)
    x, out, bundle = (os.path.join(folder, name)
                      for name in ('x.npy', 'out.npy', 'sort.bundle'))
    for code, n_rows, n in (('f', 2, 4500), ('q', 3, 300), ('f', 70, 33)):
        rows = rows_of(rng, code, n_rows, n)
        save(x, code, rows)
        complaints = []
        for device in devices:
            for expr, want in wanted(rows).items():
                done = run('eval', expr, '--in', f'x={x}', '--out', out,
                           '--device', device)
                complaints += expect(done, 0)
                if not complaints and load(out) != want:
                    complaints.append(f'{expr} on {device}')
        done = run('eval', 'argsort(x)', '--in', f'x={x}', '--device',
                   devices[-1], '--save', bundle, '--target', 'CPU')
        complaints += expect(done, 0)
        complaints += expect(run('run', bundle, '--in', f'x={x}', '--out',
                                 f'out={out}', '--device', 'CPU'), 0)
        if not complaints and load(out) != wanted(rows)['argsort(x)']:
            complaints.append('a bundle on the host')
        tap.check(f'{n_rows} rows of {n} {code}', complaints)


def check_counts(tap, device):
    for shape, count in (('1048576', 22), ('16x4096', 2), ('1000x100', 2)):
        done = run('kernel', 'sort(x)[0]', '--in', f'x={shape}', '--device',
                   device, '--stats')
        tap.check(f'{shape} in {count} kernels',
                  expect(done, 0, out=f': {count} kernels'))
    done = run('kernel', 'randperm(1048576)', '--device', device, '--stats')
    tap.check('a random order takes one sort',
              expect(done, 0, out=': 22 kernels'))


def check_shuffles(tap, devices):
    for device in devices:
        complaints = []
        for n in (1, 2, 33, 4096, 4500):
            done = run('eval', f'max(abs(sort(randperm({n}))[0] - arange({n})))',
                       '--device', device)
            if done.stdout.strip() != '0':
                complaints.append(f'of {n}: {done.stdout} {done.stderr}')
        tap.check(f'random orders on {device}', complaints)


def check_tune(tap, folder, device):
    """A bundle with a kernel that is a sort; its others have choices."""
    bundle = os.path.join(folder, 'sort.bundle')
    tap.check(f'tune a bundle that sorts, on {device}', expect(
        run('eval', 'sort(arange(4096) * -1.)[0] * 2', '--save', bundle,
            '--device', device, '--tunable'), 0) + expect(
        run('tune', bundle, '--in-place', '--device', device), 0,
        out='it has no choice'))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        check_orders(tap, folder, sys.argv[2:])
        for device in sys.argv[2:]:
            if device.startswith('AMD'):
                check_tune(tap, folder, device)
    check_shuffles(tap, sys.argv[2:])
    check_counts(tap, 'NV@null:h100')
    tap.finish()


if __name__ == '__main__':
    main()
