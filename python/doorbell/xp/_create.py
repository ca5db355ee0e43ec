"""Making arrays, and element types."""
import builtins
import math

from doorbell import _c
from doorbell.xp._array import (Array, NUMBERS, STANDARD, Tensor, arrays, cast,
                                context_of, flat, promote, to_device, wrap)


def default_of(number):
    """The dtype that a number alone has."""
    if isinstance(number, builtins.bool):
        return _c.bool
    if isinstance(number, int):
        return _c.int64
    if isinstance(number, float):
        return _c.float32
    raise TypeError(f'expected a number, got {type(number).__name__}')


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of numbers in lists, a number, a buffer, or another array. Values
    never change, so a copy of an array is another name for its values.

    >>> from doorbell import xp
    >>> xp.asarray([[1, 2], [3, 4]], dtype=xp.float64).shape
    (2, 2)
    """
    if isinstance(obj, Tensor):
        x = obj
        if device is not None:
            x = to_device(x, device)
        if dtype is not None:
            x = cast(x, dtype)
        if copy is False and x is not obj:
            raise ValueError('asarray: copy=False, but a copy is needed')
        return Array(x) if copy or type(x) is not Array else x
    if copy is False:
        raise ValueError(f'asarray: values of {type(obj).__name__} are copied; '
                         'copy=False cannot be')
    with context_of(device):
        if isinstance(obj, NUMBERS) and obj == obj:  # constants have one NaN
            return Array(_c.full((), obj, dtype=dtype or default_of(obj)))
        if isinstance(obj, complex):
            raise TypeError('asarray: complex numbers are not supported')
        if isinstance(obj, (list, tuple)):
            obj = plain_lists(obj)
        return Array(_c.tensor(obj, dtype=dtype))


def plain_lists(values):
    """Lists with arrays without axes among the numbers, as numbers."""
    if isinstance(values, (list, tuple)):
        return [plain_lists(value) for value in values]
    return values.tolist() if isinstance(values, Tensor) else values


def from_dlpack(x, /, *, device=None, copy=None):
    """An array of another library's values, which are copied."""
    if copy is False:
        raise BufferError('from_dlpack: values are copied; copy=False cannot be')
    with context_of(device):
        return Array(_c.from_dlpack(x))


