"""Fourier transforms, with the names of the Array API's extension fft.

There is no complex dtype: a complex number is two floats along a last axis,
(real, imaginary), as torch.view_as_real gives them. `axis` and `axes` do not
count that axis.
"""
from doorbell import _c
from doorbell.xp._array import Array, arrays, axes_of
from doorbell.xp._create import arange
from doorbell.xp._shape import concat, roll

__all__ = ['fft', 'ifft', 'fftn', 'ifftn', 'rfft', 'irfft', 'rfftn', 'irfftn',
           'hfft', 'ihfft', 'fftfreq', 'rfftfreq', 'fftshift', 'ifftshift']


def pairs(x, name):
    arrays(x)
    if x.ndim < 2 or x.shape[-1] != 2:
        raise ValueError(f'{name}: a last axis of 2, real and imaginary, is '
                         f'expected, got shape {x.shape}')


def along(row, x, n, axis, norm):
    if n is not None and n < 1:
        raise ValueError(f'{row.__name__}: n is at least 1, got {n}')
    return row(x, n=n, dim=axis, norm=norm)


def fft(x, /, *, n=None, axis=-1, norm='backward'):
    """Transform of pairs along an axis."""
    pairs(x, 'fft')
    return Array(along(_c.fft, x, n, axis, norm))


def ifft(x, /, *, n=None, axis=-1, norm='backward'):
    """Its inverse."""
    pairs(x, 'ifft')
    return Array(along(_c.ifft, x, n, axis, norm))


def rfft(x, /, *, n=None, axis=-1, norm='backward'):
    """The first n / 2 + 1 pairs of the transform of real numbers."""
    arrays(x)
    return Array(along(_c.rfft, x, n, axis, norm))


def irfft(x, /, *, n=None, axis=-1, norm='backward'):
    """The real numbers that have that transform."""
    pairs(x, 'irfft')
    return Array(along(_c.irfft, x, n, axis, norm))


OTHER = {'backward': 'forward', 'forward': 'backward', 'ortho': 'ortho'}


def conjugate(x):
    with x.context:
        return x * _c.tensor([1.0, -1.0], dtype=x.dtype)


def hfft(x, /, *, n=None, axis=-1, norm='backward'):
    """The real transform of pairs, which are the first half of a sequence that
    mirrors itself."""
    pairs(x, 'hfft')
    return Array(along(_c.irfft, conjugate(x), n, axis, OTHER[norm]))


def ihfft(x, /, *, n=None, axis=-1, norm='backward'):
    """Its inverse."""
    arrays(x)
    return Array(conjugate(along(_c.rfft, x, n, axis, OTHER[norm])))


def sizes_of(x, s, axes, ndim):
    """Lengths and axes of a transform over several."""
    if axes is None:
        axes = range(ndim) if s is None else range(ndim - len(s), ndim)
    axes = axes_of(tuple(axes), ndim)
    lengths = [None] * len(axes) if s is None else list(s)
    if len(lengths) != len(axes):
        raise ValueError('as many lengths as axes are expected, got '
                         f'{len(lengths)} and {len(axes)}')
    return lengths, axes


def fftn(x, /, *, s=None, axes=None, norm='backward'):
    """fft along several axes; None: all."""
    pairs(x, 'fftn')
    for n, axis in zip(*sizes_of(x, s, axes, x.ndim - 1)):
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def ifftn(x, /, *, s=None, axes=None, norm='backward'):
    """Its inverse."""
    pairs(x, 'ifftn')
    for n, axis in zip(*sizes_of(x, s, axes, x.ndim - 1)):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return x


def rfftn(x, /, *, s=None, axes=None, norm='backward'):
    """rfft along the last of several axes, fft along the others."""
    arrays(x)
    lengths, axes = sizes_of(x, s, axes, x.ndim)
    x = rfft(x, n=lengths[-1], axis=axes[-1], norm=norm)
    for n, axis in zip(lengths[:-1], axes[:-1]):
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def irfftn(x, /, *, s=None, axes=None, norm='backward'):
    """Its inverse."""
    pairs(x, 'irfftn')
    lengths, axes = sizes_of(x, s, axes, x.ndim - 1)
    for n, axis in zip(lengths[:-1], axes[:-1]):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return irfft(x, n=lengths[-1], axis=axes[-1], norm=norm)


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """Frequencies of a transform of length n, samples d apart."""
    dtype = dtype or _c.float32
    middle = (n - 1) // 2 + 1
    count = concat([arange(0, middle, dtype=dtype, device=device),
                    arange(-(n // 2), 0, dtype=dtype, device=device)])
    return count / (n * d)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """Those of rfft."""
    dtype = dtype or _c.float32
    return arange(0, n // 2 + 1, dtype=dtype, device=device) / (n * d)


def fftshift(x, /, *, axes=None):
    """Zero frequency in the middle."""
    arrays(x)
    axes = axes_of(axes, x.ndim)
    return roll(x, tuple(x.shape[a] // 2 for a in axes), axis=axes)


def ifftshift(x, /, *, axes=None):
    """Its inverse."""
    arrays(x)
    axes = axes_of(axes, x.ndim)
    return roll(x, tuple(-(x.shape[a] // 2) for a in axes), axis=axes)
