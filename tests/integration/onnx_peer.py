#!/usr/bin/env python3
"""Compares ONNX models with ONNX Runtime, by hand.

usage: onnx_peer.py LIBRARY operators          com.microsoft's operators
       onnx_peer.py LIBRARY models FILE...     whole models
       onnx_peer.py LIBRARY times FILE...      time over ONNX Runtime's

Needs the packages onnx, onnxruntime and numpy. LIBRARY is libdoorbell.so.
Inputs are random; sizes that a model names are 1. INPUT=1x3x64x64 gives an
input's shape, INPUT@VALUE all its elements; both are of the files behind them. A model that differs by more than
1e-4 of the output's largest value is judged by the same model
with its weights and casts in float64, run by the onnx package's own evaluator.
THREADS: how many threads both have (1).
"""
import ctypes as ct
import os
import statistics
import sys
import time

THREADS = int(os.environ.get('THREADS', '1'))
os.environ.setdefault('BELL_CACHE', 'off')
os.environ['BELL_THREADS'] = str(THREADS)

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime as ort  # noqa: E402
from onnx import TensorProto as T  # noqa: E402
from onnx import helper  # noqa: E402

NAMES = ['', 'bool', 'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32',
         'int64', 'uint64', 'float16', 'bfloat16', 'float32', 'float64']


class Error(ct.Structure):
    _fields_ = [('status', ct.c_int), ('sys_errno', ct.c_int),
                ('message', ct.c_char * 512)]


class Dim(ct.Structure):
    _fields_ = [('size', ct.c_int64), ('name', ct.c_char_p)]


class Value(ct.Structure):
    _fields_ = [('name', ct.c_char_p), ('kind', ct.c_char_p),
                ('type', ct.c_char_p), ('dtype', ct.c_int),
                ('has_shape', ct.c_bool), ('ndim', ct.c_uint32)]


class Desc(ct.Structure):
    _fields_ = [('struct_size', ct.c_uint32), ('name', ct.c_char_p),
                ('fn', ct.c_void_p), ('user', ct.c_void_p),
                ('n_in', ct.c_uint32), ('n_out', ct.c_uint32)]


class Library:
    def __init__(self, path):
        self.lib = ct.CDLL(path)
        self.lib.bell_error_last.restype = ct.POINTER(Error)
        for name, kind in (('from_data', ct.c_void_p), ('shape', ct.POINTER(
                ct.c_int64)), ('nbytes', ct.c_uint64), ('ndim', ct.c_uint32),
                           ('onnx_input', ct.POINTER(Value))):
            getattr(self.lib, 'bell_' + name).restype = kind
        self.ctx = ct.c_void_p()
        self.check(self.lib.bell_context_create(b'CPU', ct.byref(self.ctx)))

    def check(self, status):
        if status:
            error = self.lib.bell_error_last().contents
            raise RuntimeError(error.message.decode(errors='replace'))

    def tensor(self, array):
        array = np.array(array, order='C')
        shape = (ct.c_int64 * array.ndim)(*array.shape)
        return ct.c_void_p(self.lib.bell_from_data(
            self.ctx, shape, array.ndim, NAMES.index(str(array.dtype)),
            ct.c_void_p(array.ctypes.data)))

    def array(self, tensor):
        n = self.lib.bell_ndim(tensor)
        shape = self.lib.bell_shape(tensor)[:n] if n else []
        out = np.empty(shape, NAMES[self.lib.bell_dtype_of(tensor)])
        self.check(self.lib.bell_read(tensor, ct.c_void_p(out.ctypes.data),
                                      ct.c_size_t(out.nbytes)))
        return out


