#!/usr/bin/env python3
"""Products and what is done with them, on NVIDIA's chips: nothing is spilled.

usage: test_spills.py DOORBELL

Where there is no ptxas, which says so, there is nothing to ask.
"""
import json
import shutil
import sys

from cli import Tap, run

CHIPS = ('a100', 'h100', 'rtx5090')
DTYPES = (('bfloat16', 'exact'), ('float32', 'tf32'), ('int8', 'exact'),
          ('float8_e4m3fn', 'exact'))
USES = {
    'gelu': 'gelu(x @ w)',
    'swiglu': 'silu(x @ w) * (x @ v)',
    'residual': 'x @ w + r',
}


def complaints_of(expression, dtype, math, chip):
    shapes = []
    for name in 'xwvr':
        if f'{name} ' in expression + ' ' or f'{name})' in expression:
            shapes += ['--in', f'{name}=4096x4096:{dtype}']
    done = run('kernel', expression, *shapes, '--device', f'NV@null:{chip}',
               '--math', math, '--stats', '--json')
    if done.returncode:
        return [done.stderr.strip()]
    kernels = json.loads(done.stdout)['kernels']
    if not kernels or any(k['registers_estimated'] for k in kernels):
        return ['ptxas was not asked']
    return [f'{k["name"]}: {k["n_registers"]} registers, '
            f'{k["spill_bytes"]} bytes spilled'
            for k in kernels if k['spill_bytes']]


def main():
    tap = Tap()
    if not shutil.which('ptxas'):
        tap.skip('spills', 'no ptxas')
    else:
        for chip in CHIPS:
            for dtype, math in DTYPES:
                for name, expression in USES.items():
                    tap.check(f'{name} of {dtype} on {chip}', complaints_of(
                        expression, dtype, math, chip))
    return tap.finish()


if __name__ == '__main__':
    sys.exit(main())
