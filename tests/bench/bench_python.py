#!/usr/bin/env python3
"""Calls of the Python package beside PyTorch's eager ones and plain C's: by
turns, medians. Ours only build a graph, but for a captured `step`, which queues
a kernel; PyTorch computes six elements.

usage: PYTHONPATH=BUILD/python bench_python.py BUILD/tests/bench/bench_calls
PyTorch is left out where it is not installed.
"""
import json
import statistics
import subprocess
import sys
import time

import doorbell

try:
    import torch
    torch.set_num_threads(1)
except ImportError:
    torch = None

ROWS = ('x + y', 'x.relu()', 'x.exp()', 'x.softmax(-1)', 'x[0]', 'x[:, 1]',
        'x + 1.5', 'x.sum(1)', 'x.reshape(3, 2)', 'step(x, y)')
N_TURNS = 7


def calls(row, module):
    data = [[1., 2., 3.], [4., 5., 6.]]
    def step(x, y):
        return (x + y).softmax(-1).relu()
    scope = {'x': module.tensor(data), 'y': module.tensor(data),
             'step': doorbell.jit(step) if module is doorbell else step}
    exec(f'def loop(n):\n for _ in range(n):\n  {row}\n'
         'def empty(n):\n for _ in range(n):\n  pass', scope)
    return scope['loop'], scope['empty']


def time_calls(loop, empty, n=5000):
    a = time.thread_time()
    loop(n)
    b = time.thread_time()
    empty(n)
    return (2 * b - a - time.thread_time()) / n * 1e9


def main():
    ours = {row: calls(row, doorbell) for row in ROWS}
    theirs = {row: calls(row, torch) for row in ROWS} if torch else {}
    ns = {kind: {row: [] for row in ROWS} for kind in ('ours', 'torch', 'c')}
    for _ in range(N_TURNS):
        for row in ROWS:
            ns['ours'][row].append(time_calls(*ours[row]))
            if torch:
                ns['torch'][row].append(time_calls(*theirs[row]))
        done = subprocess.run([sys.argv[1]], capture_output=True, check=True)
        for result in json.loads(done.stdout)['results']:
            ns['c'][result['name']].append(result['ns'])
    print('| call | ns | C | over C | PyTorch | over PyTorch |')
    print('|---|---|---|---|---|---|')
    for row in ROWS:
        a, c = (statistics.median(ns[kind][row]) for kind in ('ours', 'c'))
        t = statistics.median(ns['torch'][row]) if torch else float('nan')
        print(f'| `{row}` | {a:.0f} | {c:.0f} | {a / c:.2f} | {t:.0f} | '
              f'{a / t:.3f} |')


if __name__ == '__main__':
    main()