class Model:
    """A file that is open; `jit`: it is captured at the first call."""

    def __init__(self, library, path, jit=False):
        self.l, lib = library, library.lib
        self.model, self.jit = ct.c_void_p(), None
        library.check(lib.bell_onnx_open(library.ctx, path.encode(),
                                         ct.byref(self.model)))
        n = lib.bell_onnx_n_inputs(self.model)
        self.n_out = lib.bell_onnx_n_outputs(self.model)
        self.names = [lib.bell_onnx_input(self.model, i).contents.name.decode()
                      for i in range(n)]
        if jit:
            desc = Desc(ct.sizeof(Desc), b'model',
                        ct.cast(lib.bell_onnx_call, ct.c_void_p), self.model,
                        n, self.n_out)
            self.jit = ct.c_void_p()
            library.check(lib.bell_jit_create(library.ctx, ct.byref(desc),
                                              ct.byref(self.jit)))

    def queue(self, tensors):
        given = (ct.c_void_p * len(tensors))(*tensors)
        out = (ct.c_void_p * self.n_out)()
        if self.jit:
            self.l.check(self.l.lib.bell_jit_call(self.jit, given, out))
        else:
            self.l.check(self.l.lib.bell_onnx_call(
                self.l.ctx, self.model, given, out))
        return out

    def __call__(self, feeds):
        self.l.check(self.l.lib.bell_scope_begin(self.l.ctx))
        try:
            out = self.queue([self.l.tensor(feeds[name])
                              for name in self.names])
            return [self.l.array(ct.c_void_p(t)) for t in out]
        finally:
            self.l.lib.bell_scope_end(self.l.ctx)

    def close(self):
        if self.jit:
            self.l.lib.bell_jit_destroy(self.jit)
        self.l.lib.bell_onnx_close(self.model)


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(path, options,
                                providers=['CPUExecutionProvider'])


def difference(got, want):
    """The largest difference over the largest value; NaN and infinities must be
    at the same places."""
    if got.shape != want.shape:
        return float('inf')
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not want.size:
        return 0.0
    odd = ~np.isfinite(want)
    if not np.array_equal(got[odd], want[odd], equal_nan=True):
        return float('inf')
    got, want = got[~odd], want[~odd]
    if not want.size:
        return 0.0
    if not np.isfinite(got).all():
        return float('inf')
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30))


# ---- operators ----

rng = np.random.default_rng(1)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def whole(dtype, *shape, low=None, high=None):
    info = np.iinfo(dtype)
    return rng.integers(info.min if low is None else low,
                        (info.max if high is None else high) + 1, shape, dtype)


def scale(value):
    return np.array(value, np.float32)


def quantised(shape, dtype=np.uint8, step=0.05):
    zero = whole(dtype)
    return [whole(dtype, *shape), scale(step), np.array(zero, dtype)]


def qlinear():
    """Operators of one, two and many quantised inputs."""
    for dtype in (np.uint8, np.int8):
        out = [scale(0.07), np.array(whole(dtype), dtype)]
        for name in ('QLinearAdd', 'QLinearMul'):
            for a, b in (((3, 5), (3, 5)), ((2, 3, 4), (4,)), ((1,), (7,)),
                         ((2, 1, 5), (3, 1)), ((), (2, 2)), ((0, 3), (0, 3))):
                yield name, quantised(a, dtype) + quantised(b, dtype) + out, {}
        for shape in ((3, 5), (2, 3, 4, 4), (1,), (257,)):
            yield 'QLinearSigmoid', quantised(shape, dtype) + [
                scale(1 / 256), np.array(0, dtype)], {}
            for alpha in (0.01, 0.3):
                yield 'QLinearLeakyRelu', quantised(shape, dtype) + out, {
                    'alpha': alpha}
        for axis, opset in ((-1, 13), (1, 13), (0, 13), (1, 11), (2, 12)):
            yield 'QLinearSoftmax', quantised((2, 3, 5), dtype) + [
                scale(1 / 256), np.array(0, dtype)], {'axis': axis,
                                                     'opset': opset}
        for shape in ((1, 3, 8, 8), (2, 5, 7, 6)):
            for last in (0, 1):
                yield 'QLinearGlobalAveragePool', quantised(
                    shape, dtype) + out, {'channels_last': last}
                for more in ({}, {'strides': [2, 2]},
                             {'pads': [1, 1, 1, 1], 'strides': [2, 1]},
                             {'pads': [1, 0, 1, 1], 'count_include_pad': 1},
                             {'ceil_mode': 1, 'strides': [2, 2]},
                             {'auto_pad': 'SAME_UPPER', 'strides': [2, 2]}):
                    yield 'QLinearAveragePool', quantised(
                        shape, dtype) + out, {
                            'kernel_shape': [3, 2], 'channels_last': last,
                            **more}
        for axis, shapes in ((0, [(2, 3), (4, 3)]), (1, [(2, 3), (2, 1)]),
                             (-1, [(1, 2, 3), (1, 2, 2), (1, 2, 5)])):
            parts = [quantised(s, dtype, 0.03 + 0.02 * i)
                     for i, s in enumerate(shapes)]
            yield 'QLinearConcat', out + sum(parts, []), {'axis': axis}
        yield 'QLinearWhere', [rng.random((3, 1)) > 0.5] + quantised(
            (3, 4), dtype) + quantised((4,), dtype) + out, {}


