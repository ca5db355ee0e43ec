"""Functions of elements, and the operators of Array."""
from doorbell import _c
from doorbell.xp._array import (Array, NUMBERS, Tensor, arrays, both, cast,
                                wrap)

UNARY = {name: getattr(_c, row) for name, row in (
    ('abs', 'abs'), ('acos', 'acos'), ('acosh', 'acosh'), ('asin', 'asin'),
    ('asinh', 'asinh'), ('atan', 'atan'), ('atanh', 'atanh'),
    ('bitwise_invert', 'bitwise_not'), ('ceil', 'ceil'), ('cos', 'cos'),
    ('cosh', 'cosh'), ('exp', 'exp'), ('expm1', 'expm1'), ('floor', 'floor'),
    ('isfinite', 'isfinite'), ('isinf', 'isinf'), ('isnan', 'isnan'),
    ('log', 'log'), ('log10', 'log10'), ('log1p', 'log1p'), ('log2', 'log2'),
    ('logical_not', 'logical_not'), ('negative', 'neg'),
    ('reciprocal', 'reciprocal'), ('round', 'round'),
    ('sin', 'sin'), ('sinh', 'sinh'), ('sqrt', 'sqrt'), ('square', 'square'),
    ('tan', 'tan'), ('tanh', 'tanh'), ('trunc', 'trunc'))}
BINARY = {name: getattr(_c, row) for name, row in (
    ('add', 'add'), ('atan2', 'atan2'), ('bitwise_and', 'bitwise_and'),
    ('bitwise_left_shift', 'bitwise_left_shift'),
    ('bitwise_or', 'bitwise_or'),
    ('bitwise_right_shift', 'bitwise_right_shift'),
    ('bitwise_xor', 'bitwise_xor'), ('copysign', 'copysign'),
    ('divide', 'true_divide'), ('equal', 'eq'),
    ('greater', 'gt'), ('greater_equal', 'ge'), ('hypot', 'hypot'), ('less', 'lt'),
    ('less_equal', 'le'), ('logaddexp', 'logaddexp'),
    ('logical_and', 'logical_and'), ('logical_or', 'logical_or'),
    ('logical_xor', 'logical_xor'), ('maximum', 'maximum'),
    ('minimum', 'minimum'), ('multiply', 'mul'), ('nextafter', 'nextafter'),
    ('not_equal', 'ne'), ('pow', 'pow'), ('subtract', 'sub'))}


def unary(name, row):
    def function(x, /):
        if not isinstance(x, Tensor):
            arrays(x)
        return Array(row(x))
    function.__name__ = function.__qualname__ = name
    function.__module__ = 'doorbell.xp'
    function.__doc__ = f'By the Array API; computed by doorbell.{row.__name__}.'
    return function


def binary(name, row):
    def function(x1, x2, /):
        x1, x2 = both(x1, x2)
        return Array(row(x1, x2))
    function.__name__ = function.__qualname__ = name
    function.__module__ = 'doorbell.xp'
    function.__doc__ = f'By the Array API; computed by doorbell.{row.__name__}.'
    return function


globals().update({name: unary(name, row) for name, row in UNARY.items()})
globals().update({name: binary(name, row) for name, row in BINARY.items()})


def positive(x, /):
    """x again."""
    arrays(x)
    return Array(x)


def conj(x, /):
    """x, which is real."""
    arrays(x)
    return Array(x)


def real(x, /):
    """x, which is real."""
    arrays(x)
    return Array(x)


def imag(x, /):
    """0: x is real."""
    arrays(x)
    return Array(_c.zeros_like(x))


BITS = {2: _c.int16, 4: _c.int32, 8: _c.int64}


def signbit(x, /):
    """Whether the sign is minus, also of -0 and NaN."""
    arrays(x)
    if x.dtype.is_floating_point and x.dtype.itemsize in BITS:
        x = _c.bitcast(x, BITS[x.dtype.itemsize])
    return Array(_c.lt(x, 0))


