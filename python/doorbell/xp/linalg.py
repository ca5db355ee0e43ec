"""Matrices, by the Array API's extension linalg."""
import builtins
from collections import namedtuple

from doorbell import _c
from doorbell.xp import _reduce
from doorbell.xp._array import (Array, arrays, axes_of, axis_of, both, cast, wrap)
from doorbell.xp._elementwise import matmul
from doorbell.xp._shape import broadcast_shape

inf = float('inf')
EigenResult = namedtuple('EigenResult', 'eigenvalues eigenvectors')
QRResult = namedtuple('QRResult', 'Q R')
SlogdetResult = namedtuple('SlogdetResult', 'sign logabsdet')
SVDResult = namedtuple('SVDResult', 'U S Vh')

__all__ = ['cholesky', 'cross', 'det', 'diagonal', 'eigh', 'eigvalsh', 'inv',
           'matmul', 'matrix_norm', 'matrix_power', 'matrix_rank',
           'matrix_transpose', 'outer', 'pinv', 'qr', 'slogdet', 'solve', 'svd',
           'svdvals', 'tensordot', 'trace', 'vecdot', 'vector_norm']


def matrix(x):
    """Checks that x has two axes at least."""
    arrays(x)
    if x.ndim < 2:
        raise ValueError(f'expected matrices, got {x.ndim} axes')


def matrix_transpose(x, /):
    """The last two axes swapped."""
    matrix(x)
    return Array(x.mT)


def cholesky(x, /, *, upper=False):
    """Triangular L with L @ L.T = x (upper: U.T @ U)."""
    matrix(x)
    return Array(_c.cholesky(x, upper))


def cross(x1, x2, /, *, axis=-1):
    """Cross product of vectors of 3 along an axis."""
    arrays(x1, x2)
    x1, x2 = both(x1, x2)
    shape = broadcast_shape([x1.shape, x2.shape])
    axis = axis_of(axis, builtins.min(x1.ndim, x2.ndim)) - builtins.min(
        x1.ndim, x2.ndim)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f'cross: axis {axis} has to have size 3')
    x1, x2 = _c.broadcast_to(x1, shape), _c.broadcast_to(x2, shape)
    a = [_c.select(x1, axis, i) for i in range(3)]
    b = [_c.select(x2, axis, i) for i in range(3)]
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
             a[0] * b[1] - a[1] * b[0]]
    return Array(_c.stack(parts, axis))


def det(x, /):
    """Determinant."""
    matrix(x)
    return Array(_c.det(x))


def diagonal(x, /, *, offset=0):
    """A diagonal of the last two axes, as the last axis."""
    matrix(x)
    rows, columns = x.shape[-2:]
    if builtins.min(rows + builtins.min(offset, 0),
                    columns - builtins.max(offset, 0)) <= 0:
        with x.context:
            return Array(_c.zeros(x.shape[:-2] + (0,), dtype=x.dtype))
    return Array(_c.diagonal(x, offset, -2, -1))


def eigh(x, /):
    """Ascending eigenvalues, and eigenvectors as columns, of symmetric x."""
    matrix(x)
    return EigenResult(*map(Array, _c.eigh(x)))


def eigvalsh(x, /):
    """Ascending eigenvalues of symmetric x."""
    matrix(x)
    return Array(_c.eigvalsh(x))


def inv(x, /):
    """Inverse."""
    matrix(x)
    return Array(_c.inv(x))


def matrix_norm(x, /, *, keepdims=False, ord='fro'):
    """A norm of matrices: 'fro', 'nuc', 1, 2, inf, and the lesser ones -1, -2,
    -inf."""
    matrix(x)
    if ord == 'fro':
        found = _c.sqrt(_c.sum(x * x, dim=(-2, -1)))
    elif ord == 'nuc' or ord in (2, -2):
        values = _c.svdvals(x)
        row = {'nuc': _c.sum, 2: _c.amax, -2: _c.amin}[ord]
        found = row(values, dim=-1)
    elif ord in (1, -1, inf, -inf):
        columns = _c.sum(_c.abs(x), dim=-2 if abs(ord) == 1 else -1)
        found = (_c.amax if ord > 0 else _c.amin)(columns, dim=-1)
    else:
        raise ValueError(f"matrix_norm: ord is 'fro', 'nuc', 1, 2, inf or one of "
                         f'their negatives, got {ord!r}')
    if keepdims:
        found = found.reshape(x.shape[:-2] + (1, 1))
    return wrap(found)


def matrix_power(x, n, /):
    """x times itself, n times; of n < 0 the inverse is."""
    matrix(x)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f'matrix_power: shape {x.shape} is not square')
    if n < 0:
        x, n = _c.inv(x), -n
    if n == 0:
        with x.context:
            one = _c.eye(x.shape[-1], dtype=x.dtype)
            return Array(_c.broadcast_to(one, x.shape))
    found = None
    while n:
        if n & 1:
            found = x if found is None else _c.matmul(found, x)
        n >>= 1
        if n:
            x = _c.matmul(x, x)
    return Array(found)


def matrix_rank(x, /, *, rtol=None):
    """How many singular values are above rtol times the greatest."""
    matrix(x)
    values = _c.svdvals(x)
    if 0 in values.shape:
        with x.context:
            return Array(_c.zeros(x.shape[:-2], dtype=_c.int64))
    above = _c.gt(values, _c.amax(values, dim=-1, keepdim=True) *
                  tolerance(x, rtol))
    return Array(_c.sum(above.to(_c.int64), dim=-1))


