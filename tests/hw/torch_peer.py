#!/usr/bin/env python3
"""Doorbell on a card beside PyTorch on the same card, in turns in one process:
results against float64, times of launches in a row. What is not installed is
said and skipped.

usage: torch_peer.py BUILD_DIR [--device NV:0] [--filter TEXT] [--seconds S]
                     [--json FILE]

Prints medians of both sides and their ratios (above 1, Doorbell is faster),
and the root mean square of both errors over that of the result. A row is wrong
where ours is above twice PyTorch's and above what the dtype allows. Ours is
captured (bell_jit), so that a launch costs Python some microseconds.
"""
import argparse
import ctypes
import json
import math
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'bench'))
from peers import (  # noqa: E402  pylint: disable=wrong-import-position
    JIT_FUNCTION, Doorbell, JitDesc)

# What rounding the result alone, and sums in float32, may come to.
ALLOWED = {'float32': 2e-6, 'float16': 2e-3, 'bfloat16': 1e-2, 'int32': 0,
           'int64': 0, 'float64': 1e-12}
TF32, TF32_ALLOWED = 1, 2e-3


class Row:
    """An expression: what it is called, its inputs (shape and dtype by name),
    ours, PyTorch's, what it costs, and what it may be off."""

    def __init__(self, name, inputs, ours, theirs, flops=0, n_bytes=0,
                 reference=None, math_bits=0, n_max=1000):
        self.name, self.inputs = name, inputs
        self.ours, self.theirs = ours, theirs
        self.flops, self.n_bytes = flops, n_bytes
        self.reference = reference or theirs
        self.math_bits, self.n_max = math_bits, n_max


def product_rows(torch):
    def mm(name, m, k, n, dtype, turned='nn', **more):
        a = (m, k) if turned[0] == 'n' else (k, m)
        b = (k, n) if turned[1] == 'n' else (n, k)

        def ours(d, x, y):
            x = d.call('transpose', x, 0, 1) if turned[0] == 't' else x
            y = d.call('transpose', y, 0, 1) if turned[1] == 't' else y
            return d.call('matmul', x, y)

        def theirs(x, y):
            return (x.T if turned[0] == 't' else x) @ \
                (y.T if turned[1] == 't' else y)
        size = {'float32': 4}.get(dtype, 2)
        return Row(f'{name} {m}x{k}x{n} {dtype} {turned}',
                   {'x': (a, dtype), 'y': (b, dtype)}, ours, theirs,
                   2 * m * k * n, size * (m * k + k * n + m * n), **more)

    for n in (1024, 2048, 4096, 8192):
        yield mm('mm', n, n, n, 'bfloat16')
    for turned in ('nt', 'tn', 'tt'):
        yield mm('mm', 4096, 4096, 4096, 'bfloat16', turned)
    yield mm('mm', 4096, 4096, 4096, 'float16')
    yield mm('mm', 4095, 4095, 4095, 'bfloat16')
    yield mm('mm', 4096, 1024, 4096, 'bfloat16')
    yield mm('mm', 1024, 768, 3072, 'bfloat16', 'nt')
    for n in (2048, 4096):
        yield mm('mm', n, n, n, 'float32')
        yield mm('mm tf32', n, n, n, 'float32', math_bits=TF32)
        yield mm('mm tf32', n, n, n, 'float32', 'nt', math_bits=TF32)
    yield mm('mm', 8, 4096, 16384, 'bfloat16')
    yield mm('mm', 16, 4096, 16384, 'bfloat16', 'nt')
    yield mm('mm', 64, 4096, 16384, 'bfloat16', 'nt')
    yield mm('mm', 1, 4096, 16384, 'bfloat16')
    yield mm('mm', 1, 4096, 16384, 'bfloat16', 'nt')
    n = 4096
    yield Row(f'mm int8 {n}', {'x': ((n, n), 'int8'), 'y': ((n, n), 'int8')},
              lambda d, x, y: d.call('matmul', d.call('to', x, 'int32'),
                                     d.call('to', y, 'int32')),
              lambda x, y: torch._int_mm(x, y),
              2 * n**3, 6 * n * n)
    one = torch.ones((), device='cuda')
    yield Row(f'mm e4m3 {n} nt', {'x': ((n, n), 'float8_e4m3fn'),
                                  'y': ((n, n), 'float8_e4m3fn')},
              lambda d, x, y: d.call(
                  'to', d.call('matmul', x, d.call('transpose', y, 0, 1)),
                  'bfloat16'),
              lambda x, y: torch._scaled_mm(x, y.T, one, one,
                                            out_dtype=torch.bfloat16),
              2 * n**3, 4 * n * n, reference=lambda x, y: x @ y.T,
              math_bits=TF32)
    yield Row(f'gelu(x @ w + b) {n}', {'x': ((n, n), 'bfloat16'),
                                       'y': ((n, n), 'bfloat16'),
                                       'b': ((n,), 'bfloat16')},
              lambda d, x, y, b: d.call('gelu', d.call(
                  'add', d.call('matmul', x, y), b)),
              lambda x, y, b: torch.nn.functional.gelu(x @ y + b),
              2 * n**3, 6 * n * n)