def sign(x, /):
    """-1, 0 or 1; NaN of NaN, where PyTorch has 0."""
    arrays(x)
    found = _c.sign(x)
    if x.dtype.is_floating_point:
        found = _c.where(_c.isnan(x), x, found)
    return Array(found)


def floor_divide(x1, x2, /):
    """Quotient rounded down. With an infinity it is the quotient's floor by the
    standard; PyTorch and Python have NaN and -1."""
    x1, x2 = both(x1, x2)
    found = _c.floor_divide(x1, x2)
    if x1.dtype.is_floating_point:
        infinite = _c.logical_or(_c.isinf(x1), _c.isinf(x2))
        found = _c.where(infinite, _c.floor(_c.div(x1, x2)), found)
    return Array(found)


def remainder(x1, x2, /):
    """The rest after floor_divide; a remainder of 0 has the sign of x2, where
    PyTorch's has that of x1."""
    x1, x2 = both(x1, x2)
    found = _c.remainder(x1, x2)
    if x1.dtype.is_floating_point:
        found = _c.where(_c.eq(found, 0), _c.copysign(found, x2), found)
    return Array(found)


def clip(x, /, min=None, max=None):
    """Limited to min..max; NaN stays."""
    arrays(x)
    dtype = x.dtype
    for bound, row in ((min, _c.maximum), (max, _c.minimum)):
        if bound is not None:
            if isinstance(bound, Tensor):
                bound = cast(bound, dtype)
            x = row(x, bound)
    return Array(cast(x, dtype))


# ---- operators ----

def operator(name, function):
    """x.__name__(other): a number or an array; else the Tensor's own."""
    plain = getattr(Tensor, name)

    def method(self, other, /):
        if isinstance(other, (Tensor, *NUMBERS)):
            return function(self, other)
        made = plain(self, other)
        return wrap(made) if isinstance(made, Tensor) else made
    method.__name__, method.__qualname__ = name, f'Array.{name}'
    return method


def reflected(name, function):
    plain = getattr(Tensor, name)

    def method(self, other, /):
        if isinstance(other, (Tensor, *NUMBERS)):
            return function(other, self)
        made = plain(self, other)
        return wrap(made) if isinstance(made, Tensor) else made
    method.__name__, method.__qualname__ = name, f'Array.{name}'
    return method


def of_one(name, function):
    def method(self, /):
        return function(self)
    method.__name__, method.__qualname__ = name, f'Array.{name}'
    return method


OPERATORS = (('add', 'add'), ('sub', 'subtract'), ('mul', 'multiply'),
             ('truediv', 'divide'), ('floordiv', 'floor_divide'),
             ('mod', 'remainder'), ('pow', 'pow'), ('and', 'bitwise_and'),
             ('or', 'bitwise_or'), ('xor', 'bitwise_xor'),
             ('lshift', 'bitwise_left_shift'),
             ('rshift', 'bitwise_right_shift'))
COMPARISONS = (('eq', 'equal'), ('ne', 'not_equal'), ('lt', 'less'),
               ('le', 'less_equal'), ('gt', 'greater'), ('ge', 'greater_equal'))


def add_operators():
    found = globals()
    for name, function in OPERATORS:
        setattr(Array, f'__{name}__', operator(f'__{name}__', found[function]))
        setattr(Array, f'__r{name}__',
                reflected(f'__r{name}__', found[function]))
    for name, function in COMPARISONS:
        setattr(Array, f'__{name}__', operator(f'__{name}__', found[function]))
    for name, function in (('neg', 'negative'), ('abs', 'abs'),
                           ('invert', 'bitwise_invert')):
        setattr(Array, f'__{name}__', of_one(f'__{name}__', found[function]))
    setattr(Array, '__matmul__', operator('__matmul__', matmul))
    setattr(Array, '__rmatmul__', reflected('__rmatmul__', matmul))


def matmul(x1, x2, /):
    """Matrix product; leading axes broadcast."""
    arrays(x1, x2)
    x1, x2 = both(x1, x2)
    return Array(_c.matmul(x1, x2))


add_operators()