def products():
    for (m, k, n), ta, tb in (((3, 5, 4), 0, 0), ((1, 64, 7), 0, 1),
                              ((5, 17, 33), 1, 0), ((2, 8, 3), 1, 1)):
        a = (k, m) if ta else (m, k)
        b = (n, k) if tb else (k, n)
        for per_column in (False, True):
            b_scale = scale(rng.random(n) / 50) if per_column else scale(.02)
            b_zero = whole(np.int8, n) if per_column else np.array(3, np.int8)
            given = quantised(a) + [whole(np.int8, *b), b_scale, b_zero]
            bias = [whole(np.int32, n, low=-500, high=500)]
            how = {'transA': ta, 'transB': tb, 'alpha': 1.0}
            yield 'QGemm', given + bias + [scale(0.5), np.array(9, np.uint8)], how
            yield 'QGemm', given + bias, how
            yield 'QGemm', given, {**how, 'alpha': 1.5}
            if not ta and not tb:
                a8, a_scale, a_zero = given[:3]
                yield 'MatMulIntegerToFloat', [
                    a8, given[3], a_scale, b_scale, a_zero, b_zero,
                    floats(n)], {}
                yield 'DynamicQuantizeMatMul', [
                    floats(m, k), given[3], b_scale, b_zero, floats(n)], {}
                yield 'DynamicQuantizeMatMul', [
                    floats(2, m, k), given[3], b_scale], {}


