#!/usr/bin/env python3
"""Products and what is done with them, and attention, on NVIDIA's chips: nothing
is spilled, there is little beside the matrix instructions, and those of Hopper
do not wait for each other.

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


# Attention by wgmma: heads of so many elements, what is seen, and queries: if
# these are no multiple of 64, threads hold them.
ATTENTION = [(size, seen, rows) for size in (64, 80, 96, 128, 160, 192, 240, 256)
             for seen in ('', ', is_causal=True', ', m')
             for rows in (2048, 2000) if rows == 2048 or size in (80, 128, 240, 256)]


def attention_complaints(size, seen, rows):
    """ptxas has all wgmma wait for the one before where it does not see that
    their registers are left alone."""
    shapes = [f'--in={name}=1x8x{rows if name == "q" else 2048}x{size}:bfloat16'
              for name in 'qkv']
    what = (f'scaled_dot_product_attention(q, k, v{seen})', *shapes,
            *([f'--in=m={rows}x2048:bfloat16'] if 'm' == seen[-1:] else []),
            '--device', 'NV@null:h100')
    stats = run('kernel', *what, '--stats', '--json')
    done = run('kernel', *what, '--emit', 'sass')
    if stats.returncode or done.returncode:
        return [(stats.stderr + done.stderr).strip()]
    complaints = [f'{k["spill_bytes"]} bytes spilled'
                  for k in json.loads(stats.stdout)['kernels']
                  if k['spill_bytes']]
    opcodes, _ = instructions_of(done.stdout)
    n_waits = sum('WARPGROUP.DEPBAR' in o for o in opcodes)
    n = sum(o.startswith('HGMMA') for o in opcodes)
    if not n or n_waits > (4 if 'causal' in seen else 3):  # it has two loops
        complaints.append(f'{n_waits} waits for {n} matrix instructions')
    return complaints


# Heads that share keys, of a token that is decoded: of q, of k, elements.
FEW = ((32, 8, 128), (64, 8, 128), (64, 4, 128), (32, 4, 64), (32, 32, 128),
       (6, 2, 96), (8, 2, 256))


def few_complaints(chip, dtype, heads, kv, size):
    shapes = [f'--in=q=1x{heads}x1x{size}:{dtype}',
              *(f'--in={name}=1x{kv}x8192x{size}:{dtype}' for name in 'kv')]
    each = heads // kv
    done = run('kernel', 'scaled_dot_product_attention(q, '
               f'repeat_interleave(k, {each}, 1), '
               f'repeat_interleave(v, {each}, 1))', *shapes,
               '--device', f'NV@null:{chip}', '--stats', '--json')
    if done.returncode:
        return [done.stderr.strip()]
    return [f'{k["name"]}: {k["n_registers"]} registers, '
            f'{k["spill_bytes"]} bytes spilled'
            for k in json.loads(done.stdout)['kernels'] if k['spill_bytes']]


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
            for shape in FEW:
                for dtype in ('bfloat16', 'float32'):
                    tap.check(f'decoding with {shape} of {dtype} on {chip}',
                              few_complaints(chip, dtype, *shape))
    for chip in ('a100', 'rtx4090'):
        name = f'instructions of a product on {chip}'
        if shutil.which('ptxas') and shutil.which('nvdisasm'):
            tap.check(name, loop_complaints(chip, 2.4))
        else:
            tap.skip(name, 'no ptxas or no nvdisasm')
    for size, seen, rows in ATTENTION:
        name = f'attention on h100, {rows} rows of heads of {size}{seen}'
        if shutil.which('ptxas') and shutil.which('nvdisasm'):
            tap.check(name, attention_complaints(size, seen, rows))
        else:
            tap.skip(name, 'no ptxas or no nvdisasm')
    return tap.finish()


if __name__ == '__main__':
    sys.exit(main())
