#!/usr/bin/env python3
"""`doorbell eval`: every function of the table against plain Python, .npy
files, gradients, messages and exit codes.

usage: test_eval.py DOORBELL
"""
import json
import math
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from arrays import (Array, both, differences, places, product, read_npy,
                    write_npy)
from cli import HERE, Tap, expect, expect_json_error, run

sys.path.insert(0, os.path.join(HERE, '..', '..', 'tools'))
import compare_pytorch_table  # noqa: E402

INF, NAN = math.inf, math.nan
F32, F64, I32, I64, BOOL = 'float32', 'float64', 'int32', 'int64', 'bool'


def quarter(k, low=-2, steps=17):
    """Exact in every float dtype, scattered."""
    return low + (k * 7 + 3) % steps / 4


X = Array((3, 4), [quarter(k) for k in range(12)])
Y = Array((3, 4), [quarter(k * 5 + 1) for k in range(12)])
P = Array((3, 4), [0.125 + (k * 5 + 2) % 12 / 16 for k in range(12)])
V = Array((4,), [0.5, -1.25, 2, 0.75])
U = Array((5,), [1, -0.5, 0.25, 2, -1])
W = Array((4, 5), [quarter(k * 3) for k in range(20)])
M = Array((4, 4), [quarter(k + 4) for k in range(16)])
TT = Array((2, 3, 4), [quarter(k * 11) for k in range(24)])
IM = Array((2, 4, 5, 6), [quarter(k * 13) for k in range(240)])
KER = Array((4, 2, 3, 2), [quarter(k * 3 + 1, -1, 9) for k in range(48)])
I = Array((3, 4), [k * 5 % 13 - 6 for k in range(12)], I32)
J = Array((3, 4), [k * 7 % 5 + 1 for k in range(12)], I32)
N = Array((3, 2), [0, 2, 1, 1, -1, 3], I64)
K = Array((3,), [2, 0, 3], I64)
B = Array((3, 4), [k % 3 == 0 for k in range(12)], BOOL)
C = Array((3, 4), [k % 2 == 0 for k in range(12)], BOOL)
S = Array((7,), [NAN, INF, -INF, 0.0, -0.0, 1.5, -2.5])
TIES = Array((2, 4), [3, 1, 3, 2, 0, 0, 5, 5])
# Distinct values, for orders.
O = Array((3, 4), [(k * 5 + 2) % 12 / 2 for k in range(12)])
INPUTS = {'x': X, 'y': Y, 'p': P, 'v': V, 'u': U, 'w': W, 'm': M, 't': TT,
          'im': IM, 'ker': KER, 'i': I, 'j': J, 'n': N, 'k': K, 'b': B,
          'c': C, 's': S, 'ties': TIES, 'o': O}

# (expression, expected array[, tolerance])
CASES = []


def case(expression, want, tolerance=3e-6):
    CASES.append((expression, want, tolerance))


def scalar(value, dtype=F32):
    return Array((), [value], dtype)


def sigmoid(v):
    return 1 / (1 + math.exp(-v))


def softplus(v):
    return math.log1p(math.exp(v))


def erfs(v):
    return 0.5 * v * (1 + math.erf(v / math.sqrt(2)))


def tanh_gelu(v):
    return 0.5 * v * (1 + math.tanh(
        math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))


def relu6(v):
    return min(max(v, 0), 6)


def huber(d, delta=1):
    return d * d / 2 if abs(d) < delta else delta * (abs(d) - delta / 2)


def unary_cases():
    for name, function in {
            'neg': lambda v: -v, 'negative': lambda v: -v, 'abs': abs,
            'sign': lambda v: (v > 0) - (v < 0), 'square': lambda v: v * v,
            'exp': math.exp, 'exp2': lambda v: 2 ** v, 'expm1': math.expm1,
            'sin': math.sin, 'cos': math.cos, 'tan': math.tan,
            'atan': math.atan, 'sinh': math.sinh, 'cosh': math.cosh,
            'tanh': math.tanh, 'asinh': math.asinh, 'erf': math.erf,
            'floor': math.floor, 'ceil': math.ceil, 'round': round,
            'trunc': math.trunc, 'frac': lambda v: v - math.trunc(v),
            'relu': lambda v: max(v, 0), 'relu6': relu6,
            'sigmoid': sigmoid, 'logsigmoid': lambda v: -softplus(-v),
            'silu': lambda v: v * sigmoid(v),
            'quick_gelu': lambda v: v * sigmoid(1.702 * v),
            'softsign': lambda v: v / (1 + abs(v)),
            'mish': lambda v: v * math.tanh(softplus(v)),
            'hardsigmoid': lambda v: relu6(v + 3) / 6,
            'hardswish': lambda v: v * relu6(v + 3) / 6,
            'contiguous': lambda v: v, 'detach': lambda v: v,
            'selu': lambda v: 1.0507009873554805 * (
                v if v > 0 else 1.6732632423543772 * math.expm1(v)),
    }.items():
        case(f'{name}(x)', X.map(function))
    for name, function in {
            'reciprocal': lambda v: 1 / v, 'sqrt': math.sqrt,
            'rsqrt': lambda v: v ** -0.5, 'log': math.log,
            'log2': math.log2, 'log10': math.log10, 'log1p': math.log1p,
            'asin': math.asin, 'acos': math.acos, 'atanh': math.atanh,
    }.items():
        case(f'{name}(p)', P.map(function))
    case('acosh(p + 1)', P.map(lambda v: math.acosh(v + 1)))
    case('bitwise_not(i)', I.map(lambda v: ~v))
    case('logical_not(x)', X.map(lambda v: v == 0, BOOL))
    case('isnan(s)', S.map(math.isnan, BOOL))
    case('isinf(s)', S.map(math.isinf, BOOL))
    case('isposinf(s)', S.map(lambda v: v == math.inf, BOOL))
    case('isneginf(s)', S.map(lambda v: v == -math.inf, BOOL))
    case('isfinite(s)', S.map(math.isfinite, BOOL))
    case('leaky_relu(x, 0.5)', X.map(lambda v: v if v > 0 else v / 2))
    case('elu(x, alpha=0.5)',
         X.map(lambda v: v if v > 0 else math.expm1(v) / 2))
    case('celu(x, 2)',
         X.map(lambda v: v if v > 0 else 2 * math.expm1(v / 2)))
    case('gelu(x)', X.map(erfs))
    case("gelu(x, approximate='tanh')", X.map(tanh_gelu))
    case('softplus(x)', X.map(softplus))
    case('softplus(x, beta=2)', X.map(lambda v: softplus(2 * v) / 2))
    case('hardtanh(x, -0.5, 1)', X.map(lambda v: min(max(v, -0.5), 1)))
    case('dropout(x, 0.5, training=False)', X)
    case('(dropout(ones(64), 0.5) == 2).any() & '
         '(dropout(ones(64), 0.5) == 0).any()', scalar(True, BOOL))