def sizes(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def full(shape, fill_value, *, dtype=None, device=None):
    """One value everywhere."""
    with context_of(device):
        return Array(_c.full(sizes(shape), fill_value,
                             dtype=dtype or default_of(fill_value)))


def zeros(shape, *, dtype=None, device=None):
    """0 everywhere."""
    return full(shape, 0, dtype=dtype or _c.float32, device=device)


def ones(shape, *, dtype=None, device=None):
    """1 everywhere."""
    return full(shape, 1, dtype=dtype or _c.float32, device=device)


def empty(shape, *, dtype=None, device=None):
    """0 everywhere: no memory is handed out with what was there."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """One value in x's shape, of x's dtype unless told."""
    arrays(x)
    return full(x.shape, fill_value, dtype=dtype or x.dtype,
                device=device or x.context)


def zeros_like(x, /, *, dtype=None, device=None):
    """0 in x's shape."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    """1 in x's shape."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    """0 in x's shape."""
    return zeros_like(x, dtype=dtype, device=device)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """start, start + step, ... before stop; arange(stop) starts at 0."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        whole = all(isinstance(v, int) for v in (start, stop, step))
        dtype = _c.int64 if whole else _c.float32
    if isinstance(step, int) and isinstance(start, int) and isinstance(stop, int):
        n = len(range(start, stop, step))
    else:
        n = max(0, math.ceil((stop - start) / step))
    with context_of(device):
        if n == 0:
            return Array(_c.zeros((0,), dtype=dtype))
        if not dtype.is_floating_point:
            count = _c.arange(n, dtype=_c.int64)
            return Array(cast(count * int(step) + int(start), dtype))
        count = _c.arange(n, dtype=dtype)
        return Array(count * number(step, dtype) + number(start, dtype))


def number(value, dtype):
    return _c.full((), value, dtype=dtype)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """num numbers at even distances, with stop unless endpoint is False."""
    with context_of(device):
        dtype = dtype or _c.float32
        if endpoint:
            return Array(_c.linspace(start, stop, num, dtype=dtype))
        return Array(_c.linspace(start, stop, num + 1, dtype=dtype)[:num])


def near(k):
    """A diagonal's number within int64, beyond every matrix where k is."""
    return builtins.max(-2**62, builtins.min(k, 2**62))


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """1 on a diagonal, else 0."""
    with context_of(device):
        rows = _c.arange(n_rows).unsqueeze(1)
        columns = _c.arange(n_rows if n_cols is None else n_cols)
        return Array((rows + near(k) == columns).to(dtype or _c.float32))


def meshgrid(*arrays, indexing='xy'):
    """Coordinates over the product of axes, in 'xy' or 'ij' order."""
    if indexing not in ('xy', 'ij'):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', got {indexing!r}")
    if not arrays:
        return []
    return [wrap(x) for x in _c.meshgrid(list(arrays), indexing=indexing)]


def tril(x, /, *, k=0):
    """0 above a diagonal of the last two axes."""
    return Array(_c.tril(x, near(k)))


def triu(x, /, *, k=0):
    """0 below a diagonal of the last two axes."""
    return Array(_c.triu(x, near(k)))


# ---- element types ----

def astype(x, dtype, /, *, copy=True, device=None):
    """x in another dtype; x itself where nothing is to do and copy is False."""
    arrays(x)
    if device is not None:
        x = to_device(x, device)
    if x.dtype is dtype and not copy:
        return wrap(x)
    return Array(cast(x, dtype))


KINDS = {
    'bool': ('bool',),
    'signed integer': ('int8', 'int16', 'int32', 'int64'),
    'unsigned integer': ('uint8', 'uint16', 'uint32', 'uint64'),
    'real floating': ('float32', 'float64'),
    'complex floating': (),
}
KINDS['integral'] = KINDS['signed integer'] + KINDS['unsigned integer']
KINDS['numeric'] = KINDS['integral'] + KINDS['real floating']


def isdtype(dtype, kind):
    """Whether a dtype is another, of a kind by name, or one of a tuple of
    those. Halves and 8-bit floats are of kind 'real floating'."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, _c.DType):
        return dtype is kind
    if kind not in KINDS:
        raise ValueError(f'isdtype: kind is one of {sorted(KINDS)}, got {kind!r}')
    if dtype.is_floating_point:
        return kind in ('real floating', 'numeric')
    return dtype.name in KINDS[kind]


def can_cast(from_, to, /):
    """Whether a dtype (or an array's) is promoted to another."""
    if isinstance(from_, Tensor):
        from_ = from_.dtype
    kinds = [k for k in KINDS if k not in ('integral', 'numeric')]
    if from_ is not to and 'bool' in (from_.name, to.name):
        return False
    same = any(isdtype(from_, k) and isdtype(to, k) for k in kinds)
    if not same and not (isdtype(from_, 'integral') and isdtype(to, 'integral')):
        return False
    try:
        return promote(from_, to) is to
    except TypeError:
        return False


class Info:
    """Facts of an element type, as attributes."""

    def __init__(self, **facts):
        self.__dict__.update(facts)

    def __repr__(self):
        facts = ', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())
        return f'{type(self).__name__}({facts})'


class finfo_object(Info):
    pass


class iinfo_object(Info):
    pass


# Digits behind the point, and the greatest power of two (IEEE 754-2019, table
# 3.5; bfloat16 has float32's exponents).
FLOAT_FACTS = {'float16': (10, 15), 'bfloat16': (7, 127), 'float32': (23, 127),
               'float64': (52, 1023)}


def finfo(type, /):
    """bits, eps, max, min, smallest_normal and dtype of a float."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    if dtype.name not in FLOAT_FACTS:
        raise TypeError(f'finfo: {dtype.name} is not a float that it knows')
    digits, power = FLOAT_FACTS[dtype.name]
    most = (2.0 - 2.0 ** -digits) * 2.0 ** power
    return finfo_object(bits=8 * dtype.itemsize, eps=2.0 ** -digits, max=most,
                        min=-most, smallest_normal=2.0 ** (1 - power),
                        dtype=dtype)


def iinfo(type, /):
    """bits, max, min and dtype of an integer."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    if not isdtype(dtype, 'integral'):
        raise TypeError(f'iinfo: {dtype.name} is not an integer')
    bits = 8 * dtype.itemsize
    signed = isdtype(dtype, 'signed integer')
    return iinfo_object(bits=bits, max=(1 << bits - signed) - 1,
                        min=-(1 << bits - 1) if signed else 0, dtype=dtype)


# ---- what there is ----

class NamespaceInfo:
    """The result of __array_namespace_info__."""

    def capabilities(self):
        return {'boolean indexing': True, 'data-dependent shapes': True,
                'max dimensions': 32}

    def default_device(self):
        return _c.current_context().device

    def devices(self):
        """The device of new arrays, and the host's processor."""
        current = self.default_device()
        return [current] if current.startswith('CPU') else [current, 'CPU:0']

    def default_dtypes(self, *, device=None):
        return {'real floating': _c.float32, 'integral': _c.int64,
                'indexing': _c.int64}

    def dtypes(self, *, device=None, kind=None):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return {dtype.name: dtype for dtype in STANDARD
                if kind is None or any(isdtype(dtype, k) for k in kinds)}


def __array_namespace_info__():
    """Devices, dtypes and what works."""
    return NamespaceInfo()
