#!/usr/bin/env python3
"""What kernels take by the device's own clock, beside PyTorch's on the same card.

usage: kernel_peer.py DOORBELL [--device NV:0] [--filter TEXT,...] [--runs N]
                      [--json FILE]

Ours: `doorbell kernel` runs an expression again and again, in a process of its
own, and BELL_PROFILE has when each kernel began and ended; of a run the kernels'
times together, their median. A kernel has some 2 us more by this than in a row
of launches, as the clock is read before and behind it. Theirs, afterwards: a
CUDA graph of ten, between two events. Inputs stay in L2 where they fit, on both
sides. Where PyTorch is not installed, ours alone. Results are not compared:
torch_peer.py does that.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

BF16, F32 = 'bfloat16', 'float32'
REPLAYS, GRAPH = 7, 10


class Row:
    """An expression: its name, inputs (shape and dtype), PyTorch's function of
    torch and the inputs, and what it costs."""

    def __init__(self, name, expression, inputs, theirs, flops=0, n_bytes=0,
                 math_mode=None):
        self.name, self.expression, self.inputs = name, expression, inputs
        self.theirs, self.flops, self.n_bytes = theirs, flops, n_bytes
        self.math_mode = math_mode


def size_of(shape, dtype):
    return math.prod(shape) * (4 if dtype == F32 else 2)


def attention(heads, queries, keys, width, kv=None, causal=False):
    q, k = (1, heads, queries, width), (1, kv or heads, keys, width)
    names = ('k', 'v') if not kv else tuple(
        f'repeat_interleave({x},{heads // kv},1)' for x in 'kv')
    more = ',is_causal=True' if causal else ''

    def theirs(torch, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=kv is not None)
    return Row(f'attention {heads} x {queries} x {keys} x {width}'
               f'{f", {kv} of keys" if kv else ""}{", causal" if causal else ""}',
               'scaled_dot_product_attention(q,{},{}{})'.format(*names, more),
               {'q': (q, BF16), 'k': (k, BF16), 'v': (k, BF16)}, theirs,
               4 * heads * queries * keys * width // (2 if causal else 1),
               2 * size_of(q, BF16) + 2 * size_of(k, BF16))


def attentions():
    for shape in ((32, 4096, 128), (64, 2048, 64), (12, 1024, 64),
                  (32, 2048, 96), (32, 2048, 80), (32, 2048, 192),
                  (32, 2048, 256)):
        yield attention(shape[0], shape[1], *shape[1:])
    yield attention(32, 4096, 4096, 128, causal=True)
    yield attention(32, 2048, 2048, 80, causal=True)
    for heads, keys, width, kv in (
            (32, 1024, 128, 8), (32, 8192, 128, 8), (32, 32768, 128, 8),
            (64, 8192, 128, 8), (32, 8192, 128, 4), (32, 8192, 64, 8),
            (32, 8192, 128, None)):
        yield attention(heads, 1, keys, width, kv)


def convolutions():
    for name, x, w, named in (
            ('64 x 56 x 56', (32, 64, 56, 56), (64, 64, 3, 3), {'padding': 1}),
            ('128 x 28 x 28', (32, 128, 28, 28), (128, 128, 3, 3),
             {'padding': 1}),
            ('256 x 14 x 14', (32, 256, 14, 14), (256, 256, 3, 3),
             {'padding': 1}),
            ('512 x 7 x 7', (32, 512, 7, 7), (512, 512, 3, 3), {'padding': 1}),
            ('512 x 7 x 7, of 8', (8, 512, 7, 7), (512, 512, 3, 3),
             {'padding': 1}),
            ('7 x 7 / 2', (32, 3, 224, 224), (64, 3, 7, 7),
             {'padding': 3, 'stride': 2}),
            ('1 x 1', (32, 256, 56, 56), (64, 256, 1, 1), {}),
            ('depthwise', (32, 128, 56, 56), (128, 1, 3, 3),
             {'padding': 1, 'groups': 128})):
        for dtype in (BF16, F32):
            stride = named.get('stride', 1)
            y = (x[0], w[0], x[2] // stride, x[3] // stride)
            yield Row(f'convolution {name} {dtype}', 'conv2d(x,w{})'.format(
                          ''.join(f',{k}={v}' for k, v in named.items())),
                      {'x': (x, dtype), 'w': (w, dtype)},
                      lambda torch, x, w, named=named:
                          torch.conv2d(x, w, **named),
                      2 * math.prod(y) * math.prod(w[1:]),
                      sum(size_of(s, dtype) for s in (x, w, y)))


def product(m, k, n, dtype, turned='nn', math_mode=None):
    x = (m, k) if turned[0] == 'n' else (k, m)
    y = (k, n) if turned[1] == 'n' else (n, k)
    text = ('x' if turned[0] == 'n' else 'x.T') + ' @ ' + \
        ('y' if turned[1] == 'n' else 'y.T')

    def theirs(_torch, x, y):
        return (x if turned[0] == 'n' else x.T) @ \
            (y if turned[1] == 'n' else y.T)
    return Row(f'product {m} x {k} x {n} {turned} {math_mode or dtype}', text,
               {'x': (x, dtype), 'y': (y, dtype)}, theirs, 2 * m * k * n,
               sum(size_of(s, dtype) for s in (x, y, (m, n))), math_mode)


def products():
    for n in (1024, 2048, 4096, 8192):
        yield product(n, n, n, BF16)
    yield product(4096, 1024, 4096, BF16)
    yield product(1024, 768, 3072, BF16, 'nt')
    yield product(1024, 3072, 768, BF16)
    for n in (512, 1024, 1536, 2048, 4096):
        yield product(n, n, n, F32)
    yield product(4096, 4096, 4096, F32, 'nt')
    for n in (2048, 4096):
        for turned in ('nn', 'nt'):
            yield product(n, n, n, F32, turned, 'tf32')
    for m in (1, 8, 16, 64, 256):
        for turned in ('nn', 'nt'):
            yield product(m, 4096, 16384, BF16, turned)


def of_memory():
    for dtype in (BF16, F32):
        size = size_of((8192, 8192), dtype)
        for name, text, theirs, moved in (
                ('softmax', 'softmax(x,1)', lambda t, x: t.softmax(x, 1), 2),
                ('layer_norm', 'layer_norm(x,[8192])',
                 lambda t, x: t.nn.functional.layer_norm(x, [8192]), 2),
                ('gelu', 'gelu(x)', lambda t, x: t.nn.functional.gelu(x), 2),
                ('sum of rows', 'sum(x,1)', lambda t, x: t.sum(x, 1), 1),
                ('sum of all', 'sum(x)', lambda t, x: t.sum(x), 1),
                ('sum of columns', 'sum(x,0)', lambda t, x: t.sum(x, 0), 1),
                ('add', 'x+y', lambda t, x, y: x + y, 3)):
            yield Row(f'{name} 8192 x 8192 {dtype}', text,
                      {key: ((8192, 8192), dtype) for key in
                       ('xy' if moved == 3 else 'x')}, theirs, 0, moved * size)


def time_ours(row, options):
    """{kernel: median time in us}; a string: why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, 'trace.json')
        command = [options.doorbell, 'kernel', row.expression, '--device',
                   options.device, '--runs', str(options.runs)]
        for name, (shape, dtype) in row.inputs.items():
            command += ['--in', f'{name}={"x".join(map(str, shape))}:{dtype}']
        if row.math_mode:
            command += ['--math', row.math_mode]
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False,
                              env=dict(os.environ, BELL_PROFILE=trace))
        if done.returncode:
            return (done.stderr or done.stdout).strip()[-200:]
        with open(trace, encoding='utf-8') as file:
            events = json.load(file)['traceEvents']
    calls = {}
    for event in events:
        if event.get('cat') == 'kernel':
            calls.setdefault(event['args']['call'], []).append(
                (event['name'], event['dur']))
    times = {}
    for call in sorted(calls)[-options.runs:]:  # behind those that fill inputs
        for name, time in calls[call]:
            times.setdefault(name, []).append(time)
    return {name: statistics.median(list_) for name, list_ in times.items()}


