#!/usr/bin/env python3
"""Looks for sizes at which an operation is slower than at its neighbours.

usage: shapes.py BUILD_DIR [--device DEVICE] [--filter TEXT] [--worst N]
                 [--most N] [--json FILE]

On the CPU times are of one thread, the least of several runs.
On a simulated product (NV@sim:h100, AMD@sim:mi300x) they are what `doorbell
kernel --stats` says that the chip needs at least.

A size's score is its time over what it would be at the least time for an
operation that a size of three quarters to five quarters of it has, and once the
family's least time, which is what a call costs; `next` is its time over the least
of larger sizes up to five quarters. Prints the N worst of each family.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import time

from peers import Doorbell, Gradients, Record

CPU_SECONDS = 0.05  # for a size, at least


def list_sizes(most):
    """1 to 20, powers of two and of ten, primes, and their neighbours."""
    sizes = set(range(1, 21))
    for k in range(4, 11):
        for base in (2 ** k, 3 * 2 ** k // 2):
            sizes |= {base - 1, base, base + 1, base + 8}
    sizes |= {23, 37, 53, 71, 89, 100, 113, 150, 151, 199, 200, 211, 300, 307,
              400, 401, 500, 503, 600, 601, 700, 701, 800, 809, 900, 907, 1000,
              1009, 1100}
    return sorted(n for n in sizes if n <= most)


class Text:
    """Makes an expression for `doorbell kernel` of what a record would do."""

    def call(self, name, *args, **named):
        words = [self.word(x) for x in args]
        words += [f'{key}={self.word(x)}' for key, x in named.items()]
        return f'{name}({", ".join(words)})'

    @staticmethod
    def word(x):
        if isinstance(x, (list, tuple)):
            return '[' + ', '.join(map(str, x)) + ']'
        return str(x)


def product(x, y, dtype='float32'):
    """(shapes of n, dtype, call)"""
    def make(b, a, c):
        if dtype == 'int8':
            a, c = b.call('to', a, 'int32'), b.call('to', c, 'int32')
        return b.call('matmul', a, c)
    return x, y, dtype, make


def convolution(x, w, **named):
    return x, w, 'float32', lambda b, a, c: b.call('conv2d', a, c, **named)


def one(x, make, dtype='float32'):
    return x, None, dtype, lambda b, a, c: make(b, a)


# name: (shape of the first input, of the second, dtype, call, work of n)
FAMILIES = {
    'matmul f32 n n n': product(lambda n: (n, n), lambda n: (n, n)),
    'matmul f32 n 256 256': product(lambda n: (n, 256), lambda n: (256, 256)),
    'matmul f32 256 n 256': product(lambda n: (256, n), lambda n: (n, 256)),
    'matmul f32 256 256 n': product(lambda n: (256, 256), lambda n: (256, n)),
    'matmul f32 64 x n n n': product(lambda n: (64, n, n), lambda n: (n, n)),
    'matmul bf16 n n n': product(lambda n: (n, n), lambda n: (n, n),
                                 'bfloat16'),
    'matmul f16 n n n': product(lambda n: (n, n), lambda n: (n, n),
                                'float16'),
    'matmul i8 n n n': product(lambda n: (n, n), lambda n: (n, n), 'int8'),
    'matmul f64 n n n': product(lambda n: (n, n), lambda n: (n, n),
                                'float64'),
    'conv2d 3x3, n channels': convolution(lambda n: (1, n, 14, 14),
                                          lambda n: (n, n, 3, 3), padding=1),
    'conv2d 3x3, n by n': convolution(lambda n: (1, 16, n, n),
                                      lambda n: (16, 16, 3, 3), padding=1),
    'conv2d 3x3/2, n by n': convolution(lambda n: (1, 16, n, n),
                                        lambda n: (16, 16, 3, 3), padding=1,
                                        stride=2),
    'attention, n rows': (lambda n: (1, 4, n, 64), lambda n: (1, 4, n, 64),
                          'float32', lambda b, a, c: b.call(
                              'scaled_dot_product_attention', a, c, c)),
    'attention, heads of n': (lambda n: (1, 4, 128, n),
                              lambda n: (1, 4, 128, n), 'float32',
                              lambda b, a, c: b.call(
                                  'scaled_dot_product_attention', a, c, c)),
    'sum of rows of n': one(lambda n: (1000, n),
                            lambda b, a: b.call('sum', a, 1)),
    'sum of columns, n rows': one(lambda n: (n, 1000),
                                  lambda b, a: b.call('sum', a, 0)),
    'sum of columns, n columns': one(lambda n: (1000, n),
                                     lambda b, a: b.call('sum', a, 0)),
    'softmax of n': one(lambda n: (1000, n),
                        lambda b, a: b.call('softmax', a, 1)),
    'layer_norm of n': one(lambda n: (1000, n),
                           lambda b, a: b.call('layer_norm', a,
                                               [LAST_SIZE[0]])),
    'cumsum of n': one(lambda n: (1000, n),
                       lambda b, a: b.call('cumsum', a, 1)),
    'transpose n n': one(lambda n: (n, n), lambda b, a: b.call(
        'contiguous', b.call('transpose', a, 0, 1))),
    'gelu n n': one(lambda n: (n, n), lambda b, a: b.call('gelu', a)),
}
LAST_SIZE = [0]


def work(name, x, y, n):
    """What grows with n as the operation does."""
    volume = 1
    for d in x:
        volume *= d
    if name.startswith('matmul'):
        return volume * y[-1]
    if name.startswith('conv2d'):
        return volume * y[0]
    if name.startswith('attention'):
        return volume * y[2]
    return volume


def values(shape, dtype):
    n = 1
    for d in shape:
        n *= d
    one = {'int8': b'\x03\xfb\x07\x02', 'float16': b'\x00\x34\x80\xb2',
           'bfloat16': b'\x80\x3e\x10\xbf', 'float32':
           struct.pack('4f', 0.25, -0.75, 0.6, -0.1), 'float64':
           struct.pack('4d', 0.25, -0.75, 0.6, -0.1)}[dtype]
    size = {'int8': 1, 'float16': 2, 'bfloat16': 2, 'float32': 4,
            'float64': 8}[dtype]
    return (one * (n * size // len(one) + 1))[:n * size]


class Cpu:
    call_us = 0  # it is in the times

    def __init__(self, build_dir):
        os.environ['BELL_THREADS'] = '1'
        self.build_dir = build_dir

    def families(self):
        for name, row in FAMILIES.items():
            yield name, row
            if name.startswith(('conv2d', 'attention')):
                yield name + ', gradients', row

    def time(self, name, x, y, dtype, make):
        bell = Doorbell(self.build_dir)  # else a plan for any size is made
        a = bell.tensor(values(x, dtype), x, dtype)
        c = bell.tensor(values(y, dtype), y, dtype) if y else None
        record = Record(bell)
        make(record, a, c)
        if 'gradients' in name:
            record = Gradients(bell, record, [a.value, c.value])
        bell.run(record)
        bell.run(record)
        times, end = [], time.perf_counter() + CPU_SECONDS
        while time.perf_counter() < end or len(times) < 5:
            start = time.perf_counter()
            bell.run(record)
            times.append(time.perf_counter() - start)
        bell.lib.bell_context_destroy(bell.ctx)
        return min(times) * 1e6


class Card:
    call_us = 2  # of a launch, which the model leaves out

    def __init__(self, build_dir, device):
        self.tool = os.path.join(build_dir, 'tools', 'doorbell')
        self.device = device

    def families(self):
        for name, row in FAMILIES.items():
            if ' f32 64 x' not in name and ' f64' not in name:
                yield name, row

    def time(self, name, x, y, dtype, make):
        del name
        command = [self.tool, 'kernel', make(Text(), 'x', 'y')]
        for key, shape in (('x', x), ('y', y)):
            if shape:
                command += ['--in', f'{key}=' + 'x'.join(map(str, shape)) +
                            ':' + dtype]
        done = subprocess.run(
            command + ['--device', self.device, '--stats', '--groups', '4',
                       '--json'], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or done.stdout)
        return sum(kernel['predicted_us']
                   for kernel in json.loads(done.stdout)['kernels'])


def score(times, call_us):
    """[(score, next, size, us)] of {size: (us, work)}, the worst first."""
    rows = []
    start = max(call_us, min(us for us, _ in times.values()))
    for n, (us, done) in times.items():
        near = [t / w for m, (t, w) in times.items()
                if 0.75 * n <= m <= 1.25 * n + 1]
        above = [t for m, (t, _) in times.items() if n < m <= 1.25 * n + 1]
        rows.append((us / max(done * min(near) + start, 1e-9),
                     us / min(above) if above else 0, n, us))
    return sorted(rows, reverse=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('build_dir')
    parser.add_argument('--device', default='CPU')
    parser.add_argument('--filter', default='')
    parser.add_argument('--worst', type=int, default=3)
    parser.add_argument('--most', type=int, default=1100)
    parser.add_argument('--json', default='')
    options = parser.parse_args()
    side = Cpu(options.build_dir) if options.device == 'CPU' \
        else Card(options.build_dir, options.device)
    all_times = {}
    for name, (x, y, dtype, make) in side.families():
        if options.filter not in name:
            continue
        times = {}
        most = options.most
        if name.startswith(('conv2d', 'attention, heads', 'matmul f32 64')):
            most = min(most, 400)
        for n in list_sizes(most):
            LAST_SIZE[0] = n
            shapes = x(n), y(n) if y else None
            us = side.time(name, *shapes, dtype, make)
            times[n] = us, work(name, *shapes, n)
        all_times[name] = times
        for worst in score(times, side.call_us)[:options.worst]:
            print(f'{name:36} n={worst[2]:5} {worst[3]:12.1f} us   '
                  f'{worst[0]:6.2f} of its neighbours\'   '
                  f'next {worst[1]:6.2f}', flush=True)
    if options.json:
        with open(options.json, 'w', encoding='utf-8') as file:
            json.dump(all_times, file)
    return 0


if __name__ == '__main__':
    sys.exit(main())
