#!/usr/bin/env python3
"""`doorbell run` of a bundle whose input has the sizes n, m of symbols: any
within the bounds, and what it says of others.

usage: test_run_sizes.py DOORBELL BUNDLE DEVICE
"""
import json
import os
import struct
import sys
import tempfile

from arrays import Array, read_npy, write_npy
from cli import Tap, expect, run


def main():
    tap = Tap()
    bundle, device = sys.argv[2:]

    def run_it(*args):
        return run('run', bundle, '--device', device, *args)

    with tempfile.TemporaryDirectory() as folder:
        x, y, more = (os.path.join(folder, name)
                      for name in ('x.npy', 'y.npy', 'more.npy'))
        for n, m in ((2, 1), (12, 3), (5, 2), (7, 3)):
            array = Array.make((n, m), lambda i, j: i + 0.25 * j)
            write_npy(x, array)
            complaints = expect(run_it('--in', f'x={x}', '--out', f'out0={y}',
                                       '--out', f'out1={more}'), 0)
            if not complaints:
                got, half = read_npy(y), read_npy(more)
                wanted = array.flat + [-value for value in array.flat]
                if got.shape != (2 * n, m) or got.flat != wanted:
                    complaints.append(f'{got.shape} {got.flat}')
                if half.flat != list(range((n + 1) // 2)):
                    complaints.append(f'{half.flat}')
            tap.check(f'x of {n} by {m}', complaints)
        for shape, text in (
                ((13, 1), "'x', axis 0: 13 elements; n goes from 2 to 12"),
                ((1, 1), "'x', axis 0: 1 elements; n goes from 2 to 12"),
                ((4, 4), "'x', axis 1: 4 elements; m goes from 1 to 3"),
                ((0, 3), "'x', axis 0: 0 elements; n goes from 2 to 12"),
                ((4,), "it is float32 of 1 axes")):
            write_npy(x, Array.make(shape, lambda *at: 1.0))
            tap.check(f'x of {shape}', expect(
                run_it('--in', f'x={x}'), 1, err=text))
        write_npy(x, Array.make((4, 2), lambda i, j: i, 'int32'))
        tap.check('another dtype', expect(
            run_it('--in', f'x={x}'), 1, err='it is int32 of 2 axes'))
        raw = os.path.join(folder, 'x.bin')
        with open(raw, 'wb') as file:
            file.write(struct.pack('<6f', *range(6)))
        tap.check('bytes, and the symbols behind them', expect(
            run_it('--in', f'x={raw}', '--in', 'n=3', '--in', 'm=2'), 0,
            out='out0 float32 (6, 2): 0 1 2 3 4 5 '))
        tap.check('bytes of other sizes', expect(
            run_it('--in', f'x={raw}', '--in', 'n=4'), 1,
            err="'x' has 16 bytes, 24 are to be written"))
        tap.check('a shape', expect(
            run_it('--in', 'x=5x2:float32'), 0, out='out0 float32 (10, 2): '))
        tap.check('a symbol out of bounds', expect(
            run_it('--in', 'n=13'), 1, err='it goes from 2 to 12'))
        done = run_it('--in', 'x=5x2:float32', '--json')
        complaints = expect(done, 0)
        if not complaints:
            shapes = {value['name']: value['shape']
                      for value in json.loads(done.stdout)['values']}
            if shapes != {'x': [5, 2], 'out0': [10, 2], 'out1': [3],
                          'n': [], 'm': []}:
                complaints.append(f'{shapes}')
        tap.check('--json', complaints)
    tap.check('--list', expect(
        run('run', bundle, '--list'), 0,
        out='output  out0 float32 (2*n, m), up to 288 bytes'))
    done = run('run', bundle, '--list', '--json')
    complaints = expect(done, 0)
    if not complaints:
        values = {value['name']: value
                  for value in json.loads(done.stdout)['values']}
        if values['out0']['shape'] != ['2*n', 'm'] or \
                values['2*n']['kind'] != 'size' or values['2*n']['max'] != 24:
            complaints.append(f'{values}')
    tap.check('--list --json', complaints)
    tap.finish()


if __name__ == '__main__':
    main()
