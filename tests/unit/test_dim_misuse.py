#!/usr/bin/env python3
"""What C makes of a size as if it was a number does not compile; what takes
sizes does.

usage: test_dim_misuse.py COMPILER INCLUDE_DIR
"""
import subprocess
import sys

PROGRAM = '''
#include <math.h>
#include "doorbell/dim.h"
struct bell_tensor *f(struct bell_context *ctx, struct bell_tensor *x,
                      struct bell_dim n);
struct bell_tensor *
f(struct bell_context *ctx, struct bell_tensor *x, struct bell_dim n)
{
    (void)ctx;
    (void)x;
    (void)n;
    return %s;
}
'''
GOOD = ['bell_narrow(x, 0, 0, n)', 'bell_narrow(x, 0, n, 3u)',
        'bell_narrow(x, 0, 1, (long)2)', 'bell_select(x, 0, n)',
        'bell_zeros(ctx, BELL_SHAPE(n, 3), BELL_FLOAT32)',
        'bell_zeros(ctx, BELL_SHAPE(1, 2, 3, 4, 5, 6, 7, n), BELL_FLOAT32)',
        'bell_zeros(ctx, BELL_DIMS(2, 3), BELL_FLOAT32)',
        'bell_reshape(x, BELL_SHAPE(bell_dim_mul(ctx, n, 2), -1))',
        'bell_zeros(ctx, bell_dim_words(bell_dims(x)), 2, BELL_FLOAT32)',
        'bell_narrow(x, 0, 0, bell_dim_min(ctx, 5, n))',
        'bell_mul(x, bell_dim_value(ctx, n, BELL_FLOAT32))']
BAD = ['bell_mul_scalar(x, 1.0 / n)', 'bell_mul_scalar(x, pow(n, .25))',
       'bell_mul_scalar(x, 1.0 / (n * n))', 'bell_mul_scalar(x, exp(-1e-3 * n))',
       'bell_mul_scalar(x, n)', 'n > 4 ? x : NULL', 'n ? x : NULL',
       'bell_narrow(x, 0, 0, n + 1)', 'bell_zeros(ctx, BELL_DIMS(n), 0)',
       'bell_narrow(x, 0, 0, 2.5)', 'bell_full(ctx, BELL_DIMS(3), n, 0)',
       'bell_arange(ctx, 0, n, 1, 0)', 'n == n ? x : NULL', 'x + (long)n']


def main():
    compiler, folder = sys.argv[1:3]
    rows = [(text, True) for text in GOOD] + [(text, False) for text in BAD]
    print(f'1..{len(rows)}')
    for number, (text, good) in enumerate(rows, 1):
        done = subprocess.run(
            [*compiler.split(), '-std=c11', '-Wall', '-Wextra', '-Wpedantic',
             '-Werror', f'-I{folder}', '-fsyntax-only', '-x', 'c', '-'],
            input=PROGRAM % text, capture_output=True, text=True, check=False)
        is_ok = (done.returncode == 0) == good
        if not is_ok:
            print('# ' + done.stderr.replace('\n', '\n# '))
        name = 'is taken' if good else 'does not compile'
        print(f'{"ok" if is_ok else "not ok"} {number} - {text} {name}')


main()