def attention_rows(torch):
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def attend(heads, n, c, causal=False, kv=None, queries=None,
               dtype='bfloat16'):
        q_shape = (1, heads, queries or n, c)
        k_shape = (1, kv or heads, n, c)
        grouped = kv is not None

        def ours(d, q, k, v):
            if grouped:
                k = d.call('repeat_interleave', k, heads // kv, 1)
                v = d.call('repeat_interleave', v, heads // kv, 1)
            return d.call('scaled_dot_product_attention', q, k, v,
                          is_causal=causal)

        def theirs(q, k, v):
            return sdpa(q, k, v, is_causal=causal, enable_gqa=grouped)

        def reference(q, k, v):
            if grouped:
                k, v = (x.repeat_interleave(heads // kv, 1) for x in (k, v))
            s = q @ k.mT / math.sqrt(c)
            if causal:
                hide = torch.ones(n, n, device='cuda', dtype=torch.bool).triu(1)
                s.masked_fill_(hide, float('-inf'))
            return torch.softmax(s, -1) @ v
        flops = 4 * heads * (queries or n) * n * c // (2 if causal else 1)
        return Row(f'attention {heads}x{queries or n}x{n}x{c} {dtype}'
                   f'{" causal" if causal else ""}{f" kv {kv}" if kv else ""}',
                   {'q': (q_shape, dtype), 'k': (k_shape, dtype),
                    'v': (k_shape, dtype)}, ours, theirs, flops,
                   2 * c * 2 * (heads * (queries or n) + (kv or heads) * n),
                   reference)
    for heads, n, c in ((32, 4096, 128), (64, 2048, 64), (12, 1024, 64)):
        yield attend(heads, n, c)
        yield attend(heads, n, c, True)
    yield attend(32, 2048, 96)
    yield attend(32, 2048, 80)
    yield attend(32, 2048, 256)
    yield attend(12, 1024, 64, dtype='float32')
    yield attend(32, 8192, 128, queries=1)
    yield attend(32, 8192, 128, queries=1, kv=8)


def convolution_rows(torch):
    for name, x, w, named in (
            ('3x3', (32, 64, 56, 56), (64, 64, 3, 3), {'padding': 1}),
            ('3x3', (32, 256, 14, 14), (256, 256, 3, 3), {'padding': 1}),
            ('3x3', (32, 512, 7, 7), (512, 512, 3, 3), {'padding': 1}),
            ('7x7/2', (32, 3, 224, 224), (64, 3, 7, 7),
             {'padding': 3, 'stride': 2}),
            ('1x1', (32, 256, 56, 56), (64, 256, 1, 1), {}),
            ('depthwise', (32, 128, 56, 56), (128, 1, 3, 3),
             {'padding': 1, 'groups': 128})):
        for dtype in ('bfloat16', 'float32'):
            s = named.get('stride', 1)
            out = x[0] * w[0] * (x[2] // s) * (x[3] // s)
            yield Row(f'conv2d {name} {"x".join(map(str, x))} {dtype}',
                      {'x': (x, dtype), 'w': (w, dtype)},
                      lambda d, x, w, named=named: d.call('conv2d', x, w,
                                                          **named),
                      lambda x, w, named=named: torch.conv2d(x, w, **named),
                      2 * out * w[1] * w[2] * w[3],
                      (2 if dtype == 'bfloat16' else 4) *
                      (math.prod(x) + math.prod(w) + out))


def memory_rows(torch):
    f = torch.nn.functional
    for dtype, size in (('bfloat16', 2), ('float32', 4)):
        big = (8192, 8192)
        n = big[0] * big[1]
        for name, names, ours, theirs, moved in (
                ('add', 'xy', lambda d, x, y: d.call('add', x, y),
                 lambda x, y: x + y, 3),
                ('gelu', 'x', lambda d, x: d.call('gelu', x), f.gelu, 2),
                ('silu', 'x', lambda d, x: d.call('silu', x), f.silu, 2),
                ('tanh', 'x', lambda d, x: d.call('tanh', x), torch.tanh, 2),
                ('sin', 'x', lambda d, x: d.call('sin', x), torch.sin, 2),
                ('softmax', 'x', lambda d, x: d.call('softmax', x, 1),
                 lambda x: torch.softmax(x, 1), 2),
                ('layer_norm', 'x', lambda d, x: d.call('layer_norm', x,
                                                        [8192]),
                 lambda x: f.layer_norm(x, [8192]), 2),
                ('rms_norm', 'x', lambda d, x: d.call('rms_norm', x, [8192]),
                 lambda x: f.rms_norm(x, [8192]), 2),
                ('sum', 'x', lambda d, x: d.call('sum', x), torch.sum, 1),
                ('sum rows', 'x', lambda d, x: d.call('sum', x, 1),
                 lambda x: torch.sum(x, 1), 1),
                ('sum columns', 'x', lambda d, x: d.call('sum', x, 0),
                 lambda x: torch.sum(x, 0), 1),
                ('argmax rows', 'x', lambda d, x: d.call('argmax', x, 1),
                 lambda x: torch.argmax(x, 1), 1),
                ('cumsum rows', 'x', lambda d, x: d.call('cumsum', x, 1),
                 lambda x: torch.cumsum(x, 1), 2),
                ('transpose', 'x', lambda d, x: d.call(
                    'contiguous', d.call('transpose', x, 0, 1)),
                 lambda x: x.T.contiguous(), 2)):
            if name == 'argmax rows' and dtype == 'bfloat16':
                continue  # several are the greatest
            yield Row(f'{name} 8192x8192 {dtype}',
                      {key: (big, dtype) for key in names}, ours, theirs,
                      0, moved * n * size)
    for shape in ((16, 4096), (4096, 4096)):
        yield Row(f'sort {shape[0]}x{shape[1]} float32',
                  {'x': (shape, 'float32')},
                  lambda d, x: d.call('sort', x, 1),
                  lambda x: torch.sort(x, 1)[0], 0, 8 * math.prod(shape))
    yield Row('softmax 64x1024 float32', {'x': ((64, 1024), 'float32')},
              lambda d, x: d.call('softmax', x, 1),
              lambda x: torch.softmax(x, 1), 0, 8 * 65536)


class Jit:
    """A row's expression, captured: a launch costs a call of Python's."""

    def __init__(self, bell, make, inputs):
        def fn(_ctx, _user, given, out):
            args = (ctypes.c_void_p(given[i]) for i in range(len(inputs)))
            out[0] = bell.record(lambda r: make(r, *args)).play()
            return 0
        self.bell, self.handle = bell, ctypes.c_void_p()
        self.fn = JIT_FUNCTION(fn)
        desc = JitDesc(ctypes.sizeof(JitDesc), b'row', self.fn, None,
                       len(inputs), 1)
        bell.check(bell.lib.bell_jit_create(bell.ctx, ctypes.byref(desc),
                                            ctypes.byref(self.handle)))
        self.inputs = (ctypes.c_void_p * len(inputs))(
            *(x.value for x in inputs))
        self.out = (ctypes.c_void_p * 1)()

    def run(self, n):
        """n launches, then waits."""
        value, lib, ctx = ctypes.c_double(), self.bell.lib, self.bell.ctx
        for _ in range(n):
            self.bell.check(lib.bell_scope_begin(ctx))
            self.bell.check(lib.bell_jit_call(self.handle, self.inputs,
                                              self.out))
            self.bell.check(lib.bell_scope_end(ctx))
        self.bell.check(lib.bell_item_f64(self.bell.fence,
                                          ctypes.byref(value)))

    def close(self):
        self.bell.lib.bell_jit_destroy(self.handle)


class Peer:
    def __init__(self, torch, bell, options):
        self.torch, self.bell, self.options = torch, bell, options
        self.rows, self.n_wrong = [], 0

    def make(self, shape, dtype):
        """A random tensor on the card and its values in memory."""
        torch = self.torch
        if dtype == 'int8':
            x = torch.randint(-128, 128, shape, dtype=torch.int8,
                              device='cuda')
        else:
            x = torch.randn(shape, device='cuda').to(getattr(torch, dtype))
        host = x.cpu()
        return x, self.bell.tensor(host.data_ptr(), tuple(shape), dtype)

    def read(self, tensor, like):
        host = self.torch.empty(like.shape, dtype=like.dtype)
        lib = self.bell.lib
        lib.bell_nbytes.restype = ctypes.c_uint64
        n = lib.bell_nbytes(tensor)
        if n != host.numel() * host.element_size():
            raise RuntimeError(f'a result of {n} bytes')
        self.bell.check(lib.bell_read(tensor, ctypes.c_void_p(host.data_ptr()),
                                      ctypes.c_size_t(n)))
        return host.cuda()

    def error(self, got, exact, size):
        """Root mean square of the differences over that of the result, of a
        single sum over `size`, which it may be far below; NaNs and infinities
        count as they are."""
        d = (got.double() - exact).square().mean().sqrt()
        least = size if exact.numel() == 1 else 1e-300
        return float(d / exact.square().mean().sqrt().clamp(min=least))

    def time_of(self, run, n):
        start = time.perf_counter()
        run(n)
        return (time.perf_counter() - start) / n * 1e6

    def measure(self, row):
        torch, bell = self.torch, self.bell
        theirs, ours = {}, {}
        for key, (shape, dtype) in row.inputs.items():
            theirs[key], ours[key] = self.make(shape, dtype)
        bell.check(bell.lib.bell_context_set_math(bell.ctx, row.math_bits))
        torch.backends.cuda.matmul.allow_tf32 = row.math_bits == TF32

        jit = Jit(bell, row.ours, list(ours.values()))

        def run_theirs(n):
            for _ in range(n):
                row.theirs(*theirs.values())
            torch.cuda.synchronize()

        started = time.perf_counter()
        got = row.theirs(*theirs.values())
        exact = row.reference(*(
            x.double() for x in theirs.values())) \
            if got.is_floating_point() else got
        bell.check(bell.lib.bell_scope_begin(bell.ctx))
        record = bell.record(lambda r: row.ours(r, *ours.values()))
        mine = self.read(ctypes.c_void_p(record.play()), got)
        bell.check(bell.lib.bell_scope_end(bell.ctx))
        exact = exact.double()
        size = sum(float(x.double().norm()) for x in theirs.values())
        errors = tuple(self.error(x, exact, size) for x in (mine, got))
        del mine, exact, got
        torch.cuda.empty_cache()
        prepared = time.perf_counter() - started

        jit.run(2)
        run_theirs(2)
        # the card's change from one program to the other is a part of each
        n = []
        for run in (jit.run, run_theirs):
            t = self.time_of(run, 20)
            n.append(max(10, min(row.n_max,
                                 int(self.options.seconds * 1e6 / 5 / t))))
        singles, times = ([], []), ([], [])
        for _ in range(5):
            for i, run in enumerate((jit.run, run_theirs)):
                singles[i].append(self.time_of(run, 1))
                times[i].append(self.time_of(run, n[i]))
        jit.close()
        return errors, singles, times, prepared

    def run(self, row):
        try:
            errors, singles, times, prepared = self.measure(row)
        except (RuntimeError, self.torch.cuda.OutOfMemoryError) as e:
            print(f'{row.name:44} {str(e).splitlines()[0][:120]}', flush=True)
            self.rows.append({'name': row.name, 'failed': str(e)})
            self.n_wrong += 1
            return
        mid = [statistics.median(t) for t in times]
        one = [statistics.median(t) for t in singles]
        kind = next(iter(row.inputs.values()))[1]
        if kind in ('int8', 'float8_e4m3fn'):
            kind = {'int8': 'int32'}.get(kind, 'bfloat16')
        allowed = TF32_ALLOWED if row.math_bits and kind == 'float32' \
            else ALLOWED[kind]
        wrong = not errors[0] <= max(allowed, 2 * errors[1])
        self.n_wrong += wrong
        rate = f'{row.flops / mid[0] * 1e-6:7.1f} TF' if row.flops \
            else f'{row.n_bytes / mid[0] * 1e-3:7.0f} GB'
        print(f'{row.name:44} {mid[0]:9.1f} {mid[1]:9.1f} us '
              f'{mid[1] / mid[0]:5.2f}x  one {one[0]:9.1f} {one[1]:9.1f} '
              f'{rate}/s  {errors[0]:.1e} {errors[1]:.1e} {prepared:4.1f} s'
              f'{"  WRONG" if wrong else ""}', flush=True)
        self.rows.append({
            'name': row.name, 'time_us': mid[0], 'peer_us': mid[1],
            'single_us': one[0], 'peer_single_us': one[1],
            'flops': row.flops, 'n_bytes': row.n_bytes, 'error': errors[0],
            'peer_error': errors[1], 'is_wrong': wrong})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('build_dir')
    parser.add_argument('--device', default='NV:0')
    parser.add_argument('--filter', default='')
    parser.add_argument('--seconds', type=float, default=0.05)
    parser.add_argument('--json')
    options = parser.parse_args()
    for name in ('BELL_DEBUG', 'BELL_MATH', 'BELL_FAIL_ALLOC'):
        os.environ.pop(name, None)
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        print('PyTorch: not installed, nothing to run')
        return 77
    if not torch.cuda.is_available():
        print('PyTorch sees no card, nothing to run')
        return 77
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    peer = Peer(torch, Doorbell(options.build_dir, options.device), options)
    print(f'{torch.cuda.get_device_name()}, torch {torch.__version__}, '
          f'{time.strftime("%F")}: in a row, ours, theirs, ratio; single '
          'ones; our rate; errors of both; preparing')
    for rows in (product_rows, attention_rows, convolution_rows, memory_rows):
        for row in rows(torch):
            if any(word in row.name for word in options.filter.split(',')):
                peer.run(row)
        if options.json:
            with open(options.json, 'w', encoding='utf-8') as file:
                json.dump({'card': torch.cuda.get_device_name(),
                           'rows': peer.rows}, file, indent=1)
    print(f'{len(peer.rows)} rows, {peer.n_wrong} wrong')
    return peer.n_wrong != 0


if __name__ == '__main__':
    sys.exit(main())