def time_theirs(torch, row):
    torch.backends.cuda.matmul.allow_tf32 = row.math_mode == 'tf32'
    inputs = [torch.randn(shape, device='cuda').to(getattr(torch, dtype))
              for shape, dtype in row.inputs.values()]
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            row.theirs(torch, *inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH):
            row.theirs(torch, *inputs)
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / GRAPH)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('doorbell')
    parser.add_argument('--device', default='NV:0')
    parser.add_argument('--filter', default='')
    parser.add_argument('--runs', type=int, default=20)
    parser.add_argument('--json')
    options = parser.parse_args()
    rows = [row for rows in (attentions, convolutions, products, of_memory)
            for row in rows()
            if any(word in row.name for word in options.filter.split(','))]
    ours = {row.name: time_ours(row, options) for row in rows}
    try:
        import torch  # pylint: disable=import-outside-toplevel
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        has_peer = torch.cuda.is_available()
    except ImportError:
        has_peer = False
    if not has_peer:
        print('no PyTorch, or no card that it sees: ours alone')
    print('ours us, theirs us, ratio; rate; kernels')
    found, n_failed = [], 0
    for row in rows:
        parts = ours[row.name]
        if isinstance(parts, str):
            print(f'{row.name:52} {parts}')
            n_failed += 1
            continue
        time = sum(parts.values())
        peer = time_theirs(torch, row) if has_peer else None
        rate = f'{row.flops / time * 1e-6:7.1f} TF' if row.flops \
            else f'{row.n_bytes / time * 1e-3:7.0f} GB'
        each = ' + '.join(f'{t:.1f}' for t in parts.values())
        beside = f'{peer:8.1f} {peer / time:5.2f}x' if peer else ''
        print(f'{row.name:52} {time:8.1f} {beside} {rate}/s  '
              f'{each if len(parts) > 1 else ""}', flush=True)
        found.append({'name': row.name, 'time_us': time, 'peer_us': peer,
                      'kernels_us': parts, 'flops': row.flops,
                      'n_bytes': row.n_bytes})
    if options.json:
        with open(options.json, 'w', encoding='utf-8') as file:
            json.dump(found, file, indent=1)
    return n_failed != 0


if __name__ == '__main__':
    sys.exit(main())