def tolerance(x, rtol):
    """rtol for each matrix; None: of the dtype and the size."""
    from doorbell.xp._create import finfo
    if rtol is None:
        return finfo(x.dtype).eps * builtins.max(x.shape[-2:])
    return rtol.unsqueeze(-1) if hasattr(rtol, 'unsqueeze') else rtol


def pinv(x, /, *, rtol=None):
    """Pseudo-inverse: singular values up to rtol times the greatest are 0."""
    matrix(x)
    if 0 in x.shape:
        with x.context:
            return Array(_c.zeros(x.mT.shape, dtype=x.dtype))
    u, values, vh = _c.svd(x)
    keep = _c.gt(values, _c.amax(values, dim=-1, keepdim=True) *
                 tolerance(x, rtol))
    zero = _c.zeros_like(values)
    over = _c.where(keep, _c.reciprocal(_c.where(keep, values, zero + 1)), zero)
    return Array(_c.matmul(vh.mT * over.unsqueeze(-2), u.mT))


def outer(x1, x2, /):
    """All products of elements of two vectors."""
    arrays(x1, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError('outer: vectors are expected, got shapes '
                         f'{x1.shape} and {x2.shape}')
    x1, x2 = both(x1, x2)
    return Array(x1.unsqueeze(1) * x2.unsqueeze(0))


def qr(x, /, *, mode='reduced'):
    """Orthonormal columns Q and upper triangular R with Q @ R = x; 'complete':
    Q is square."""
    matrix(x)
    if mode not in ('reduced', 'complete'):
        raise ValueError(f"qr: mode is 'reduced' or 'complete', got {mode!r}")
    rows, columns = x.shape[-2:]
    if mode == 'reduced' or rows <= columns:
        return QRResult(*map(Array, _c.qr(x)))
    # Columns of the unit matrix complete those of x: reflections make all rows
    # of them orthonormal.
    with x.context:
        unit = _c.broadcast_to(_c.eye(rows, dtype=x.dtype),
                               x.shape[:-2] + (rows, rows))
    q, r = _c.qr(_c.cat([x, _c.narrow(unit, unit.ndim - 1, 0, rows - columns)],
                        x.ndim - 1))
    return QRResult(Array(q), Array(_c.narrow(r, r.ndim - 1, 0, columns)))


def slogdet(x, /):
    """The determinant's sign, and the logarithm of its magnitude."""
    matrix(x)
    return SlogdetResult(*map(Array, _c.slogdet(x)))


def solve(x1, x2, /):
    """X of x1 @ X = x2; only an x2 of one axis is a vector."""
    matrix(x1)
    arrays(x2)
    x1, x2 = both(x1, x2)
    if x2.ndim == 1:
        return Array(_c.solve(x1, x2.unsqueeze(-1)).squeeze(-1))
    if x2.shape == x1.shape[:-1]:  # matrices, not a batch of vectors
        return Array(_c.solve(x1, x2.unsqueeze(0)))
    return Array(_c.solve(x1, x2))


def svd(x, /, *, full_matrices=True):
    """U, S and Vh of U @ diag(S) @ Vh = x."""
    matrix(x)
    return SVDResult(*map(Array, _c.svd(x, full_matrices)))


def svdvals(x, /):
    """Singular values, falling."""
    matrix(x)
    return Array(_c.svdvals(x))


def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over pairs of axes: a number of them, or two lists."""
    arrays(x1, x2)
    x1, x2 = both(x1, x2)
    if not isinstance(axes, int):
        axes = [list(axes_of(tuple(side), x.ndim))
                for side, x in zip(axes, (x1, x2))]
    return Array(_c.tensordot(x1, x2, axes))


def trace(x, /, *, offset=0, dtype=None):
    """Sum of a diagonal of the last two axes."""
    return _reduce.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vecdot(x1, x2, /, *, axis=-1):
    """Sums of products along an axis."""
    arrays(x1, x2)
    x1, x2 = both(x1, x2)
    n = builtins.min(x1.ndim, x2.ndim)
    axis = axis_of(axis, n) - n
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f'vecdot: sizes {x1.shape[axis]} and {x2.shape[axis]} '
                         'differ')
    return Array(_c.sum(_c.mul(x1, x2), dim=axis, dtype=x1.dtype))


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """(sum |x|^ord)^(1/ord) over axes; ord may be inf, -inf and 0."""
    arrays(x)
    return _reduce.reduced(norm, x, axis, keepdims, ord=ord)


def norm(x, dim, keepdim, ord):
    size = _c.abs(x)
    if ord == inf:
        return _c.amax(size, dim=dim, keepdim=keepdim)
    if ord == -inf:
        return _c.amin(size, dim=dim, keepdim=keepdim)
    if ord == 0:
        return _c.sum(cast(_c.ne(x, 0), x.dtype), dim=dim, keepdim=keepdim)
    if ord == 1:
        return _c.sum(size, dim=dim, keepdim=keepdim)
    if ord == 2:
        return _c.sqrt(_c.sum(x * x, dim=dim, keepdim=keepdim))
    return _c.pow(_c.sum(_c.pow(size, ord), dim=dim, keepdim=keepdim), 1 / ord)
