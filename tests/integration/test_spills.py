#!/usr/bin/env python3
"""Products and what is done with them, on NVIDIA's chips: nothing is spilled,
and there is little beside the matrix instructions.

usage: test_spills.py DOORBELL

Where there is no ptxas, which says so, there is nothing to ask; nvdisasm shows
the instructions.
"""
import json
import re
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


def instructions_of(sass):
    """Opcodes in order, without predicates; and where each label stands."""
    opcodes, labels = [], {}
    for line in sass.splitlines():
        label = re.match(r'\s*(\.L_x_\d+):', line)
        code = re.match(r'\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(.*?)\s*;', line)
        if label:
            labels[label.group(1)] = len(opcodes)
        elif code:
            opcodes.append(code.group(1))
    return opcodes, labels


def loop_complaints(chip, most):
    """Of the loop with the matrix instructions: how many there are for each."""
    done = run('kernel', 'x @ w', '--in', 'x=4096x4096:bfloat16', '--in',
               'w=4096x4096:bfloat16', '--device', f'NV@null:{chip}',
               '--emit', 'sass')
    if done.returncode:
        return [done.stderr.strip()]
    opcodes, labels = instructions_of(done.stdout)
    loops = []
    for i, text in enumerate(opcodes):
        target = re.search(r'BRA.*(\.L_x_\d+)', text)
        first = labels.get(target.group(1), len(opcodes)) if target else i
        body = opcodes[first:i + 1]
        n = sum(o.startswith('HMMA') for o in body)
        if n and first < i:
            loops.append((len(body), n))
    if not loops:
        return ['no loop has matrix instructions']
    n_all, n = min(loops)
    return [] if n_all <= most * n else [f'{n_all} instructions, {n} of matrices']


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
    for chip in ('a100', 'rtx4090'):
        name = f'instructions of a product on {chip}'
        if shutil.which('ptxas') and shutil.which('nvdisasm'):
            tap.check(name, loop_complaints(chip, 2.4))
        else:
            tap.skip(name, 'no ptxas or no nvdisasm')
    return tap.finish()


if __name__ == '__main__':
    sys.exit(main())