def binary_cases():
    for name, function in {
            'add': lambda a, b: a + b, 'sub': lambda a, b: a - b,
            'mul': lambda a, b: a * b, 'maximum': max, 'minimum': min,
            'atan2': math.atan2, 'hypot': math.hypot,
            'copysign': math.copysign,
            'logaddexp': lambda a, b: math.log(math.exp(a) + math.exp(b)),
    }.items():
        case(f'{name}(x, y)', both(X, Y, function))
    for name, function in {
            'eq': lambda a, b: a == b, 'ne': lambda a, b: a != b,
            'lt': lambda a, b: a < b, 'le': lambda a, b: a <= b,
            'gt': lambda a, b: a > b, 'ge': lambda a, b: a >= b,
            'logical_and': lambda a, b: bool(a and b),
            'logical_or': lambda a, b: bool(a or b),
            'logical_xor': lambda a, b: bool(a) != bool(b),
    }.items():
        case(f'{name}(x, y)', both(X, Y, function, BOOL))
    for name, function in {
            'bitwise_and': lambda a, b: a & b,
            'bitwise_or': lambda a, b: a | b,
            'bitwise_xor': lambda a, b: a ^ b,
            'floor_divide': lambda a, b: a // b,
            'remainder': lambda a, b: a % b,
            'trunc_divide': lambda a, b: int(a / b),
            'fmod': lambda a, b: int(math.fmod(a, b)),
            'bitwise_left_shift': lambda a, b: a << b,
            'bitwise_right_shift': lambda a, b: a >> b,
            'pow': lambda a, b: a ** b,
    }.items():
        case(f'{name}(i, j)', both(I, J, function))
    case('div(i, j)', both(I, J, lambda a, b: a / b, F32))
    case('true_divide(x, p)', both(X, P, lambda a, b: a / b))
    case("div(i, j, rounding_mode='floor')", both(I, J, lambda a, b: a // b))
    case('add(x, y, alpha=2)', both(X, Y, lambda a, b: a + 2 * b))
    case('x + v', both(X, V, lambda a, b: a + b))
    case('x[:, :1] * v', both(Array((3, 1), X.flat[::4]), V,
                              lambda a, b: a * b))
    case('nextafter(p, 4.) - p', P.map(
        lambda v: 2.0 ** (math.frexp(v)[1] - 24)), 1e-9)
    case('where(b, x, y)', Array((3, 4), [
        a if c else d for c, a, d in zip(B.flat, X.flat, Y.flat)]))
    case('where(x > 0, 1, 0)', X.map(lambda v: int(v > 0), I64))
    case('clamp(x, -1, 1)', X.map(lambda v: min(max(v, -1), 1)))
    case('clamp(i, max=2)', I.map(lambda v: min(v, 2)))
    case('lerp(x, y, 0.25)', both(X, Y, lambda a, b: a + 0.25 * (b - a)))
    case('addcmul(x, y, p, value=2)', Array((3, 4), [
        a + 2 * b * c for a, b, c in zip(X.flat, Y.flat, P.flat)]))
    case('addcdiv(x, y, p)', Array((3, 4), [
        a + b / c for a, b, c in zip(X.flat, Y.flat, P.flat)]))
    case('isclose(x, y, rtol=0, atol=1)',
         both(X, Y, lambda a, b: abs(a - b) <= 1, BOOL))
    case('allclose(x, x)', scalar(True, BOOL))
    case('allclose(x, y)', scalar(False, BOOL))


def conversion_cases():
    for dtype in ('int8', 'int16', 'int32', 'int64', 'uint8', 'uint16',
                  'uint32', 'uint64'):
        case(f'{dtype}(o)', O.map(int, dtype))
    for dtype in ('float16', 'float32', 'float64'):
        case(f'x.{dtype}()', X.map(float, dtype))
    case('bfloat16(x) * 2', X.map(lambda v: v * 2))  # written as float32
    for dtype in ('float8_e4m3fn', 'float8_e5m2', 'float8_e4m3fnuz',
                  'float8_e5m2fnuz'):
        case(f'{dtype}(arange(-8, 9)) * 2',
             Array((17,), [v * 2.0 for v in range(-8, 9)]))
    case('x.bool()', X.map(bool, BOOL))
    case('to(i, float64)', I.map(float, F64))
    case('to(s, int32)', Array((7,), [0, 2147483647, -2147483648, 0, 0, 1, -2],
                               I32))
    case('(i * 100).to(int8)',
         I.map(lambda v: (v * 100 + 128) % 256 - 128, 'int8'))
    case('bitcast(ones(2), int32)', Array((2,), [0x3f800000] * 2, I32))


def shape_cases():
    def moved(shape, function, array=X):
        return Array.make(shape, lambda *at: array[function(*at)],
                          array.dtype)

    case('reshape(x, 2, -1)', Array((2, 6), X.flat))
    case('x.view(12)', Array((12,), X.flat))
    case('permute(t, 2, 0, 1)', TT.permute((2, 0, 1)))
    case('transpose(t, 0, -1)', TT.permute((2, 1, 0)))
    case('x.t()', X.permute((1, 0)))
    case('x.T', X.permute((1, 0)))
    case('mT(t)', TT.permute((0, 2, 1)))
    case('movedim(t, 0, 2)', TT.permute((1, 2, 0)))
    case('expand(v, 2, 4)', moved((2, 4), lambda a, b: b, V))
    case('squeeze(x[None, :, :1])', Array((3,), X.flat[::4]))
    case('unsqueeze(x, 1)', Array((3, 1, 4), X.flat))
    case('flatten(t, 1)', Array((2, 12), TT.flat))
    case('ravel(t)', Array((24,), TT.flat))
    case('unflatten(x, 1, (2, 2))', Array((3, 2, 2), X.flat))
    case('flip(x, 0, 1)', Array((3, 4), X.flat[::-1]))
    case('fliplr(x)', moved((3, 4), lambda a, b: (a, 3 - b)))
    case('flipud(x)', moved((3, 4), lambda a, b: (2 - a, b)))
    case('roll(x, 1, 1)', moved((3, 4), lambda a, b: (a, (b - 1) % 4)))
    case('roll(x, -2)', Array((3, 4), X.flat[2:] + X.flat[:2]))
    case("pad(x, (1, 0), 'circular')", Array.make(
        (3, 5), lambda a, b: X[a, (b + 3) % 4]))
    case("pad(x, (2, 1, 1, 0), 'reflect')", Array.make(
        (4, 7), lambda a, b: X[abs(a - 1), (2, 1, 0, 1, 2, 3, 2)[b]]))
    case("pad(x, (0, 0, 2, 0), 'replicate')", Array.make(
        (5, 4), lambda a, b: X[max(a - 2, 0), b]))
    case('pad(x, (1, 2, 0, 1), value=9)', Array.make(
        (4, 7), lambda a, b: X[a, b - 1] if a < 3 and 1 <= b < 5 else 9))
    case('repeat(x, 2, 1, 2)',
         moved((2, 3, 8), lambda z, a, b: (a, b % 4)))
    case('tile(x, (2,))', moved((3, 8), lambda a, b: (a, b % 4)))
    case('repeat_interleave(v, tensor([0, 2, 1, 0]))',
         Array((3,), [V.flat[1], V.flat[1], V.flat[2]]))
    case('repeat_interleave(x, 2, dim=1)',
         moved((3, 8), lambda a, b: (a, b // 2)))
    case('tril(m, 1)', Array.make((4, 4), lambda a, b:
                                  M[a, b] if b <= a + 1 else 0))
    case('triu(m)', Array.make((4, 4), lambda a, b: M[a, b] if b >= a else 0))
    case('diag(v)', Array.make((4, 4), lambda a, b: V[a] if a == b else 0))
    case('diagonal(m, 1)', Array((3,), [M[k, k + 1] for k in range(3)]))
    case('trace(m)', scalar(sum(M[k, k] for k in range(4))))
    case('unfold(x, 1, 2, 2)', moved((3, 2, 2), lambda a, w, k:
                                     (a, 2 * w + k)))
    case('cat([x, y], dim=1)', Array.make((3, 8), lambda a, b:
                                          X[a, b] if b < 4 else Y[a, b - 4]))
    case('stack([x, y], 1)', Array.make((3, 2, 4), lambda a, z, b:
                                        (X, Y)[z][a, b]))
    case('split(x, [1, 3], 1)[1]', moved((3, 3), lambda a, b: (a, b + 1)))
    case('split(x, 3, 1)[1]', moved((3, 1), lambda a, b: (a, 3)))
    case('chunk(x, 2, dim=1)[1]', moved((3, 2), lambda a, b: (a, b + 2)))
    case('unbind(x)[2]', Array((4,), X.flat[8:]))
    case('meshgrid(v, u)[1]', moved((4, 5), lambda a, b: b, U))
    case('pixel_shuffle(reshape(t, 1, 4, 2, 3), 2)', Array.make(
        (1, 1, 4, 6), lambda n, c, h, w: TT.flat[
            ((h % 2 * 2 + w % 2) * 2 + h // 2) * 3 + w // 2]))
    case('pixel_unshuffle(reshape(t, 1, 1, 4, 6), 2)', Array.make(
        (1, 4, 2, 3), lambda n, c, h, w: TT.flat[
            (2 * h + c // 2) * 6 + 2 * w + c % 2]))
    case("rearrange(x, 'e (f g) -> g (e f)', g=2)",
         moved((2, 6), lambda c, ab: (ab // 2, ab % 2 * 2 + c), X))
    case('x[::-1, 1:4:2]', moved((3, 2), lambda a, b: (2 - a, 2 * b + 1)))
    case('t[1, ..., -1]', Array((3,), [TT[1, a, 3] for a in range(3)]))
    case('x[None, 1, :2]', Array((1, 2), X.flat[4:6]))


def index_cases():
    column = [[n % 4 for n in N.flat[2 * a:2 * a + 2]] for a in range(3)]
    case('select(x, 1, 2)', Array((3,), X.flat[2::4]))
    case('narrow(x, 1, 1, 2)', Array.make((3, 2), lambda a, b: X[a, b + 1]))
    case('gather(x, 1, n)', Array.make((3, 2), lambda a, b:
                                       X[a, column[a][b]]))
    case('gather(x, 1, tensor([[0], [7], [1]]) + n[:, :1] * 0)',
         Array((3, 1), [X[0, 0], 0, X[2, 1]]))
    case('index_select(x, 1, k)', Array.make((3, 3), lambda a, b: X[a, K[b]]))
    case('x[:, k]', Array.make((3, 3), lambda a, b: X[a, K[b]]))
    case('x[[0, 2], [1, 3]]', Array((2,), [X[0, 1], X[2, 3]]))
    case('take(x, k)', Array((3,), [X.flat[k] for k in K.flat]))
    case('embedding(k, w)', Array.make((3, 5), lambda a, b: W[K[a], b]))
    case('one_hot(k, 4)', Array.make((3, 4), lambda a, b: int(K[a] == b), I64))
    case('masked_fill(x, b, 5)', Array((3, 4), [
        5 if c else a for c, a in zip(B.flat, X.flat)]))
    scattered, added = X.map(float), X.map(float)
    for a in range(3):
        for b in range(2):
            scattered.flat[4 * a + column[a][b]] = Y[a, b]
            added.flat[4 * a + column[a][b]] += Y[a, b]
    case('scatter(x, 1, n, y)', scattered)
    case('scatter_add(x, 1, n, y)', added)
    case('assign_slice(x, [1, 2], y[:2, :2]) - x', Array.make(
        (3, 4), lambda a, b: Y[a - 1, b - 2] - X[a, b]
        if a >= 1 and b >= 2 else 0))


def variance(values, correction=1):
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values) / (len(values) - correction)


def logsumexp(values):
    return math.log(sum(math.exp(v) for v in values))


def softmax(values):
    total = sum(math.exp(v) for v in values)
    return [math.exp(v) / total for v in values]


def running(function):
    def along(values):
        out = values[:1]
        for v in values[1:]:
            out.append(function(out[-1], v))
        return out
    return along


def order_of(values, reverse=False):
    keys = sorted(range(len(values)), key=lambda k: values[k],
                  reverse=reverse)
    return keys


def reduce_cases():
    for name, function, dtype in (
            ('sum', sum, F32), ('prod', product, F32), ('amax', max, F32),
            ('amin', min, F32),
            ('mean', lambda v: sum(v) / len(v), F32),
            ('any', any, BOOL), ('all', all, BOOL),
            ('logsumexp', logsumexp, F32), ('var', variance, F32),
            ('std', lambda v: math.sqrt(variance(v)), F32),
            ('count_nonzero', lambda v: sum(w != 0 for w in v), I64),
            ('norm', lambda v: math.hypot(*v), F32)):
        dim = 'dim=' if name == 'norm' else ''
        case(f'{name}(x)', X.reduce(None, function, dtype=dtype), 1e-5)
        case(f'{name}(x, {dim}1)', X.reduce([1], function, dtype=dtype), 1e-5)
        if name != 'count_nonzero':
            case(f'x.{name}(axis=0, keepdims=True)',
                 X.reduce([0], function, True, dtype), 1e-5)
    case('sum(i)', scalar(sum(I.flat), I64))
    case('sum(b, 0)', B.reduce([0], sum, dtype=I64))
    case('sum(t, (0, 2))', TT.reduce([0, 2], sum))
    case('var_mean(x, 1)[0]', X.reduce([1], variance))
    case('std_mean(x, 1)[1]', X.reduce([1], lambda v: sum(v) / len(v)))
    case('var(x, 1, correction=0)', X.reduce([1], lambda v: variance(v, 0)))
    case('norm(x, 1, 1)', X.reduce([1], lambda v: sum(map(abs, v))))
    case('norm(x, inf, 1)', X.reduce([1], lambda v: max(map(abs, v))))
    case('argmax(o)', scalar(O.flat.index(max(O.flat)), I64))
    case('argmax(ties, 1)', TIES.reduce([1], lambda v: v.index(max(v)),
                                        dtype=I64))
    case('argmin(o, dim=0, keepdim=True)',
         O.reduce([0], lambda v: v.index(min(v)), True, I64))
    case('softmax(x)', X.along(-1, softmax))
    case('x.softmax(axis=0)', X.along(0, softmax))
    case('log_softmax(x, 1)', X.along(1, lambda v: [w - logsumexp(v)
                                                    for w in v]))
    case('softmin(x, 1)', X.along(1, lambda v: softmax([-w for w in v])))
    case('normalize(x)', X.along(1, lambda v: [w / math.hypot(*v)
                                               for w in v]))
    case('cumsum(x, 1)', X.along(1, running(lambda a, b: a + b)))
    case('cumsum(i, 0)', I.along(0, running(lambda a, b: a + b), I64))
    case('cumprod(x, 0)', X.along(0, running(lambda a, b: a * b)))
    case('sort(x, 1)[0]', X.along(1, sorted))
    case('sort(ties, 1, descending=True)[1]', TIES.along(
        1, lambda v: order_of(v, True), I64))
    case('msort(x)', X.along(0, sorted))
    case('argsort(o, 0)', O.along(0, order_of, I64))
    top = [sorted(O.flat[4 * a:4 * a + 4], reverse=True)[:2] for a in range(3)]
    case('topk(o, 2)[0]', Array.of(top))
    case('topk(o, 2)[1]', Array.make((3, 2), lambda a, b: O.flat[
        4 * a:4 * a + 4].index(top[a][b]), I64))


def select_cases():
    column = [[n % 4 for n in N.flat[2 * a:2 * a + 2]] for a in range(3)]
    for way, own, function in (
            ('sum', True, sum), ('prod', True, product), ('amax', True, max),
            ('amin', False, min),
            ('mean', False, lambda v: sum(v) / len(v))):
        combined = X.map(float)
        for a in range(3):
            for c in range(4):
                found = [Y[a, b] for b in range(2) if column[a][b] == c]
                if found:
                    combined.flat[4 * a + c] = function(
                        found + [X[a, c]] * own)
        case(f"scatter_reduce(x, 1, n, y, '{way}', {own})", combined, 1e-6)
        if way in ('sum', 'prod'):
            word = {'sum': 'add', 'prod': 'multiply'}[way]
            case(f"scatter(x, 1, n, y, reduce='{word}')", combined, 1e-6)
    added, copied = X.map(float), X.map(float)
    for a in range(3):
        for k in range(3):
            added.flat[4 * a + K[k]] += 2 * Y[a, k]
            copied.flat[4 * a + K[k]] = Y[a, k]
    case('index_add(x, 1, k, y[:, :3], alpha=2)', added)
    case('index_copy(x, 1, k, y[:, :3])', copied)
    put = X.map(float)
    for a, c, v in zip((0, 2, 0), K.flat, (7, 8, 9)):
        put.flat[4 * a + c] += v
    case('index_put(x, [tensor([0, 2, 0]), k], tensor([7., 8., 9.]), '
         'accumulate=True)', put)
    case('index_put(x, [b], 5.)', Array((3, 4), [
        5 if c else a for c, a in zip(B.flat, X.flat)]))
    case('take_along_dim(x, k)', Array((3,), [X.flat[k] for k in K.flat]))
    case('take_along_dim(x, n % 4, 1)', Array.make((3, 2), lambda a, b: X[
        a, column[a][b]]))
    for name, function in (('max', max), ('min', min)):
        case(f'{name}(x)', scalar(function(X.flat)))
        case(f'{name}(o, 1)[0]', O.reduce([1], function))
        case(f'{name}(ties, axis=1)[1]', TIES.reduce([1], lambda v: v.index(
            function(v)), dtype=I64))
        case(f'cum{name}(o, 1)[0]', O.along(1, running(function)))
        case(f'cum{name}(ties, 1)[1]', TIES.along(1, lambda v: [max(
            k for k in range(j + 1) if v[k] == function(v[:j + 1]))
            for j in range(len(v))], I64))
    case('aminmax(x, dim=0)[1]', X.reduce([0], max))
    case('median(o)', scalar(sorted(O.flat)[5]))
    case('median(o, 1)[1]', O.reduce([1], lambda v: order_of(v)[1],
                                     dtype=I64))
    case('nanmedian(o, 0)[0]', O.reduce([0], lambda v: sorted(v)[1]))
    case('mode(ties, 1)[0]', Array((2,), [3, 0]))
    case('mode(ties, 1)[1]', Array((2,), [2, 1], I64))
    case('kthvalue(o, 2, 1)[0]', O.reduce([1], lambda v: sorted(v)[1]))
    case('quantile(o, 0.25, 1)', O.reduce([1], lambda v: (
        sorted(v)[0] + 3 * sorted(v)[1]) / 4), 1e-6)
    case("nanquantile(o, 0.6, interpolation='higher')",
         scalar(sorted(O.flat)[7]))
    case('searchsorted(tensor([-0.5, 0.5, 0.5, 1.]), v)', Array((4,), [sum(
        s < w for s in (-0.5, 0.5, 0.5, 1)) for w in V.flat], I64))
    case('bucketize(v, tensor([-0.5, 0.5, 0.5, 1.]), right=True)', Array((4,), [sum(
        s <= w for s in (-0.5, 0.5, 0.5, 1)) for w in V.flat], I64))
    case('histc(o, 3, 0, 3)', Array((3,), [sum(
        a <= w < a + 1 or w == a + 1 == 3 for w in O.flat)
        for a in range(3)]))
    case('bincount(k, minlength=6)', Array((6,), [1, 0, 1, 1, 0, 0], I64))
    case('bincount(k, tensor([1., 2., 4.]))', Array((4,), [2, 0, 1, 4]))
    case('unique(ties)', Array((5,), [0, 1, 2, 3, 5]))
    case('unique(ties, return_inverse=True)[1]', TIES.map(
        lambda w: [0, 1, 2, 3, 5].index(w), I64))
    case('unique(ties, return_counts=True)[1]', Array((5,), [
        TIES.flat.count(w) for w in (0, 1, 2, 3, 5)], I64))
    case('unique_consecutive(ties, return_counts=True)[0]', Array(
        (6,), [3, 1, 3, 2, 0, 5]))
    case('nonzero(b)', Array.of([[k // 4, k % 4] for k in range(12)
                                 if B.flat[k]], I64))
    case('masked_select(x, b)', Array((4,), X.flat[::3]))
    case('masked_select(x, b, size=5, fill_value=9)',
         Array((5,), X.flat[::3] + [9]))
    case('nonzero(b, size=2)', Array((2, 2), [0, 0, 0, 3], I64))
    case('x[b]', Array((4,), X.flat[::3]))
    case('x[:, v > 0]', Array.make((3, 3), lambda a, c: X[a, (0, 2, 3)[c]]))
    case('logcumsumexp(x, 1)', X.along(1, lambda v: [
        logsumexp(v[:k + 1]) for k in range(len(v))]), 1e-5)
    case('multinomial(tensor([0., 1., 0.]), 4, replacement=True)', Array(
        (4,), [1] * 4, I64))
    spectrum = [10, 0, -2, 2, -2, 0, -2, -2]
    case('rfft(tensor([1., 2., 3., 4.]))', Array((3, 2), spectrum[:6]), 1e-5)
    case('irfft(tensor([[10., 0], [-2, 2], [-2, 0]]))',
         Array((4,), [1, 2, 3, 4]), 1e-5)
    case('fft(tensor([[1., 0], [2, 0], [3, 0], [4, 0]]))',
         Array((4, 2), spectrum), 1e-5)
    case("ifft(tensor([[10., 0], [-2, 2], [-2, 0], [-2, -2]]), norm='forward')",
         Array((4, 2), [4, 0, 8, 0, 12, 0, 16, 0]), 1e-5)
    case('stft(tensor([1., 2., -1., 0.5]), 2, 2, center=False)',
         Array((2, 2, 2), [3, 0, -0.5, 0, -1, 0, -1.5, 0]), 1e-5)
    case('istft(tensor([[[3., 0], [-0.5, 0]], [[-1., 0], [-1.5, 0]]]), 2, 2, '
         'center=False)', Array((4,), [1, 2, -1, 0.5]), 1e-5)
    case('cholesky(tensor([[4., 2.], [2., 5.]]))', Array((2, 2), [2, 0, 1, 2]), 1e-5)
    case('cholesky(tensor([[4., 2.], [2., 5.]]), upper=True)',
         Array((2, 2), [2, 1, 0, 2]), 1e-5)
    case('solve(tensor([[2., 1.], [1., 3.]]), tensor([3., 5.]))',
         Array((2,), [0.8, 1.4]), 1e-5)
    case('solve_triangular(tensor([[2., 1.], [9., 4.]]), tensor([[4.], [8.]]), '
         'upper=True)', Array((2, 1), [1, 2]), 1e-5)
    case('inv(tensor([[2., 1.], [1., 1.]]))', Array((2, 2), [1, -1, -1, 2]), 1e-5)
    case('det(tensor([[2., 1.], [1., 3.]]))', scalar(5), 1e-5)
    case('qr(tensor([[3., 1.], [4., 2.]]))[1]',
         Array((2, 2), [-5, -2.2, 0, 0.4]), 1e-5)
    case('svd(tensor([[3., 0.], [0., -4.], [0., 0.]]))[1]', Array((2,), [4, 3]), 1e-5)
    case('svdvals(tensor([[3., 0., 0.], [0., -4., 0.]]))', Array((2,), [4, 3]), 1e-5)
    case('eigh(tensor([[2., 0.], [5., 2.]]), "U")[0]', Array((2,), [2, 2]), 1e-5)
    case('eigvalsh(tensor([[1., 9.], [2., 1.]]))', Array((2,), [-1, 3]), 1e-5)
    case('slogdet(tensor([[0., -2.], [-3., 0.]]))[1]', Array((), [math.log(6)]), 1e-5)
    case('pinv(tensor([[2., 0.], [0., 0.]]))', Array((2, 2), [0.5, 0, 0, 0]), 1e-5)
    case('matrix_rank(tensor([[1., 2.], [2., 4.]]))', Array((), [1], 'int64'))
    case('cdist(x, y)', Array.make((3, 3), lambda a, c: math.hypot(
        *[X[a, k] - Y[c, k] for k in range(4)])), 1e-5)
    case('tensordot(x, y, [[0], [0]])', Array.make((4, 4), lambda a, c: sum(
        X[k, a] * Y[k, c] for k in range(3))), 1e-5)
    case('tensordot(x, w, 1)', matmul(X, W), 1e-5)
    case('kron(v, u)', Array((20,), [a * c for a in V.flat for c in U.flat]))
    case('smooth_l1_loss(x, y, beta=0.5)', scalar(sum(
        huber(a - c, 0.5) / 0.5 for a, c in zip(X.flat, Y.flat)) / 12), 1e-5)
    case("kl_div(x, p, 'batchmean')", scalar(sum(
        c * (math.log(c) - a) for a, c in zip(X.flat, P.flat)) / 3), 1e-5)


def matmul(x, y):
    return Array.make((x.shape[0], y.shape[1]), lambda a, b: sum(
        x[a, k] * y[k, b] for k in range(x.shape[1])))


def attention(q, k, v, causal):
    out = []
    for z in range(q.shape[0]):
        for a in range(q.shape[1]):
            row = [sum(q[z, a, e] * k[z, s, e] for e in range(q.shape[2])) /
                   math.sqrt(q.shape[2]) for s in range(k.shape[1])]
            if causal:
                row = row[:a + 1]
            row = softmax(row)
            out += [sum(r * v[z, s, e] for s, r in enumerate(row))
                    for e in range(v.shape[2])]
    return Array(q.shape, out)


def conv2d(x, w, bias, stride, padding, dilation, groups):
    sizes = [(n + 2 * padding - dilation * (k - 1) - 1) // stride + 1
             for n, k in zip(x.shape[2:], w.shape[2:])]
    per_group = w.shape[0] // groups

    def element(n, o, a, b):
        total = bias[o] if bias else 0
        for i, p, q in places(w.shape[1:]):
            r = a * stride + p * dilation - padding
            c = b * stride + q * dilation - padding
            if 0 <= r < x.shape[2] and 0 <= c < x.shape[3]:
                total += w[o, i, p, q] * x[
                    n, o // per_group * w.shape[1] + i, r, c]
        return total
    return Array.make((x.shape[0], w.shape[0], *sizes), element)


def conv_transpose2d(x, w, stride):
    shape = (x.shape[0], w.shape[1],
             (x.shape[2] - 1) * stride + w.shape[2],
             (x.shape[3] - 1) * stride + w.shape[3])
    out = Array(shape, [0] * product(shape))
    for n, i, a, b in places(x.shape):
        for o, p, q in places(w.shape[1:]):
            at = ((n * shape[1] + o) * shape[2] + a * stride + p) * shape[3] \
                + b * stride + q
            out.flat[at] += x[n, i, a, b] * w[i, o, p, q]
    return out


def pool(x, kernel, stride, padding, function):
    sizes = [(n + 2 * padding - kernel) // stride + 1 for n in x.shape[2:]]

    def element(n, c, a, b):
        rows = range(a * stride - padding, a * stride - padding + kernel)
        cols = range(b * stride - padding, b * stride - padding + kernel)
        return function([x[n, c, r, s] for r in rows for s in cols
                         if 0 <= r < x.shape[2] and 0 <= s < x.shape[3]])
    return Array.make((*x.shape[:2], *sizes), element)


def normed(values, eps):
    mean = sum(values) / len(values)
    var = sum((v - mean) ** 2 for v in values) / len(values)
    return [(v - mean) / math.sqrt(var + eps) for v in values]


def nn_cases():
    case('matmul(x, w)', matmul(X, W), 1e-5)
    case('x @ w', matmul(X, W), 1e-5)
    case('mm(x, w)', matmul(X, W), 1e-5)
    case('mv(x, v)', Array((3,), matmul(X, Array((4, 1), V.flat)).flat))
    case('bmm(t, t.mT)', Array.make((2, 3, 3), lambda z, a, b: sum(
        TT[z, a, k] * TT[z, b, k] for k in range(4))), 1e-5)
    case('dot(v, v)', scalar(sum(a * a for a in V.flat)))
    case('outer(v, u)', Array.make((4, 5), lambda a, b: V[a] * U[b]))
    case('addmm(u, x, w, beta=2, alpha=0.5)', both(
        matmul(X, W), U, lambda a, b: a / 2 + 2 * b), 1e-5)
    case("einsum('ij,jk->ki', x, w)", matmul(X, W).permute((1, 0)), 1e-5)
    case("einsum('bij->j', t)", TT.reduce([0, 1], sum))
    case('linear(x, w.T, u)', both(matmul(X, W), U, lambda a, b: a + b), 1e-5)
    case('scaled_dot_product_attention(t, t, t)',
         attention(TT, TT, TT, False), 1e-5)
    case('scaled_dot_product_attention(t, t, t, is_causal=True)',
         attention(TT, TT, TT, True), 1e-5)
    case('conv2d(im, ker, v, groups=2)', conv2d(IM, KER, V, 1, 0, 1, 2), 1e-5)
    case("conv1d(t, t[:, :, :2], padding='same')", Array.make(
        (2, 2, 4), lambda n, o, a: sum(
            TT[o, i, q] * TT[n, i, a + q] for i in range(3)
            for q in range(2) if a + q < 4)), 1e-5)
    case("conv1d(t[0], t[:, :, :2], padding='valid')", Array.make(
        (2, 3), lambda o, a: sum(
            TT[o, i, q] * TT[0, i, a + q] for i in range(3)
            for q in range(2))), 1e-5)
    case('conv1d(t, t[:, :, :2], padding=[2, 0])', Array.make(
        (2, 2, 5), lambda n, o, a: sum(
            TT[o, i, q] * TT[n, i, a + q - 2] for i in range(3)
            for q in range(2) if a + q >= 2)), 1e-5)
    case('conv2d(im, ker, stride=2, padding=1, groups=2)',
         conv2d(IM, KER, None, 2, 1, 1, 2), 1e-5)
    case('conv1d(t, t[:, :, :2], padding=1, dilation=2)', Array.make(
        (2, 2, 4), lambda n, o, a: sum(
            TT[o, i, q] * TT[n, i, a + 2 * q - 1] for i in range(3)
            for q in range(2) if 0 <= a + 2 * q - 1 < 4)), 1e-5)
    case('conv_transpose2d(im, ker, stride=2)',
         conv_transpose2d(IM, KER, 2), 1e-5)
    case('max_pool2d(im, 2)', pool(IM, 2, 2, 0, max))
    case('max_pool2d(im, 3, stride=1, padding=1)', pool(IM, 3, 1, 1, max))
    case('avg_pool2d(im, 2)', pool(IM, 2, 2, 0, lambda v: sum(v) / 4))
    case('avg_pool2d(im, 3, 2, padding=1)',
         pool(IM, 3, 2, 1, lambda v: sum(v) / 9))
    case('avg_pool2d(im, 3, 2, 1, count_include_pad=False)',
         pool(IM, 3, 2, 1, lambda v: sum(v) / len(v)))
    case('conv3d(im.unsqueeze(2), ker.unsqueeze(2), v, groups=2).squeeze(2)',
         conv2d(IM, KER, V, 1, 0, 1, 2), 1e-5)
    case('conv_transpose3d(im.unsqueeze(2), ker.unsqueeze(2), '
         'stride=(1, 2, 2)).squeeze(2)', conv_transpose2d(IM, KER, 2), 1e-5)
    case('conv_transpose1d(t, t.permute(1, 0, 2), stride=4)', Array.make(
        (2, 2, 16), lambda n, o, a: sum(
            TT[n, i, a // 4] * TT[o, i, a % 4] for i in range(3))), 1e-5)
    case('max_pool1d(t, 2)', Array.make((2, 3, 2), lambda n, c, a: max(
        TT[n, c, 2 * a], TT[n, c, 2 * a + 1])))
    case('max_pool1d(t, 2, return_indices=True)[1]', Array.make(
        (2, 3, 2), lambda n, c, a: 2 * a + (
            TT[n, c, 2 * a + 1] > TT[n, c, 2 * a]), 'int64'))
    case('max_unpool1d(t[:, :, :2], arange(2) * 2 + zeros_like(t[:, :, :2], '
         'dtype=int64), 2)', Array.make((2, 3, 4), lambda n, c, a: (
             TT[n, c, a // 2] if a % 2 == 0 else 0)))
    case('max_unpool2d(im[:, :, :1, :2], arange(2) * 3 + zeros_like('
         'im[:, :, :1, :2], dtype=int64), 2)', Array.make(
             (2, 4, 2, 4), lambda n, c, a, b: IM[n, c, 0, (a * 4 + b) // 3]
             if a * 4 + b in (0, 3) else 0))
    case('max_unpool3d(im[:, :, :1, :2].unsqueeze(2), arange(2) * 3 + '
         'zeros_like(im[:, :, :1, :2].unsqueeze(2), dtype=int64), (1, 2, 2))'
         '.squeeze(2)', Array.make(
             (2, 4, 2, 4), lambda n, c, a, b: IM[n, c, 0, (a * 4 + b) // 3]
             if a * 4 + b in (0, 3) else 0))
    case('grid_sample(im, zeros(2, 1, 1, 2), align_corners=True)', Array.make(
        (2, 4, 1, 1), lambda n, c, a, b: (IM[n, c, 2, 2] + IM[n, c, 2, 3]) / 2),
         1e-5)
    case('roi_align(im, ones(1, 5), 1, sampling_ratio=1)', Array.make(
        (1, 4, 1, 1), lambda n, c, a, b: (
            IM[1, c, 1, 1] + IM[1, c, 1, 2] + IM[1, c, 2, 1] +
            IM[1, c, 2, 2]) / 4), 1e-5)
    case('nms(stack([zeros(3), zeros(3), arange(3) + 1.0, ones(3)], 1), '
         'arange(3) + 0.5, 0.5)', Array.of([2, 0], 'int64'))
    case('avg_pool1d(t, 2)', Array.make((2, 3, 2), lambda n, c, a: (
        TT[n, c, 2 * a] + TT[n, c, 2 * a + 1]) / 2))

    def boxes(function):
        return Array.make((1, 1, 2), lambda n, c, a: function(
            TT[i, j, 2 * a + k] for i, j, k in places((2, 3, 2))))
    case('max_pool3d(t, (2, 3, 2))', boxes(max))
    case('avg_pool3d(t, (2, 3, 2))', boxes(lambda v: sum(v) / 12), 1e-5)
    case('adaptive_avg_pool1d(t, 3)', Array.make(
        (2, 3, 3), lambda n, c, a: (TT[n, c, a] + TT[n, c, a + 1]) / 2))
    case('adaptive_avg_pool2d(t, (1, 4))', Array.make(
        (2, 1, 4), lambda n, c, a: sum(TT[n, i, a] for i in range(3)) / 3),
        1e-5)
    case('adaptive_avg_pool3d(t, (1, 1, 2))',
         boxes(lambda v: sum(v) / 12), 1e-5)
    case('interpolate(t, 8)', Array.make(
        (2, 3, 8), lambda n, c, a: TT[n, c, a // 2]))
    case("interpolate(t, 7, mode='linear', align_corners=True)", Array.make(
        (2, 3, 7), lambda n, c, a: (TT[n, c, a // 2] + TT[
            n, c, (a + 1) // 2]) / 2), 1e-5)
    case("interpolate(t, scale_factor=0.5, mode='nearest')", Array.make(
        (2, 3, 2), lambda n, c, a: TT[n, c, 2 * a]))
    case('instance_norm(t)', TT.along(2, lambda v: normed(v, 1e-5)), 2e-5)
    case('rms_norm(t, (3, 4), eps=0.5)', Array.make(
        (2, 3, 4), lambda n, i, j: TT[n, i, j] / math.sqrt(0.5 + sum(
            TT[n, a, b] ** 2 for a, b in places((3, 4))) / 12)), 2e-5)
    case("einsum('...j,kj->...k', t, w.T)", Array.make(
        (2, 3, 5), lambda n, i, k: sum(
            TT[n, i, j] * W[j, k] for j in range(4))), 1e-5)
    case('layer_norm(x, [4])', X.along(1, lambda v: normed(v, 1e-5)), 2e-5)
    case('layer_norm(x, [4], v, v)', both(
        X.along(1, lambda v: normed(v, 1e-5)), V,
        lambda a, b: a * b + b), 2e-5)
    case('rms_norm(x, [4], eps=0.5)', X.along(1, lambda v: [
        w / math.sqrt(sum(z * z for z in v) / 4 + 0.5) for w in v]), 2e-5)
    grouped = Array((4, 60), IM.flat).along(1, lambda v: normed(v, 1e-5))
    case('group_norm(im, 2)', Array(IM.shape, grouped.flat), 2e-5)
    case('batch_norm(x, v, p[0])', Array.make((3, 4), lambda a, b: (
        X[a, b] - V[b]) / math.sqrt(P[0, b] + 1e-5)), 2e-5)
    case('batch_norm(x, training=True)',
         X.along(0, lambda v: normed(v, 1e-5)), 2e-5)
    logs = X.along(1, lambda v: [w - logsumexp(v) for w in v])
    picked = [-logs[a, K[a]] for a in range(3)]
    case('cross_entropy(x, k)', scalar(sum(picked) / 3), 1e-5)
    case("cross_entropy(x, k, reduction='none')", Array((3,), picked), 1e-5)
    case('nll_loss(x, k)', scalar(-sum(X[a, K[a]] for a in range(3)) / 3))
    diff = both(X, Y, lambda a, b: a - b)
    case('mse_loss(x, y)', scalar(sum(d * d for d in diff.flat) / 12))
    case("l1_loss(x, y, reduction='sum')", scalar(sum(map(abs, diff.flat))))
    case('huber_loss(x, y)', scalar(sum(map(huber, diff.flat)) / 12))
    truth = [float(c) for c in B.flat]
    case('binary_cross_entropy(p, b.float())', scalar(-sum(
        math.log(a) if c else math.log(1 - a)
        for a, c in zip(P.flat, truth)) / 12))
    case('binary_cross_entropy_with_logits(x, b.float())', scalar(sum(
        softplus(a) - a * c for a, c in zip(X.flat, truth)) / 12))


def create_cases():
    case('tensor([[1, 2], [3, 4]])', Array.of([[1, 2], [3, 4]], I64))
    case('tensor([1, 2.5], dtype=float64)', Array.of([1, 2.5], F64))
    case('[True, False]', Array.of([True, False], BOOL))
    case('zeros(2, 3)', Array((2, 3), [0] * 6))
    case('ones((2,), dtype=int8)', Array((2,), [1, 1], 'int8'))
    case('full((2, 2), 7)', Array((2, 2), [7] * 4, I64))
    case('zeros_like(i)', I.map(lambda v: 0))
    case('ones_like(i, dtype=float64)', I.map(lambda v: 1, F64))
    case('full_like(x, 2.5)', X.map(lambda v: 2.5))
    case('full_like(k, 9007199254740993)',
         Array((3,), [9007199254740993] * 3, I64))
    case('masked_fill(k, k > 0, -9223372036854775808)', K.map(
        lambda v: -2 ** 63 if v > 0 else v))
    case('arange(9007199254740992, 9007199254740996)[1:3]',
         Array((2,), [9007199254740993, 9007199254740994], I64))
    case('unfold(x, 1, 0, 1)', Array((3, 5, 0), []))
    case('scatter(v, 0, k, u)', Array((4,), [-0.5, -1.25, 1, 0.25]))
    case('eye(2, 3)', Array.make((2, 3), lambda a, b: int(a == b)))
    case('arange(5)', Array((5,), range(5), I64))
    case('arange(7, 1, -2)', Array((3,), [7, 5, 3], I64))
    case('arange(0, 1, 0.25)', Array((4,), [0, 0.25, 0.5, 0.75]))
    case('linspace(0, 1, 5)', Array((5,), [0, 0.25, 0.5, 0.75, 1]))
    for name in ('rand(400)', 'uniform(400, 0, 1)', 'rand_like(zeros(400))'):
        case(f'(({name} >= 0) & ({name} < 1)).all() & '
             f'(({name}.mean() - 0.5).abs() < 0.1)', scalar(True, BOOL))
    for name in ('randn(900)', 'normal(0, 1, (900,))',
                 'randn_like(zeros(900))'):
        case(f'({name}.mean().abs() < 0.15) & '
             f'(({name}.std() - 1).abs() < 0.15)', scalar(True, BOOL))
    case('(randint(3, 6, 200) >= 3).all() & (randint(3, 6, 200) < 6).all()',
         scalar(True, BOOL))
    case('sort(randperm(50))[0]', Array((50,), range(50), I64))
    for name, bound in (('scaled_uniform(4, 9)', 1 / 6),
                        ('glorot_uniform(4, 9)', math.sqrt(6 / 13)),
                        ('kaiming_uniform((4, 9))', math.sqrt(6 / 9))):
        case(f'{name}.abs().max() <= {bound + 1e-6}', scalar(True, BOOL))
    case('(kaiming_normal((40, 18)).std() - 1 / 3).abs() < 0.05',
         scalar(True, BOOL))


def used_inputs(expression):
    names = set(re.findall(r'(?<![\w.])([a-z]\w*)\b(?!\s*[(=])', expression))
    return [name for name in INPUTS if name in names]


def check_case(folder, number, expression, want, tolerance):
    out = os.path.join(folder, f'out{number}.npy')
    args = ['eval', expression, '--out', out, '--device', 'CPU']
    for name in used_inputs(expression):
        args += ['--in', f'{name}={folder}/{name}.npy']
    done = run(*args)
    if done.returncode != 0:
        return expect(done, 0)
    return differences(read_npy(out), want, tolerance)


def listed_functions():
    """Names in --list, with their other names."""
    functions = {}
    name = None
    for line in run('eval', '--list').stdout.splitlines():
        match = re.match(r'  (\w+)\(', line)
        if match:
            name = match.group(1)
            functions[name] = [name]
        elif '; also: ' in line:
            functions[name] += line.split('; also: ')[1].split()
    return functions


def check_values(tap, folder):
    for make in (unary_cases, binary_cases, conversion_cases, shape_cases,
                 index_cases, reduce_cases, select_cases, nn_cases, create_cases):
        make()
    with ThreadPoolExecutor(2) as pool_of_threads:
        results = list(pool_of_threads.map(
            lambda c: check_case(folder, c[0], *c[1]), enumerate(CASES)))
    for (expression, _, _), complaints in zip(CASES, results):
        tap.check(f'eval {expression}', complaints)
    functions = listed_functions()
    used = set(re.findall(r'(\w+)\(', ' '.join(c[0] for c in CASES)))
    tap.check('every function of the table has a case', sorted(
        f'none of {names}' for names in functions.values()
        if not used & set(names)) + (
            [] if len(functions) > 180 else [f'{len(functions)} listed']))


def check_effects(tap, folder):
    """What would have no effect is refused by its name."""
    bundle = f'{folder}/effects.bundle'
    weight = ('--weight', 'w=4')
    for expression, args, said in (
            ('w', (*weight, '--save', bundle, '--out', 'y.npy'),
             '--out y.npy is without --save'),
            ('w', (*weight, '--target', 'CPU'), '--target CPU is of --save'),
            ('w', (*weight, '--save', bundle, '--target', 'CPU', '--target',
                   'CPU'), '--target CPU is given twice'),
            ('ones(4)', weight, '--weight w: the expression does not use it'),
            ('x.w + sum(x, w=1)', ('--in', 'x=4', *weight),
             '--weight w: the expression does not use it')):
        complaints = expect(run('eval', expression, *args), 2, err=said)
        if os.path.exists(bundle):
            complaints.append('a bundle is there')
        tap.check(f'refused: {said}', complaints)
    for expression in ('w * 2', '(2 * w).sum()', 'sum(w, dim=0)', 'w.T'):
        tap.check(f'--weight of {expression}', expect(
            run('eval', expression, '--weight', 'w=4x4', '--save', bundle,
                '--target', 'CPU', '--target', 'CPU@null:x86-64-v3'), 0))


def check_gradients(tap, folder):
    for expression, want in (
            ('x * x', X.map(lambda v: 2 * v)),
            ('sum(x * y)', Y),
            ('x @ w', Array.make((3, 4), lambda a, b: sum(
                W[b, k] for k in range(5)))),
            ('tanh(x)', X.map(lambda v: 1 - math.tanh(v) ** 2)),
            ('y * 2', X.map(lambda v: 0))):
        out = f'{folder}/grad.npy'
        done = run('eval', expression, '--grad', 'x', '--out', out, '--in',
                   f'x={folder}/x.npy', '--in', f'y={folder}/y.npy', '--in',
                   f'w={folder}/w.npy')
        tap.check(f'--grad x of {expression}', expect(done, 0) or
                  differences(read_npy(out), want, 1e-5))
    tap.check('--grad of an unknown name', expect(
        run('eval', 'x', '--in', f'x={folder}/x.npy', '--grad', 'z'), 2,
        err='no input has that name'))
    tap.check('--grad of an integer', expect(
        run('eval', 'i * 2', '--in', f'i={folder}/i.npy', '--grad', 'i'), 1,
        err='only floats'))


def check_files(tap, folder):
    path, out = f'{folder}/f.npy', f'{folder}/g.npy'
    for dtype in ('bool', 'int8', 'uint8', 'int16', 'uint16', 'int32',
                  'uint32', 'int64', 'uint64', 'float16', F32, F64):
        array = Array((2, 3), [k % 2 for k in range(6)], dtype)
        for version, fortran, big in ((1, False, False), (2, True, False),
                                      (3, False, True), (1, True, True)):
            write_npy(path, array, version, fortran, big)
            done = run('eval', 'a', '--in', f'a={path}', '--out', out)
            tap.check(f'.npy {dtype} {version} {fortran} {big}', expect(
                done, 0) or differences(read_npy(out), array, 0))
    write_npy(path, Array((), [2.5]))
    done = run('eval', 'a + 1', '--in', f'a={path}', '--out', out)
    tap.check('.npy of shape ()', expect(done, 0) or differences(
        read_npy(out), Array((), [3.5]), 0))
    with open(path, 'rb') as file:
        whole = file.read()
    for size in (0, 5, 9, 40, len(whole) - 1):
        with open(path, 'wb') as file:
            file.write(whole[:size])
        tap.check(f'.npy cut to {size} bytes', expect(
            run('eval', 'a', '--in', f'a={path}'), 1, err=path))
    tap.check('.npy absent', expect(
        run('eval', 'a', '--in', 'a=/nonexistent.npy'), 1,
        err='/nonexistent.npy'))
    tap.check('.npy without an end', expect(
        run('eval', 'a', '--in', 'a=/dev/zero', timeout=15), 1,
        err='/dev/zero: is a device'))
    done = run('eval', 'x.bfloat16()', '--in', f'x={folder}/x.npy', '--out',
               out)
    tap.check('bfloat16 is written as float32', expect(
        done, 0, err='written as float32') or differences(
            read_npy(out), X, 0))


def check_failures(tap, folder):
    out = f'{folder}/never.npy'
    x = ['--in', f'x={folder}/x.npy', '--out', out]
    for expression, column, part in (
            ('sofmax(x)', 1, "did you mean 'softmax'"),
            ('x + y', 5, "no input 'y'"),
            ('x @ x', 3, '(3, 4)'),
            ('exp(x & 1)', 7, 'float32'),
            ('x[0', 4, "expected ']'"),
            ('1 < x < 2', 7, 'chained'),
            ('sum(x, axi=0)', 8, 'axi'),
            ('softplus(x, 9007199254740993)', 13, 'is not a float64'),
            ('x.reshape(5)', 3, '5'),
            ('(' * 500, 101, 'nested more than 100')):
        done = run('eval', expression, *x)
        complaints = expect(done, 1, err=f'column {column}: ')
        if part not in done.stderr:
            complaints.append(f'stderr lacks "{part}": {done.stderr}')
        lines = done.stderr.splitlines()
        if len(lines) < 3 or (
                len(expression) < 100 and
                lines[-1].index('^') != column + 1):
            complaints.append(f'no caret under column {column}: {lines}')
        if os.path.exists(out):
            complaints.append('there is an output file')
        tap.check(f'eval {expression[:30]} fails', complaints)
    done = run('eval', 'x +\n y', *x)
    tap.check('a fault in line 2', expect(done, 1, err='line 2, column 2: '))
    done = run('eval', 's', '--in', f's={folder}/s.npy', '--json')
    tap.check('--json tells what is no number', expect(done, 0) + [
        c for c in [done.stdout] if not done.returncode and
        json.loads(c)['values'][:3] != ['nan', 'inf', '-inf']])
    numbers = ['0.1', '123456789012.5', '1e23', '1.7976931348623157e308',
               '2.2250738585072014e-308', '5e-324', '-0.0']
    done = run('eval', f'tensor([{",".join(numbers)}],dtype=float64)', '--json')
    tap.check('--json keeps every bit of a number', expect(done, 0) or [
        f'{got!r} is not {want}' for want, got in
        zip(numbers, json.loads(done.stdout)['values'], strict=True)
        if repr(got) != repr(float(want))])
    for expression, want in (('-2**63', -2**63), ('-(3 - 1)', -2),
                             ('-.5', -0.5)):
        done = run('eval', '--json', expression)
        tap.check(f'--json {expression}', expect(done, 0) or [
            c for c in [done.stdout] if json.loads(c)['values'] != want])
    for verb, options in (('eval', ()), ('kernel', ('--runs', '1')),
                          ('tune', ('--seconds', '0.01'))):
        done = run(verb, 'x + 1', '--device', 'CPU', '--in',
                   f'x={folder}/x.npy', *options)
        tap.check(f'{verb} --in of a file', expect(done, 0))
        done = run(verb, 'x + 1', '--device', 'CPU', '--in', 'x=2x3:float16',
                   *options)
        tap.check(f'{verb} --in of a shape', expect(done, 0))
    tap.check('--json tells failures', expect_json_error(
        run('eval', 'sofmax(1)', '--json'), 1, 'column 1: '))
    for args, code, part in (
            ((), 2, 'no expression'),
            (('x', '--in', 'x'), 2, 'not name=FILE'),
            (('x', '--in', '1x=a.npy'), 2, 'not name=FILE'),
            (('x', '--in', 'x='), 2, 'not name=FILE'),
            (('x', '--in', 'x=a', '--in', 'x=b'), 2, '--in x is given twice'),
            (('1', '--device', 'NV:7'), 3, 'NV'),
            (('1', '--device', 'nonsense'), 3, 'nonsense'),
            (('1', '--out', '/dev/null/o.npy'), 1, '/dev/null/o.npy')):
        tap.check(f'eval {" ".join(args)}', expect(
            run('eval', *args), code, err=part))


def check_printing(tap, folder):
    for expression, text in (
            ('1 + 2', '3\n'), ('1 / 4', '0.25\n'), ('2.0', '2.0\n'),
            ('1 < 2', 'True\n'), ('-arange(3)', '[ 0 -1 -2]\n'),
            ('-(1.5)', '-1.5\n'), ('nan', 'nan\n'),
            ('arange(3.) / 2', '[0.  0.5 1. ]\n'),
            ('eye(2, dtype=int32)', '[[1 0]\n [0 1]]\n'),
            ('[True, False]', '[ True False]\n'),
            ('[1e10, 1.0]', '[1.e+10 1.e+00]\n'),
            ('[0.1, inf]', '[0.1 inf]\n'),
            ('ones(1, 2, 2)', '[[[1. 1.]\n  [1. 1.]]]\n'),
            ('arange(2000)', '[   0    1    2 ... 1997 1998 1999]\n'),
            ('zeros(0, 3)', '[] (shape (0, 3))\n')):
        done = run('eval', '--', expression)
        tap.check(f'prints {expression}', expect(done, 0) + (
            [] if done.stdout == text else [f'{done.stdout!r}']))
    done = run('eval', '-x[0]', '--in', f'x={folder}/x.npy', '--json')
    complaints = expect(done, 0)
    if not complaints:
        document = json.loads(done.stdout)
        if document['values'] != [-v for v in X.flat[:4]] or \
                document['dtype'] != F32 or document['shape'] != [4]:
            complaints.append(f'{document}')
    tap.check('an expression that begins with a minus, --json', complaints)
    with open(os.path.join(HERE, '..', '..', 'docs', 'reference',
                           'functions.md'), encoding='utf-8') as file:
        kept = file.read()
    tap.check('reference/functions.md is what --list --markdown prints', [
    ] if run('eval', '--list', '--markdown').stdout == kept else [
        'run: doorbell eval --list --markdown > docs/reference/functions.md'])
    with open(os.path.join(HERE, '..', '..', 'docs', 'reference',
                           'pytorch.md'), encoding='utf-8') as file:
        kept = file.read()
    tap.check('reference/pytorch.md is what the table of differences prints', [
    ] if compare_pytorch_table.page() == kept else [
        'run: python3 tools/compare_pytorch_table.py '
        '> docs/reference/pytorch.md'])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for name, array in INPUTS.items():
            write_npy(f'{folder}/{name}.npy', array)
        check_values(tap, folder)
        check_gradients(tap, folder)
        check_effects(tap, folder)
        check_files(tap, folder)
        check_failures(tap, folder)
        check_printing(tap, folder)
    tap.finish()


if __name__ == '__main__':
    main()
