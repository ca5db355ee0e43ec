"""Array, its element types, and how types are promoted.

An Array is a Tensor that computes by the rules of the Array API where PyTorch's
differ: operators promote arrays without axes as any other, `size` is a number.
Functions of this namespace take Tensors, too, and give Arrays.
"""
import builtins
import math

from doorbell import _c

Tensor = _c.Tensor
SIGNED = (_c.int8, _c.int16, _c.int32, _c.int64)
UNSIGNED = (_c.uint8, _c.uint16, _c.uint32, _c.uint64)
FLOATS = (_c.float32, _c.float64)
STANDARD = (_c.bool, *SIGNED, *UNSIGNED, *FLOATS)
NUMBERS = (builtins.bool, int, float)


class Array(Tensor):
    """An array by the standard. asarray, zeros and the like make it.

    >>> from doorbell import xp
    >>> x = xp.asarray([1, 2, 3], dtype=xp.int8)
    >>> (x + xp.asarray(1, dtype=xp.int32)).dtype, x.size
    (doorbell.int32, 3)
    """

    __slots__ = ()
    __hash__ = Tensor.__hash__

    @property
    def size(self):
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def T(self):
        """A matrix, transposed."""
        if self.ndim != 2:
            raise ValueError(f'T: expected 2 axes, got {self.ndim}')
        return Array(super().T)

    @property
    def mT(self):
        """The last two axes swapped."""
        return Array(super().mT)

    def __getitem__(self, key, /):
        return Array(super().__getitem__(mask_for(self, key)))

    def __setitem__(self, key, value, /):
        super().__setitem__(mask_for(self, key), value)

    def to_device(self, device, /, *, stream=None):
        return to_device(self, device, stream)

    def __pos__(self, /):
        return Array(self)


def mask_for(x, key):
    """A subscript for x. A mask's sizes are those of x, or 0, where nothing is
    chosen ("Boolean Array Indexing" in the standard)."""
    if not isinstance(key, Tensor) or key.dtype is not _c.bool:
        return key
    shape = x.shape[:key.ndim]
    if key.shape == shape:
        return key
    if key.ndim > x.ndim or any(m not in (n, 0)
                                for m, n in zip(key.shape, shape)):
        raise IndexError(f'a mask of shape {key.shape} does not fit an array of '
                         f'shape {x.shape}')
    with x.context:
        return _c.zeros(shape, dtype=_c.bool)


VERSIONS = ('2021.12', '2022.12', '2023.12', '2024.12')


def namespace(api_version=None):
    """The module doorbell.xp, for a version that it has."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f'__array_namespace__: api_version is one of {VERSIONS}, '
                         f'got {api_version!r}')
    from doorbell import xp
    return xp


def wrap(tensor):
    """A Tensor as an Array."""
    return tensor if type(tensor) is Array else Array(tensor)


def arrays(*given):
    """Operands, checked: there is an array among them."""
    for x in given:
        if not isinstance(x, Tensor):
            raise TypeError(f'expected an array, got {type(x).__name__}')


# ---- devices ----

def context_of(device):
    """The context of a device: its name, a context, or None for the present."""
    if device is None:
        return _c.current_context()
    if isinstance(device, _c.Context):
        return device
    current = _c.current_context()
    return current if device == current.device else _c.device(device)


def to_device(x, device, stream=None):
    """x on another device; x itself where it is there."""
    if stream is not None:
        raise ValueError('to_device: there are no streams to name')
    where = context_of(device)
    return x if x.context is where else Array(x.to(where))


# ---- promotion ----

def is_float(dtype):
    return dtype.is_floating_point


def promote(a, b):
    """The dtype of a result of two. Kinds that the standard leaves undefined
    follow the library: integers with floats give the float."""
    if a is b:
        return a
    if a is _c.bool or b is _c.bool:
        return b if a is _c.bool else a
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if is_float(a):
        if a.itemsize == b.itemsize:  # float16 and bfloat16, two 8-bit floats
            return _c.float32
        return a if a.itemsize > b.itemsize else b
    if (a in SIGNED) == (b in SIGNED):
        return a if a.itemsize > b.itemsize else b
    signed, other = (a, b) if a in SIGNED else (b, a)
    if signed.itemsize > other.itemsize:
        return signed
    if other is _c.uint64:
        raise TypeError(f'no dtype holds {signed.name} and uint64')
    return SIGNED[UNSIGNED.index(other) + 1]


def of_number(number, dtype):
    """The dtype that a number of Python has beside an array's."""
    if isinstance(number, complex):
        raise TypeError('complex numbers are not supported')
    if isinstance(number, builtins.bool):
        return dtype
    if isinstance(number, float) and not is_float(dtype):
        return _c.float32
    if dtype is _c.bool:
        return _c.int64
    return dtype


def result_type(*arrays_and_dtypes):
    """The dtype that arrays, dtypes and numbers have together."""
    dtypes, numbers = [], []
    for x in arrays_and_dtypes:
        if isinstance(x, Tensor):
            dtypes.append(x.dtype)
        elif isinstance(x, _c.DType):
            dtypes.append(x)
        elif isinstance(x, (*NUMBERS, complex)):
            numbers.append(x)
        else:
            raise TypeError(f'result_type: expected an array, a dtype or a '
                            f'number, got {type(x).__name__}')
    if not dtypes:
        raise ValueError('result_type: at least one array or dtype is expected')
    found = dtypes[0]
    for dtype in dtypes[1:]:
        found = promote(found, dtype)
    for number in numbers:
        found = of_number(number, found)
    return found


def cast(x, dtype):
    return x if x.dtype is dtype else x.to(dtype)


def both(x1, x2):
    """Two operands of one dtype, at least one of them an array."""
    if isinstance(x1, Tensor) and isinstance(x2, Tensor):
        if x1.dtype is x2.dtype:
            return x1, x2
        dtype = promote(x1.dtype, x2.dtype)
        return cast(x1, dtype), cast(x2, dtype)
    if isinstance(x1, Tensor):
        dtype = result_type(x1, x2)
        return cast(x1, dtype), number_like(x2, dtype, x1)
    if not isinstance(x2, Tensor):
        raise TypeError('expected an array and an array or a number, got '
                        f'{type(x1).__name__} and {type(x2).__name__}')
    dtype = result_type(x2, x1)
    return number_like(x1, dtype, x2), cast(x2, dtype)


def number_like(number, dtype, x):
    """A number as an array without axes, on x's device."""
    if not is_float(dtype) and dtype is not _c.bool:
        bits = 8 * dtype.itemsize - (dtype in SIGNED)
        if not -(1 << bits if dtype in SIGNED else 0) <= number < 1 << bits:
            raise OverflowError(f'{number} is not a number of {dtype.name}')
    with x.context:
        return _c.full((), number, dtype=dtype)


# ---- axes ----

def axis_of(axis, ndim):
    """One axis from the front."""
    if not -ndim <= axis < ndim:
        raise IndexError(f'there is no axis {axis} of {ndim}')
    return axis + ndim if axis < 0 else axis


def axes_of(axis, ndim):
    """Axes from the front, as a tuple; None are all."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, (tuple, list)):
        return tuple(axis_of(a, ndim) for a in axis)
    return (axis_of(axis, ndim),)


def flat(x):
    return x.reshape((-1,)) if x.ndim != 1 else x
