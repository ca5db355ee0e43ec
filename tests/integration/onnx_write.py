"""ONNX models, byte by byte: the message format, and two models to test with.

src: onnx 1.23, onnx.proto (field numbers).
"""
import random
import struct

FLOAT, INT64, BOOL = 1, 7, 9


def varint(v):
    out = b''
    v &= (1 << 64) - 1
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def number(field, v):
    return varint(field << 3) + varint(v)


def part(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name, dtype, shape, values):
    """A TensorProto."""
    code = {FLOAT: 'f', INT64: 'q', BOOL: '?'}[dtype]
    return (b''.join(number(1, d) for d in shape) + number(2, dtype) +
            part(8, name) +
            part(9, struct.pack(f'<{len(values)}{code}', *values)))


def value(name, dtype, shape):
    """A ValueInfoProto; a size is a number or a name."""
    dims = b''.join(part(1, part(2, d) if isinstance(d, str) else number(1, d))
                    for d in shape)
    return part(1, name) + part(
        2, part(1, number(1, dtype) + part(2, dims)))


def attribute(name, v):
    if isinstance(v, float):
        return part(1, name) + varint(2 << 3 | 5) + struct.pack(
            '<f', v) + number(20, 1)
    if isinstance(v, int):
        return part(1, name) + number(3, v) + number(20, 2)
    if isinstance(v, str):
        return part(1, name) + part(4, v) + number(20, 3)
    return part(1, name) + b''.join(number(8, i) for i in v) + number(20, 7)


class Graph:
    """A model that is written node by node. Values are names."""

    def __init__(self, name, seed=1):
        self.name, self.nodes, self.weights = name, [], []
        self.inputs, self.outputs = [], []
        self.random = random.Random(seed)
        self.count = 0

    def node(self, op, *inputs, n=1, out=None, **attributes):
        """Its output, or the tuple of them."""
        self.count += 1
        outs = [out] if out else [f'{op.lower()}{self.count}' +
                                  (f'_{i}' if n > 1 else '') for i in range(n)]
        self.nodes.append(
            b''.join(part(1, i) for i in inputs) +
            b''.join(part(2, o) for o in outs) +
            part(3, f'{op}_{self.count}') + part(4, op) +
            b''.join(part(5, attribute(k, v)) for k, v in attributes.items()))
        return outs[0] if n == 1 else tuple(outs)

    def weight(self, name, *shape, scale=None, values=None):
        """Random floats, or those."""
        n = 1
        for d in shape:
            n *= d
        if values is None:
            scale = scale or (shape[-1] if len(shape) > 1 else 1) ** -0.5
            values = [self.random.uniform(-scale, scale) for _ in range(n)]
        self.weights.append(tensor(name, FLOAT, shape, values))
        return name

    def ints(self, name, values, shape=None):
        shape = (len(values),) if shape is None else shape
        self.weights.append(tensor(name, INT64, shape, values))
        return name

    def input(self, name, shape, dtype=FLOAT):
        self.inputs.append(value(name, dtype, shape))
        return name

    def output(self, name, shape, dtype=FLOAT):
        self.outputs.append(value(name, dtype, shape))

    def bytes(self, opset=17):
        graph = (b''.join(part(1, n) for n in self.nodes) +
                 part(2, self.name) +
                 b''.join(part(5, w) for w in self.weights) +
                 b''.join(part(11, i) for i in self.inputs) +
                 b''.join(part(12, o) for o in self.outputs))
        return (number(1, 8) + part(2, 'doorbell tests') + part(7, graph) +
                part(8, number(2, opset)))

    def save(self, path, opset=17):
        with open(path, 'wb') as file:
            file.write(self.bytes(opset))


def layer_norm(g, x, name, size):
    """As exports of opset 16 have it, op by op."""
    two, eps = g.weight(f'{name}.two', values=[2.0]), \
        g.weight(f'{name}.eps', values=[1e-12])
    mean = g.node('ReduceMean', x, axes=[-1])
    d = g.node('Sub', x, mean)
    var = g.node('ReduceMean', g.node('Pow', d, two), axes=[-1])
    y = g.node('Div', d, g.node('Sqrt', g.node('Add', var, eps)))
    y = g.node('Mul', y, g.weight(f'{name}.weight', size, values=[1.0] * size))
    return g.node('Add', y, g.weight(f'{name}.bias', size, scale=0.1))


