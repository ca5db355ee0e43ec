"""Shapes: arrays rearranged, joined and indexed."""
import builtins

from doorbell import _c
from doorbell.xp._array import (Array, Tensor, arrays, axes_of, axis_of, cast,
                                flat, result_type, wrap)


def broadcast_shape(shapes):
    n = max((len(s) for s in shapes), default=0)
    found = []
    for i in range(-n, 0):
        of_axis = {s[i] for s in shapes if len(s) >= -i} - {1}
        if len(of_axis) > 1:
            raise ValueError(f'shapes do not broadcast: {list(shapes)}')
        found.append(of_axis.pop() if of_axis else 1)
    return tuple(found)


def broadcast_to(x, /, shape):
    """Axes of size 1 repeated, new ones in front."""
    arrays(x)
    return Array(_c.broadcast_to(x, tuple(shape)))


def broadcast_arrays(*arrays):
    """Arrays in their common shape."""
    shape = broadcast_shape([x.shape for x in arrays])
    return [broadcast_to(x, shape) for x in arrays]


def concat(arrays, /, *, axis=0):
    """Joined along an axis; None: as if flat."""
    dtype = result_type(*arrays)
    parts = [cast(x, dtype) for x in arrays]
    if axis is None:
        parts, axis = [flat(x) for x in parts], 0
    axis_of(axis, parts[0].ndim)
    return Array(_c.cat(parts, axis))


def stack(arrays, /, *, axis=0):
    """Joined along a new axis."""
    dtype = result_type(*arrays)
    return Array(_c.stack([cast(x, dtype) for x in arrays], axis))


def unstack(x, /, *, axis=0):
    """The parts at each place of an axis."""
    arrays(x)
    axis = axis_of(axis, x.ndim)
    return tuple(Array(_c.select(x, axis, i)) for i in range(x.shape[axis]))


def expand_dims(x, /, axis):
    """With an axis of size 1 more; or several, by their place in the result."""
    arrays(x)
    if isinstance(axis, tuple):
        places = sorted(axis_of(a, x.ndim + len(axis)) for a in axis)
        for place in places:
            x = _c.unsqueeze(x, place)
        return wrap(x)
    axis_of(axis, x.ndim + 1)
    return Array(_c.unsqueeze(x, axis))


def squeeze(x, /, axis):
    """Without axes, which have size 1."""
    arrays(x)
    axes = axes_of(axis, x.ndim)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f'squeeze: axis {a} has size {x.shape[a]}, not 1')
    return Array(x.reshape(tuple(n for i, n in enumerate(x.shape)
                                 if i not in axes)))


def flip(x, /, *, axis=None):
    """Axes reversed; None: all."""
    arrays(x)
    axes = axes_of(axis, x.ndim)
    return Array(_c.flip(x, axes)) if axes else Array(x)


def moveaxis(x, source, destination, /):
    """Axes moved, the others in their order."""
    arrays(x)
    source = axes_of(source, x.ndim)
    destination = axes_of(destination, x.ndim)
    if len(source) != len(destination):
        raise ValueError('moveaxis: as many destinations as sources are expected')
    rest = [i for i in range(x.ndim) if i not in source]
    for to, of in sorted(zip(destination, source)):
        rest.insert(to, of)
    return permute_dims(x, tuple(rest))


def permute_dims(x, /, axes):
    """Axis i of the result is axis axes[i] of x."""
    arrays(x)
    return Array(_c.permute(x, tuple(axes))) if x.ndim else Array(x)


def repeat(x, repeats, /, *, axis=None):
    """Each element along an axis repeated; None: as if flat."""
    arrays(x)
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    if isinstance(repeats, Tensor):
        if repeats.ndim == 0 or repeats.shape == (1,):
            repeats = int(repeats)
        else:
            repeats = cast(repeats, _c.int64)
    return Array(_c.repeat_interleave(x, repeats, axis))


def reshape(x, /, shape, *, copy=None):
    """The same elements in another shape; one size may be -1."""
    arrays(x)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return Array(x.reshape(shape))


def turn(x, shift, axis):
    """x rolled by any int: a whole turn leaves it as it is."""
    size = x.shape[axis]
    if isinstance(size, int) and size > 0:
        shift %= size
    return _c.roll(x, shift, axis)


def roll(x, /, shift, *, axis=None):
    """Shifted along axes, wrapping round; None: as if flat."""
    arrays(x)
    if axis is None:
        if isinstance(shift, tuple):
            shift = builtins.sum(shift)
        return Array(turn(flat(x), shift, 0).reshape(x.shape))
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ValueError('roll: as many shifts as axes are expected')
    for s, a in zip(shifts, axes):
        x = turn(x, s, axis_of(a, x.ndim))
    return Array(x)


def tile(x, repetitions, /):
    """The whole repeated along each axis."""
    arrays(x)
    repetitions = tuple(repetitions)
    n = builtins.max(x.ndim, len(repetitions))
    if n == 0:
        return Array(x)
    repetitions = (1,) * (n - len(repetitions)) + repetitions
    return Array(_c.repeat(x.reshape((1,) * (n - x.ndim) + x.shape),
                           repetitions))


# ---- indexing ----

def from_front(indices, n):
    """Negative indices count from the end."""
    indices = cast(indices, _c.int64)
    return _c.where(_c.lt(indices, 0), indices + n, indices)


def take(x, indices, /, *, axis=None):
    """Parts of an axis by their places."""
    arrays(x, indices)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f'take: axis is needed for {x.ndim} axes')
        axis = 0
    axis = axis_of(axis, x.ndim)
    where = from_front(flat(indices), x.shape[axis])
    found = _c.index_select(x, axis, where)
    shape = x.shape[:axis] + indices.shape + x.shape[axis + 1:]
    return Array(found.reshape(shape))


def take_along_axis(x, indices, /, *, axis=-1):
    """For each index the element there, along an axis."""
    arrays(x, indices)
    axis = axis_of(axis, x.ndim)
    shapes = [list(x.shape), list(indices.shape)]
    for s in shapes:
        s[axis] = 1
    shape = broadcast_shape([tuple(s) for s in shapes])

    def widened(y):
        return _c.broadcast_to(y, shape[:axis] + (y.shape[axis],) +
                               shape[axis + 1:])
    where = from_front(widened(indices), x.shape[axis])
    return Array(_c.gather(widened(x), axis, where))
