"""Sums, order, sets and tests along axes."""
import builtins
from collections import namedtuple

from doorbell import _c
from doorbell.xp._array import (Array, Tensor, UNSIGNED, arrays, axes_of, axis_of,
                                both, cast, flat)
from doorbell.xp._shape import concat, take

# ---- over axes ----


def reduced(row, x, axis, keepdims, **named):
    """A row over all axes, or those listed; () are none, so that each element
    is reduced alone."""
    if isinstance(axis, tuple) and not axis or x.ndim == 0:
        axes_of(axis, x.ndim)
        return Array(row(x.unsqueeze(-1), dim=-1, keepdim=False, **named))
    return Array(row(x, dim=axes_of(axis, x.ndim), keepdim=keepdims, **named))


def sum_dtype(x, dtype):
    """Sums of small integers are wide."""
    if dtype is not None:
        return dtype
    if x.dtype.is_floating_point:
        return x.dtype
    return _c.uint64 if x.dtype in UNSIGNED else _c.int64


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """Sum over all axes or those listed; integers in 64 bits."""
    arrays(x)
    dtype = sum_dtype(x, dtype)
    return reduced(_c.sum, cast(x, dtype), axis, keepdims, dtype=dtype)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """Product over all axes or those listed; integers in 64 bits."""
    arrays(x)
    dtype = sum_dtype(x, dtype)
    return reduced(_c.prod, cast(x, dtype), axis, keepdims, dtype=dtype)


def mean(x, /, *, axis=None, keepdims=False):
    """Mean over all axes or those listed."""
    arrays(x)
    return reduced(_c.mean, x, axis, keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Variance: squared distances from the mean, summed, over n - correction."""
    arrays(x)
    return reduced(_c.var, x, axis, keepdims, correction=correction)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Square root of the variance."""
    arrays(x)
    return reduced(_c.std, x, axis, keepdims, correction=correction)


def max(x, /, *, axis=None, keepdims=False):
    """Greatest element; NaN where there is one."""
    arrays(x)
    return reduced(_c.amax, x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    """Smallest element; NaN where there is one."""
    arrays(x)
    return reduced(_c.amin, x, axis, keepdims)


def all(x, /, *, axis=None, keepdims=False):
    """Whether no element is 0."""
    arrays(x)
    return reduced(_c.all, x, axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    """Whether an element is not 0."""
    arrays(x)
    return reduced(_c.any, x, axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """Number of elements that are not 0."""
    arrays(x)
    return reduced(_c.sum, _c.ne(x, 0).to(_c.int64), axis, keepdims,
                   dtype=_c.int64)


def place(row, x, axis, keepdims):
    arrays(x)
    if axis is None:
        found = row(flat(x), dim=0)
        return Array(found.reshape((1,) * x.ndim) if keepdims else found)
    return Array(row(x, dim=axis_of(axis, x.ndim), keepdim=keepdims))


def argmax(x, /, *, axis=None, keepdims=False):
    """Index of the first greatest element; without axis as if flat."""
    return place(_c.argmax, x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """Index of the first smallest element; without axis as if flat."""
    return place(_c.argmin, x, axis, keepdims)


# ---- along an axis ----

def running(row, first, x, axis, dtype, include_initial):
    arrays(x)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f'axis is needed for {x.ndim} axes')
        axis = 0
    axis = axis_of(axis, x.ndim)
    dtype = sum_dtype(x, dtype)
    made = row(cast(x, dtype), axis, dtype=dtype)
    if include_initial:
        shape = x.shape[:axis] + (1,) + x.shape[axis + 1:]
        with x.context:
            made = _c.cat([_c.full(shape, first, dtype=dtype), made], axis)
    return Array(made)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running sum; with include_initial it begins with 0."""
    return running(_c.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running product; with include_initial it begins with 1."""
    return running(_c.cumprod, 1, x, axis, dtype, include_initial)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours, n times."""
    arrays(x)
    axis = axis_of(axis, x.ndim)
    parts = [part for part in (prepend, x, append) if part is not None]
    if len(parts) > 1:
        x = concat(parts, axis=axis)
    row = _c.ne if x.dtype is _c.bool else _c.sub
    for _ in range(n):
        length = builtins.max(x.shape[axis] - 1, 0)
        if x.shape[axis] == 0:
            break
        x = row(_c.narrow(x, axis, 1, length), _c.narrow(x, axis, 0, length))
    return Array(x)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """Values in order; NaN are the greatest."""
    arrays(x)
    return Array(_c.sort(x, axis_of(axis, x.ndim), descending)[0])


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The indices that sort takes values from; equal ones stay in order."""
    arrays(x)
    return Array(_c.argsort(x, axis_of(axis, x.ndim), descending))


# ---- searching ----

def nonzero(x, /):
    """For each axis the indices of what is not 0."""
    arrays(x)
    if x.ndim == 0:
        raise ValueError('nonzero: an array without axes has no indices')
    found = _c.nonzero(x)
    return tuple(Array(_c.select(found, 1, i)) for i in range(x.ndim))


def searchsorted(x1, x2, /, *, side='left', sorter=None):
    """Where elements of x2 go into x1, which is in order (by sorter, if told)."""
    arrays(x1, x2)
    if side not in ('left', 'right'):
        raise ValueError(f"searchsorted: side is 'left' or 'right', got {side!r}")
    if sorter is not None:
        x1 = take(x1, sorter)
    x1, x2 = both(x1, x2)
    found = _c.searchsorted(x1, flat(x2), right=side == 'right')
    return Array(found.reshape(x2.shape))


def where(condition, x1, x2, /):
    """condition ? x1 : x2, elementwise."""
    arrays(condition)
    x1, x2 = both(x1, x2)
    return Array(_c.where(condition, x1, x2))


# ---- sets ----

UniqueAll = namedtuple('UniqueAll', 'values indices inverse_indices counts')
UniqueCounts = namedtuple('UniqueCounts', 'values counts')
UniqueInverse = namedtuple('UniqueInverse', 'values inverse_indices')


def unique_values(x, /):
    """The different elements, ascending."""
    arrays(x)
    return Array(_c.unique(flat(x)))


def unique_counts(x, /):
    """They and how often each occurs."""
    arrays(x)
    values, counts = _c.unique(flat(x), return_counts=True)
    return UniqueCounts(Array(values), Array(counts))


def unique_inverse(x, /):
    """They and where each element is among them."""
    arrays(x)
    values, inverse = _c.unique(flat(x), return_inverse=True)
    return UniqueInverse(Array(values), Array(inverse.reshape(x.shape)))


def unique_all(x, /):
    """They, where each is first, where each element is among them, and how
    often each occurs."""
    arrays(x)
    y = flat(x)
    values, inverse, counts = _c.unique(y, return_inverse=True,
                                        return_counts=True)
    n = y.shape[0]
    with x.context:
        first = _c.full(values.shape, n, dtype=_c.int64)
        first = _c.scatter_reduce(first, 0, inverse, _c.arange(n), 'amin')
    return UniqueAll(Array(values), Array(first),
                     Array(inverse.reshape(x.shape)), Array(counts))