def nbits():
    for m, k, n, size, bits in ((1, 32, 5, 16, 4), (3, 70, 8, 32, 4),
                                (2, 128, 33, 128, 4), (4, 64, 16, 32, 8),
                                (2, 100, 9, 16, 8), (1, 256, 17, 64, 4),
                                (2, 64, 4, 32, 2)):
        blocks = (k + size - 1) // size
        b = whole(np.uint8, n, blocks, size * bits // 8)
        given = [floats(m, k), b, scale(rng.random((n, blocks)) / 9)]
        how = {'K': k, 'N': n, 'bits': bits, 'block_size': size}
        zeros = whole(np.uint8, n, (blocks * bits + 7) // 8)
        yield 'MatMulNBits', given, how
        yield 'MatMulNBits', given + [zeros], how
        yield 'MatMulNBits', given + [zeros, None, floats(n)], how
        if bits == 4:
            yield 'MatMulNBits', given + [
                scale(rng.random((n, blocks)) * 15)], how


def lstm():
    for length, batch, size, hidden, way in (
            (1, 1, 4, 8, 'forward'), (5, 2, 7, 16, 'forward'),
            (4, 3, 16, 8, 'reverse'), (3, 2, 10, 4, 'bidirectional')):
        dirs = 2 if way == 'bidirectional' else 1
        for dtype in (np.int8, np.uint8):
            for columns in (1, 4 * hidden):
                shape = (dirs,) if columns == 1 else (dirs, columns)
                zero = (np.zeros(shape, dtype) if columns > 1 or
                        dtype == np.int8 else whole(dtype, *shape))
                yield 'DynamicQuantizeLSTM', [
                    floats(length, batch, size), whole(dtype, dirs, size,
                                                       4 * hidden),
                    whole(dtype, dirs, hidden, 4 * hidden),
                    floats(dirs, 8 * hidden) / 4, None,
                    floats(dirs, batch, hidden), floats(dirs, batch, hidden),
                    None, scale(rng.random(shape) / 300), zero,
                    scale(rng.random(shape) / 300), zero], {
                        'direction': way, 'hidden_size': hidden,
                        '#outputs': 3}


def angles(n, size):
    at = np.arange(n)[:, None] / 10000 ** (np.arange(size) / size)
    return [np.cos(at).astype(np.float32), np.sin(at).astype(np.float32)]


def rotary():
    for inter in (0, 1):
        for ids in (np.array([3], np.int64), whole(np.int64, 2, 5, low=0,
                                                   high=15)):
            yield 'RotaryEmbedding', [floats(2, 5, 24), ids] + angles(16, 4), {
                'interleaved': inter}
            yield 'RotaryEmbedding', [floats(2, 3, 5, 8), ids] + angles(
                16, 4), {'interleaved': inter}
            yield 'RotaryEmbedding', [floats(2, 5, 24), ids] + angles(16, 2), {
                'interleaved': inter, 'num_heads': 3,
                'rotary_embedding_dim': 4}


def grouped():
    for batch, length, past, heads, kv, size in (
            (1, 4, 0, 4, 2, 16), (2, 3, 0, 4, 4, 16), (2, 1, 5, 6, 2, 16),
            (1, 1, 9, 4, 1, 16), (1, 3, 4, 4, 2, 16), (2, 6, 0, 2, 1, 16)):
        for how in ({}, {'do_rotary': 1}, {'local_window_size': 2},
                    {'do_rotary': 1, 'rotary_interleaved': 1}, {'scale': .3},
                    {'softcap': 5.0}, {'smooth_softmax': 1}, {'#packed': 1},
                    {'#packed': 1, 'do_rotary': 1}, {'#bias': 1},
                    {'#sink': 1}):
            packed = how.get('#packed')
            total = past + length
            q = floats(batch, length, heads * size)
            k = floats(batch, length, kv * size)
            v = floats(batch, length, kv * size)
            if packed:
                q, k, v = np.concatenate([q, k, v], 2), None, None
            cache = [floats(batch, kv, past, size),
                     floats(batch, kv, past, size)] if past else [None, None]
            rot = angles(32, size // 2) if how.get('do_rotary') else [None] * 2
            given = [q, k, v] + cache + [
                np.full(batch, total - 1, np.int32),
                np.array(total, np.int32)] + rot
            if how.get('#bias') or how.get('#sink'):
                given += [None, floats(batch, heads, length, total)
                          if how.get('#bias') else None,
                          floats(heads) if how.get('#sink') else None]
            yield 'GroupQueryAttention', given, {
                'num_heads': heads, 'kv_num_heads': kv, '#outputs': 3,
                **{k: v for k, v in how.items() if k not in (
                    '#packed', '#bias', '#sink')}}


def attention():
    for batch, length, other, heads, size in ((1, 4, 4, 2, 8), (2, 3, 5, 4, 8)):
        hidden = heads * size
        base = {'num_heads': heads, '#outputs': 1}
        q, k, v = (floats(batch, n, hidden) for n in (length, other, other))
        lens = whole(np.int32, batch, low=1, high=other)
        flags = whole(np.int32, batch, other, low=0, high=1)
        flags[:, 0] = 1
        for more, how in (
                ([], {}), ([floats(3 * hidden)], {}), ([None, lens], {}),
                ([None, flags], {}), ([], {'scale': 0.2}),
                ([None, None, floats(batch, heads, length, other)], {}),
                ([None, None, floats(1, 1, length, other)], {})):
            yield 'MultiHeadAttention', [q, k, v] + more, {**base, **how}
        yield 'MultiHeadAttention', [
            q, k, v, None, None, None, floats(batch, heads, 3, size),
            floats(batch, heads, 3, size)], {**base, '#outputs': 3}
        yield 'MultiHeadAttention', [
            q, floats(batch, other, heads, 2, size)], base
        yield 'MultiHeadAttention', [
            floats(batch, length, heads, 3, size)], base
        yield 'MultiHeadAttention', [
            q, q, q], {**base, 'unidirectional': 1}
        w, b = floats(6, 3 * hidden) / 3, floats(3 * hidden)
        x = floats(batch, length, 6)
        ends = whole(np.int32, batch, low=1, high=length)
        for more, how in (([], {}), ([ends], {}), ([], {'unidirectional': 1}),
                          ([np.concatenate([ends, ends * 0])], {}),
                          ([flags[:, :length]], {}),
                          ([None, None, floats(batch, heads, length, length)],
                           {})):
            yield 'Attention', [x, w, b] + more, {**base, **how}
        yield 'Attention', [x, w, b, None, floats(2, batch, heads, 3, size)], {
            **base, '#outputs': 2, 'unidirectional': 1}


def others():
    for m in (None, whole(np.int32, 2, 5, low=0, high=1)):
        yield 'EmbedLayerNormalization', [
            whole(np.int32, 2, 5, low=0, high=9),
            whole(np.int32, 2, 5, low=0, high=1), floats(10, 8), floats(6, 8),
            floats(2, 8), floats(8), floats(8)] + ([m] if m is not None else
                                                   []), {'#outputs': 2}
    for name, more in (('Relu', {}), ('Sigmoid', {}), ('Tanh', {}),
                       ('LeakyRelu', {'activation_alpha': 0.2})):
        yield 'FusedGemm', [floats(3, 5), floats(5, 4), floats(4)], {
            'activation': name, 'alpha': 0.5, 'beta': 2.0, **more}
    for how in ({'transBatchA': 1}, {'transBatchB': 1, 'transB': 1},
                {'transBatchA': 1, 'transBatchB': 1, 'alpha': 0.3}):
        a = floats(4, 2, 3, 5) if how.get('transBatchA') else floats(
            2, 3, 4, 5)
        b = floats(2, 3, 5, 6)
        if how.get('transB'):
            b = np.swapaxes(b, 2, 3)
        if how.get('transBatchB'):
            b = np.moveaxis(b, -2, 0)
        yield 'FusedMatMul', [a, b], how
    yield 'QuantizeLinear', [floats(3, 4), scale(.1), np.array(7, np.uint8)], {}
    yield 'QuantizeLinear', [floats(3, 4), scale(.001),
                             np.array(70, np.uint16)], {}
    yield 'DequantizeLinear', quantised((3, 4)), {}
    yield 'DequantizeLinear', quantised((3, 4), np.int16), {}
    yield 'SkipLayerNormalization', [floats(2, 3, 8), floats(2, 3, 8),
                                     floats(8), floats(8), floats(8)], {}
    yield 'SkipSimplifiedLayerNormalization', [
        floats(2, 3, 8), floats(2, 3, 8), floats(8)], {}
    yield 'QuickGelu', [floats(3, 9)], {'alpha': 1.702}
    yield 'BiasGelu', [floats(3, 9), floats(9)], {}
    yield 'FastGelu', [floats(3, 9), floats(9)], {}


def model_of(name, given, how):
    kinds = [None if x is None else helper.np_dtype_to_tensor_dtype(
        np.asarray(x).dtype) for x in given]
    inputs = [helper.make_tensor_value_info(f'x{i}', kind, np.shape(x))
              for i, (x, kind) in enumerate(zip(given, kinds)) if kind]
    outs = [f'y{i}' for i in range(how.get('#outputs', 1))]
    node = helper.make_node(
        name, ['' if x is None else f'x{i}' for i, x in enumerate(given)],
        outs, domain='com.microsoft',
        **{k: v for k, v in how.items() if k[0] != '#'})
    graph = helper.make_graph([node], 'g', inputs, [
        onnx.ValueInfoProto(name=o) for o in outs])
    return helper.make_model(graph, ir_version=9, opset_imports=[
        helper.make_opsetid('', 17), helper.make_opsetid('com.microsoft', 1)])


def same(got, want):
    """Bytes may be one off: a tie falls either way."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f'{got.dtype} {got.shape}, expected {want.dtype} {want.shape}'
    if got.dtype.kind in 'iub':
        off = np.abs(got.astype(np.int64) - want.astype(np.int64))
        return f'{off.max()} off' if off.size and off.max() > 1 else ''
    off = difference(got, want)
    return f'{off:.2g} off' if off > 2e-5 else ''


def operators(library):
    counts, path = {}, '/tmp/onnx_peer.onnx'
    for cases in (qlinear, products, nbits, lstm, rotary, grouped, attention,
                  others):
        for name, given, how in cases():
            row = counts.setdefault(name, [0, 0, 0])
            onnx.save(model_of(name, given, how), path)
            feeds = {f'x{i}': x for i, x in enumerate(given) if x is not None}
            try:
                want = session(path).run(None, feeds)
            except Exception as error: # noqa: BLE001: any refusal of the peer
                row[2] += 1
                print(f'peer: {name} {how}: {str(error)[:150]}')
                continue
            row[1] += 1
            try:
                model = Model(library, path)
                bad = [same(g, w) for g, w in zip(model(feeds), want)]
                model.close()
            except RuntimeError as error:
                bad = [str(error)]
            if any(bad):
                shapes = [np.shape(x) for x in given if x is not None]
                print(f'{name} {how} {shapes}: {bad}')
            else:
                row[0] += 1
    for name, (good, seen, refused) in sorted(counts.items()):
        print(f'{name:28} {good:4} of {seen:4}' +
              (f', {refused} refused by ONNX Runtime' if refused else ''))
    return all(good == seen for good, seen, _ in counts.values())


# ---- models ----

def feeds_of(sess, shapes, values):
    feeds = {}
    for value in sess.get_inputs():
        shape = shapes.get(value.name) or [
            d if isinstance(d, int) and d > 0 else 1 for d in value.shape]
        kind = value.type[len('tensor('):-1]
        if value.name in values:
            x = np.full(shape, values[value.name])
        elif kind in ('float', 'double', 'float16'):
            x = rng.random(shape) if len(shape) == 4 else \
                rng.standard_normal(shape)
        elif kind == 'bool':
            x = rng.random(shape) > 0.5
        else:
            x = rng.integers(0, 2, shape)
        feeds[value.name] = np.asarray(x, {'float': 'float32',
                                           'double': 'float64'}.get(kind, kind))
    return feeds


def files_of(arguments):
    """Each file with the shapes and values that were given before it."""
    shapes, values = {}, {}
    for text in arguments:
        if os.path.exists(text):
            yield text, shapes, values
        elif '@' in text:
            name, value = text.split('@')
            values[name] = float(value)
        else:
            name, sizes = text.split('=')
            shapes[name] = [int(n) for n in sizes.split('x') if n]


def in_double(path, feeds):
    """The model's outputs with float64 in place of float32."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class BatchNormalization(OpRun):
        """The package's own of opset 9 always trains."""

        def _run(self, x, s, b, mean, var, epsilon=1e-5, **_):
            shape = (1, -1) + (1,) * (x.ndim - 2)
            s = (s / np.sqrt(var + epsilon)).reshape(shape)
            return ((x - mean.reshape(shape)) * s + b.reshape(shape),)

    model = onnx.load(path)

    def double(tensor):
        if tensor.data_type == T.FLOAT:
            tensor.CopyFrom(onnx.numpy_helper.from_array(
                onnx.numpy_helper.to_array(tensor).astype(np.float64),
                tensor.name))

    def walk(graph):
        for tensor in graph.initializer:
            double(tensor)
        for value in list(graph.input) + list(graph.output):
            if value.type.tensor_type.elem_type == T.FLOAT:
                value.type.tensor_type.elem_type = T.DOUBLE
        del graph.value_info[:]
        for node in graph.node:
            for attr in node.attribute:
                if attr.type == onnx.AttributeProto.TENSOR:
                    double(attr.t)
                elif attr.type == onnx.AttributeProto.GRAPH:
                    walk(attr.g)
                elif node.op_type == 'Cast' and attr.i == T.FLOAT:
                    attr.i = T.DOUBLE
    walk(model.graph)
    feeds = {k: v.astype(np.float64) if v.dtype == np.float32 else v
             for k, v in feeds.items()}
    return ReferenceEvaluator(model, new_ops=[BatchNormalization]).run(
        None, feeds)


def compare(library, path, shapes, values):
    sess = session(path)
    feeds = feeds_of(sess, shapes, values)
    want = sess.run(None, feeds)
    model = Model(library, path)
    got = model(feeds)
    off = max((difference(g, w) for g, w in zip(got, want)), default=0)
    verdict = 'equal' if off <= 1e-4 else 'DIFFERS'
    if off > 1e-4:
        try:
            exact = in_double(path, feeds)
            ours = max(difference(g, w) for g, w in zip(got, exact))
            theirs = max(difference(g, w) for g, w in zip(want, exact))
            verdict = (f'{"equal" if ours <= 1e-4 else "DIFFERS"}: from '
                       f'float64 ours {ours:.2g}, theirs {theirs:.2g}')
        except Exception as error: # noqa: BLE001: the judge has its own limits
            verdict += f' (no judge: {str(error)[:80]})'
    model.close()
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    return nodes, off, verdict


def models(library, arguments):
    good = True
    for path, shapes, values in files_of(arguments):
        try:
            nodes, off, verdict = compare(library, path, shapes, values)
        except Exception as error: # noqa: BLE001: go on with the others
            nodes, off, verdict = 0, 0, 'FAILED: ' + str(error)[:200]
        good &= verdict.startswith('equal')
        print(f'| {os.path.basename(path)} | {nodes} | {off:.2g} | {verdict} |',
              flush=True)
    return good


# ---- times ----

def times(library, arguments):
    """Processor time, in turns; the medians' and the leasts' ratio."""
    rounds = int(os.environ.get('ROUNDS', '15'))
    for path, shapes, values in files_of(arguments):
        sess = session(path)
        feeds = feeds_of(sess, shapes, values)
        model = Model(library, path, jit=True)
        tensors = [library.tensor(feeds[name]) for name in model.names]

        def ours():
            library.check(library.lib.bell_scope_begin(library.ctx))
            out = model.queue(tensors)
            for t in out:
                library.array(ct.c_void_p(t))
            library.lib.bell_scope_end(library.ctx)

        def theirs():
            sess.run(None, feeds)
        spent = {ours: [], theirs: []}
        for call in (ours, theirs):
            call()
            begin = time.perf_counter()
            call()
            call.repeat = max(1, min(200, int(
                0.05 / max(time.perf_counter() - begin, 1e-5))))
        clock = time.process_time if THREADS == 1 else time.perf_counter
        for _ in range(rounds):
            for call in (ours, theirs):
                begin = clock()
                for _ in range(call.repeat):
                    call()
                spent[call].append((clock() - begin) / call.repeat)
        median = [statistics.median(spent[c]) for c in (ours, theirs)]
        least = [min(spent[c]) for c in (ours, theirs)]
        print(f'| {os.path.basename(path)} | {median[0] * 1e3:.3f} | '
              f'{median[1] * 1e3:.3f} | {median[0] / median[1]:.2f} | '
              f'{least[0] / least[1]:.2f} |', flush=True)
    return True


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    library = Library(sys.argv[1])
    what = {'operators': operators, 'models': models, 'times': times}[
        sys.argv[2]]
    rest = sys.argv[3:]
    sys.exit(0 if (what(library, rest) if rest else what(library)) else 1)


main()
