"""Doorbell: tensors on GPUs and processors, from the calls to the hardware's queues.

Names and meanings are PyTorch's. Calls build a graph;
values are computed when they are asked for.

>>> import doorbell
>>> x = doorbell.tensor([[1., 2.], [3., 4.]])
>>> (x @ x).sum(1).tolist()
[17.0, 37.0]
"""
import builtins as _builtins

TYPE_CHECKING = False
if TYPE_CHECKING:  # without the import
    from typing import Any

from doorbell import _c
from doorbell._c import *  # noqa: F401,F403

__version__ = _c.__version__
__all__ = [name for name in dir(_c) if not name.startswith('_')]
inf = float_inf = _builtins.float('inf')
nan = _builtins.float('nan')
pi = 3.141592653589793
newaxis = None
del float_inf

_LAZY = {'nn': 'nn', 'optim': 'optim', 'errors': 'errors', 'xp': 'xp',
         'data': 'data', 'hcq': 'hcq', 'onnx': 'onnx', 'jit': '_jit', 'load': '_files',
         'save': '_files', 'no_grad': '_grad', 'vjp': '_grad', 'custom': '_custom',
         'kernel': '_custom', 'KernelCode': '_custom'}


def __getattr__(name: str) -> 'Any':
    """Parts that not every program needs are imported when they are used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'doorbell' has no attribute '{name}'")
    import importlib
    module = importlib.import_module('doorbell.' + _LAZY[name])
    value = module if _LAZY[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> 'list[str]':
    return sorted({*globals(), *_LAZY})
