"""The Array API, version 2024.12, over Doorbell's tensors; complex numbers are
not among them.

>>> from doorbell import xp
>>> x = xp.asarray([[1., 2.], [3., 4.]])
>>> xp.sum(xp.linalg.matrix_transpose(x) @ x, axis=0).tolist()
[24.0, 34.0]
"""
TYPE_CHECKING = False
if TYPE_CHECKING:  # without the import
    from typing import Any
del TYPE_CHECKING

from doorbell import _c
from doorbell.xp import _array, _create, _elementwise, _reduce, _shape
from doorbell.xp._array import Array, result_type
from doorbell.xp._create import __array_namespace_info__

__array_api_version__ = '2024.12'
e = 2.718281828459045
pi = 3.141592653589793
inf = float('inf')
nan = float('nan')
newaxis = None

bool = _c.bool
int8, int16, int32, int64 = _array.SIGNED
uint8, uint16, uint32, uint64 = _array.UNSIGNED
float32, float64 = _array.FLOATS

_NAMES = {
    _create: 'arange asarray astype can_cast empty empty_like eye finfo '
             'from_dlpack full full_like iinfo isdtype linspace meshgrid ones '
             'ones_like tril triu zeros zeros_like',
    _elementwise: ' '.join((*_elementwise.UNARY, *_elementwise.BINARY)) +
                  ' clip conj floor_divide imag matmul positive real '
                  'remainder sign signbit',
    _shape: 'broadcast_arrays broadcast_to concat expand_dims flip moveaxis '
            'permute_dims repeat reshape roll squeeze stack take '
            'take_along_axis tile unstack',
    _reduce: 'all any argmax argmin argsort count_nonzero cumulative_prod '
             'cumulative_sum diff max mean min nonzero prod searchsorted sort '
             'std sum unique_all unique_counts unique_inverse unique_values var '
             'where',
}
for _module, _names in _NAMES.items():
    for _name in _names.split():
        globals()[_name] = getattr(_module, _name)
del _module, _names, _name

from doorbell.xp import fft, linalg  # noqa: E402
from doorbell.xp.linalg import matrix_transpose, tensordot, vecdot  # noqa: E402

__all__ = [name for name in globals() if not name.startswith('_')
           and name != 'newaxis'] + ['newaxis']


def __getattr__(name: str) -> 'Any':
    """For type checkers, which do not see the names that _NAMES brings."""
    raise AttributeError(f"module 'doorbell.xp' has no attribute '{name}'")
