#!/usr/bin/env python3
"""`--in x=3x4` in every verb: a shape whose values are made up, also beside a
file of that name; `./3x4` is the file.

usage: test_inputs.py DOORBELL [--sim]
"""
import json
import os
import struct
import sys
import tempfile

import cli
from arrays import Array, read_npy, write_npy
from cli import Tap, expect, run

SIM = '--sim' in sys.argv
EXPR = '(x * 2).sum()'
FILE = Array((3, 4), [100 + k for k in range(12)])
FLOATS = ('float16', 'bfloat16', 'float32', 'float64', 'float8_e4m3fn',
          'float8_e5m2', 'float8_e4m3fnuz', 'float8_e5m2fnuz', 'half')
INTEGERS = ('int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64',
            'uint64', 'long')
ON = ('--device', 'CPU')


def range_complaints(values, low, high):
    """Made up: in [low, high), and not all the same."""
    if len(set(values)) > 1 and all(low <= v < high for v in values):
        return []
    return [f'not made up in [{low}, {high}): {values[:12]}']


def check_bundle(tap):
    """What stands behind `=` is the same for `run` as for `eval`."""
    complaints = expect(run('eval', 'x * 1', '--in', 'x=3x4', '--save',
                            'f.bundle', '--target', 'CPU', *ON), 0)
    for item, low, high in (('3x4', 0, 1), ('3x4:float32', 0, 1),
                            ('3x4:float', 0, 1), ('./3x4', 100, 112),
                            ('file.npy', 100, 112)):
        done = run('run', 'f.bundle', '--in', f'x={item}', '--out',
                   'out=y.npy', *ON)
        complaints += expect(done, 0)
        if not complaints:
            complaints += range_complaints(read_npy('y.npy').flat, low, high)
    tap.check('run: a shape, and a file of that name', complaints)
    for item, said in (('4x3', "4x3: it is float32 of 2 axes, 12 elements; "
                        "'x' is float32 (3, 4)"),
                       ('3x4:int32', '3x4:int32: it is int32 of 2 axes'),
                       ('3x4:int3', "3x4:int3: no dtype 'int3'"),
                       ('1' + 'x1' * 32, 'more than 32 axes'),
                       ('4x3y', '4x3y: is neither a shape, such as '
                        '2x3:float32, nor a file')):
        tap.check(f'run --in x={item[:9]} is refused', expect(
            run('run', 'f.bundle', '--in', f'x={item}', *ON), 1, err=said))


def check_dtypes(tap):
    """A bundle with an input of each, run with made-up values."""
    dtypes = [*FLOATS, *INTEGERS, 'bool']
    shapes = [part for i, dtype in enumerate(dtypes)
              for part in ('--in', f'x{i}=700:{dtype}')]
    results = [f'(x{i} | x{i}).to(float32)' if dtype == 'bool' else
               f'(x{i} + x{i}).to(float32)' for i, dtype in enumerate(dtypes)]
    complaints = expect(run('eval', f'({", ".join(results)})', *shapes,
                            '--save', 'd.bundle', '--target', 'CPU', *ON), 0)
    outs = [part for i in range(len(dtypes)) for part in (
        '--out', f'{i}=d{i}')]
    complaints += expect(run('run', 'd.bundle', *shapes, *outs, *ON), 0)
    for i, dtype in enumerate([] if complaints else dtypes):
        top, end = ((1, 2) if dtype == 'bool' else (2, 2) if dtype in FLOATS
                    else (18, 19))
        with open(f'd{i}', 'rb') as file:
            values = struct.unpack('<700f', file.read())
        mean = sum(values) / 700
        tap.check(f'run --in x=700:{dtype}', range_complaints(values, 0, end) +
                  [f'their mean is {mean}'] * (not 0.4 < mean / top < 0.6))
    tap.check('run: an input of each dtype', complaints)


def check_verbs(tap):
    """Beside a file 3x4 of other values."""
    done = run('eval', 'x', '--in', 'x=3x4', '--json', *ON)
    tap.check('eval --in x=3x4', expect(done, 0) or range_complaints(
        sum(json.loads(done.stdout)['values'], []), 0, 1))
    for args in (('kernel', EXPR, *ON), ('viz', EXPR, '--out', 'v.html', *ON),
                 ('tune', EXPR, '--seconds', '0.05', *ON),
                 ('step', 'NV@sim:sm_90', EXPR)):
        if args[0] == 'step' and not SIM:
            tap.skip('step --in x=3x4', 'no simulated cards')
            continue
        made, read, wrong = (run(*args, '--in', f'x={item}') for item in (
            '3x4', 'file.npy', '3y4'))
        tap.check(f'{args[0]} --in x=3x4', expect(made, 0) + expect(read, 0) +
                  expect(wrong, wrong.returncode or -1,
                         err='3y4: is neither a shape'))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        cli.DOORBELL = os.path.abspath(cli.DOORBELL)
        os.chdir(folder)
        write_npy('file.npy', FILE)
        with open('3x4', 'wb') as file:
            file.write(struct.pack('<12f', *FILE.flat))
        check_bundle(tap)
        check_dtypes(tap)
        check_verbs(tap)
        os.chdir('/')
    tap.finish()


if __name__ == '__main__':
    main()