def encoder(vocabulary=50, size=32, heads=4, layers=2, longest=64):
    """Like MiniLM, as PyTorch exports it with open sizes batch and seq: shapes
    are computed by nodes, positions are a slice of a table, and the result is the
    mean of the tokens that the mask has, of length 1."""
    g = Graph('encoder')
    ids = g.input('input_ids', ('batch', 'seq'), INT64)
    mask = g.input('attention_mask', ('batch', 'seq'), INT64)
    g.output('embedding', ('batch', size))
    zero, one = g.ints('zero', [0]), g.ints('one', [1])
    at0, at1 = g.ints('at0', [0], ()), g.ints('at1', [1], ())
    last = g.ints('last', [2 ** 63 - 1])
    count, width = g.ints('heads', [heads]), g.ints('width', [size // heads])
    whole = g.ints('size', [size])
    none, half = g.weight('none', values=[1.0]), g.weight('half', values=[0.5])
    low, root = g.weight('low', values=[-10000.0]), \
        g.weight('root', values=[2.0 ** 0.5])
    scale = g.weight('scale', values=[(size // heads) ** 0.5])
    shape = g.node('Shape', ids)
    batch = g.node('Unsqueeze', g.node('Gather', shape, at0, axis=0), zero)
    seq = g.node('Unsqueeze', g.node('Gather', shape, at1, axis=0), zero)
    table = g.ints('positions', list(range(longest)), (1, longest))
    places = g.node('Slice', table, zero, seq, one)
    x = g.node('Gather', g.weight('words', vocabulary, size), ids)
    x = g.node('Add', x, g.node('Gather', g.weight('places', longest, size),
                                places))
    x = layer_norm(g, x, 'embeddings', size)
    hidden = g.node('Slice', mask, zero, last, one)
    hidden = g.node('Unsqueeze', hidden, g.ints('axes12', [1, 2]))
    like = g.node('Concat', batch, one, seq, seq, axis=0)
    hidden = g.node('Expand', hidden, like)
    hidden = g.node('Mul', g.node('Sub', none, g.node('Cast', hidden,
                                                      to=FLOAT)), low)
    split = g.node('Concat', batch, seq, count, width, axis=0)
    joined = g.node('Concat', batch, seq, whole, axis=0)

    def linear(x, name, n_in, n_out):
        y = g.node('MatMul', x, g.weight(f'{name}.weight', n_in, n_out))
        return g.node('Add', y, g.weight(f'{name}.bias', n_out, scale=0.1))

    for i in range(layers):
        q, k, v = (g.node('Reshape', linear(x, f'{i}.{part_}', size, size),
                          split) for part_ in 'qkv')
        q = g.node('Transpose', q, perm=[0, 2, 1, 3])
        k = g.node('Transpose', k, perm=[0, 2, 3, 1])
        v = g.node('Transpose', v, perm=[0, 2, 1, 3])
        w = g.node('Add', g.node('Div', g.node('MatMul', q, k), scale), hidden)
        y = g.node('MatMul', g.node('Softmax', w, axis=-1), v)
        y = g.node('Reshape', g.node('Transpose', y, perm=[0, 2, 1, 3]), joined)
        x = layer_norm(g, g.node('Add', x, linear(y, f'{i}.o', size, size)),
                       f'{i}.first', size)
        y = linear(x, f'{i}.up', size, 4 * size)
        erf = g.node('Add', g.node('Erf', g.node('Div', y, root)), none)
        y = g.node('Mul', g.node('Mul', y, erf), half)
        x = layer_norm(g, g.node('Add', x, linear(y, f'{i}.down', 4 * size,
                                                  size)), f'{i}.second', size)
    seen = g.node('Cast', g.node('Unsqueeze', mask, g.ints('axis2', [2])),
                  to=FLOAT)
    seen = g.node('Expand', seen, g.node('Shape', x))
    sums = g.node('ReduceSum', g.node('Mul', x, seen), one, keepdims=0)
    counts = g.node('ReduceSum', seen, one, keepdims=0)
    y = g.node('Div', sums, g.node('Clip', counts,
                                   g.weight('least', values=[1e-9])))
    norm = g.node('ReduceL2', y, axes=[1])
    norm = g.node('Expand', g.node('Clip', norm, 'least'), g.node('Shape', y))
    g.node('Div', y, norm, out='embedding')
    return g


# What ONNX Runtime 1.32 makes of encoder() for these inputs.
ENCODER_IDS = [5, 9, 2, 44, 17, 8]
ENCODER_MASK = [1, 1, 1, 1, 0, 0]
ENCODER_RESULT = [
    0.01206172, -0.06259862, -0.08001942, 0.01588727, -0.4430964, 0.2912583,
    -0.01815775, 0.1042697, -0.06962203, -0.1297355, 0.2124397, -0.06900457,
    -0.4137561, -0.02515147, -0.05317207, 0.2878125, -0.005718285, -0.0429791,
    0.1398072, 0.01788734, 0.1291563, -0.03196654, 0.03290435, 0.04257764,
    -0.09689583, -0.07048982, 0.5197411, -0.1163258, 0.02859738, 0.0160834,
    -0.1247192, -0.1041915]


def classifier(classes=10, side=16):
    """Convolutions and a linear layer, as PyTorch exports a small network of
    images (n, 3, side, side), n open."""
    g = Graph('classifier')
    x = g.input('image', ('batch', 3, side, side))
    g.output('scores', ('batch', classes))
    for i, (n_in, n_out) in enumerate([(3, 8), (8, 16)]):
        x = g.node('Conv', x, g.weight(f'conv{i}.weight', n_out, n_in, 3, 3,
                                       scale=(9 * n_in) ** -0.5),
                   g.weight(f'conv{i}.bias', n_out, scale=0.1),
                   kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
        x = g.node('MaxPool', g.node('Relu', x), kernel_shape=[2, 2],
                   strides=[2, 2])
    x = g.node('Flatten', g.node('GlobalAveragePool', x))
    g.node('Gemm', x, g.weight('fc.weight', classes, 16),
           g.weight('fc.bias', classes, scale=0.1), transB=1, out='scores')
    return g
