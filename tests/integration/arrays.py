"""Small arrays in plain Python, and .npy files of them: what `doorbell eval`
is compared with where there is no NumPy. Slow and obvious.
"""
import itertools
import math
import struct

# Name of a dtype: struct code, .npy type.
DTYPES = {
    'bool': ('?', '|b1'), 'int8': ('b', '|i1'), 'uint8': ('B', '|u1'),
    'int16': ('h', '<i2'), 'uint16': ('H', '<u2'), 'int32': ('i', '<i4'),
    'uint32': ('I', '<u4'), 'int64': ('q', '<i8'), 'uint64': ('Q', '<u8'),
    'float16': ('e', '<f2'), 'float32': ('f', '<f4'), 'float64': ('d', '<f8'),
}
NPY_TYPES = {npy: name for name, (_, npy) in DTYPES.items()}


def product(sizes):
    n = 1
    for size in sizes:
        n *= size
    return n


class Array:
    """A shape and its elements in row-major order."""

    def __init__(self, shape, flat, dtype='float32'):
        self.shape = tuple(shape)
        self.flat = list(flat)
        self.dtype = dtype
        assert len(self.flat) == product(self.shape), (shape, len(self.flat))

    @classmethod
    def of(cls, nested, dtype='float32'):
        """From nested lists."""
        shape, level = [], nested
        while isinstance(level, (list, tuple)):
            shape.append(len(level))
            level = level[0] if level else 0
        flat = nested if shape else [nested]
        for _ in shape[1:]:
            flat = [item for part in flat for item in part]
        return cls(shape, flat, dtype)

    @classmethod
    def make(cls, shape, function, dtype='float32'):
        """Element [i, j, ..] is function(i, j, ..)."""
        return cls(shape, [function(*at) for at in places(shape)], dtype)

    def __getitem__(self, at):
        at = at if isinstance(at, tuple) else (at,)
        k = 0
        for i, size in zip(at, self.shape):
            assert 0 <= i < size, (at, self.shape)
            k = k * size + i
        return self.flat[k]

    def like(self, flat, dtype=None):
        return Array(self.shape, flat, dtype or self.dtype)

    def map(self, function, dtype=None):
        return self.like([function(v) for v in self.flat], dtype)

    def reduce(self, axes, function, keepdim=False, dtype=None):
        """function of the list of elements along the axes."""
        if axes is None:
            axes = range(len(self.shape))
        axes = {a % len(self.shape) for a in axes}
        kept = [1 if a in axes else n for a, n in enumerate(self.shape)]
        groups = {}
        for at, v in zip(places(self.shape), self.flat):
            key = tuple(0 if a in axes else i for a, i in enumerate(at))
            groups.setdefault(key, []).append(v)
        flat = [function(groups[at]) for at in places(kept)]
        if not keepdim:
            kept = [n for a, n in enumerate(self.shape) if a not in axes]
        return Array(kept, flat, dtype or self.dtype)

    def along(self, axis, function, dtype=None):
        """function of each list along the axis gives a list as long."""
        axis %= len(self.shape)
        out = [0] * len(self.flat)
        step = product(self.shape[axis + 1:])
        size = self.shape[axis]
        for start in range(len(self.flat)):
            if start // step % size == 0:
                picks = [start + step * i for i in range(size)]
                values = function([self.flat[k] for k in picks])
                for k, v in zip(picks, values):
                    out[k] = v
        return self.like(out, dtype)

    def permute(self, order):
        shape = [self.shape[a] for a in order]
        return Array.make(shape, lambda *at: self[tuple(
            at[order.index(a)] for a in range(len(order)))], self.dtype)


def places(shape):
    return itertools.product(*(range(n) for n in shape))


def both(x, y, function, dtype=None):
    """Elementwise, broadcast."""
    rank = max(len(x.shape), len(y.shape))
    xs = (1,) * (rank - len(x.shape)) + x.shape
    ys = (1,) * (rank - len(y.shape)) + y.shape
    shape = [b if a == 1 else a for a, b in zip(xs, ys)]

    def pick(array, sizes, at):
        at = [0 if n == 1 else i for i, n in zip(at, sizes)]
        return array[tuple(at[rank - len(array.shape):])] if array.shape \
            else array.flat[0]
    return Array.make(shape, lambda *at: function(pick(x, xs, at),
                                                  pick(y, ys, at)),
                      dtype or x.dtype)


def write_npy(path, array, version=1, fortran=False, big=False):
    code, npy = DTYPES[array.dtype]
    if big and npy[0] == '<':
        npy = '>' + npy[1:]
    shape = ', '.join(map(str, array.shape))
    if len(array.shape) == 1:
        shape += ','
    header = (f"{{'descr': '{npy}', 'fortran_order': {fortran}, "
              f"'shape': ({shape}), }}\n").encode()
    flat = array.flat
    if fortran and array.shape:
        order = tuple(reversed(range(len(array.shape))))
        flat = array.permute(order).flat
    with open(path, 'wb') as file:
        file.write(b'\x93NUMPY' + bytes([version, 0]))
        file.write(struct.pack('<H' if version == 1 else '<I', len(header)))
        file.write(header)
        file.write(struct.pack(f'{">" if big else "<"}{len(flat)}{code}',
                               *flat))


def read_npy(path):
    with open(path, 'rb') as file:
        data = file.read()
    assert data[:8] == b'\x93NUMPY\x01\x00', data[:8]
    size = struct.unpack('<H', data[8:10])[0]
    assert (10 + size) % 64 == 0
    header = eval(data[10:10 + size].decode(), {})  # our own file
    assert not header['fortran_order']
    dtype = NPY_TYPES[header['descr']]
    n = product(header['shape'])
    flat = struct.unpack(f'<{n}{DTYPES[dtype][0]}', data[10 + size:])
    return Array(header['shape'], flat, dtype)


def differences(got, want, tolerance):
    """Complaints; numbers may differ by tolerance, relative and absolute."""
    if got.dtype != want.dtype:
        return [f'dtype {got.dtype}, not {want.dtype}']
    if got.shape != want.shape:
        return [f'shape {got.shape}, not {want.shape}']
    for at, a, b in zip(places(got.shape), got.flat, want.flat):
        same = a == b or (a != a and b != b)
        if not same and (math.isnan(a) or math.isnan(b) or
                         abs(a - b) > tolerance * (1 + abs(b))):
            return [f'[{", ".join(map(str, at))}] is {a}, not {b}']
    return []
