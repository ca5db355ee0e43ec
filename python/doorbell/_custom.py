"""Functions with gradients of the caller's own, and kernels."""
from typing import NamedTuple

from doorbell import _c


class custom:
    """A function of tensors whose gradient is what `backward` makes.

    forward(*inputs) gives a tensor, with `results` a tuple of so many.
    backward(grad, out, *inputs) gives the gradient of the only input, or a tuple
    with one for each: None is zero. With `results` grad and out are tuples, and
    None stands for the gradient of what is no float.

    Both build graphs and may use tensors from outside. backward runs when a
    gradient is asked for; what it gives has a gradient again.

    >>> import doorbell
    >>> def straight(grad, out, x):
    ...     return grad
    >>> rounded = doorbell.custom(lambda x: x.round(), straight)
    >>> x = doorbell.tensor([0.4, 1.6]).requires_grad_()
    >>> (rounded(x) * 3).sum().backward()
    >>> rounded(x).tolist(), x.grad.tolist()
    ([0.0, 2.0], [3.0, 3.0])
    """

    def __init__(self, forward, backward, results=None, name=None):
        if results is not None and results < 1:
            raise ValueError(f'custom: results must be 1 or more, not {results}')
        self.forward, self.backward = forward, backward
        self.results = results or 0
        self.name = name or getattr(forward, '__name__', 'custom')
        self.__doc__ = forward.__doc__ or self.__doc__

    def __call__(self, *inputs):
        made = _c._custom(self.forward, self.backward, self.name, self.results,
                          inputs)
        return made if self.results else made[0]

    def __repr__(self):
        return f'<doorbell.custom {self.name}>'


class KernelCode(NamedTuple):
    """A kernel for one kind of device.

    device: 'CPU', 'NV', 'AMD', or one chip as 'NV:sm_90'. form: 'c' for the CPU,
    'ptx' for NVIDIA, 'llvm' (LLVM's IR) for the CPU and AMD, 'object' (machine
    code) for each. grid: work-groups; local: work-items in each;
    shared_bytes: shared memory, given at launch. docs/reference/kernel-interface.md says
    how a device gives arguments to it.
    """
    device: str
    form: str
    code: 'str | bytes'
    grid: 'tuple[int, ...]' = (1,)
    local: 'tuple[int, ...]' = (1,)
    shared_bytes: int = 0


def _three(sizes):
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return sizes + (1,) * (3 - len(sizes))


class kernel:
    """A kernel of the caller's: a function of tensors.

    name: the function's in the codes. codes: a KernelCode, or several, the first
    for the device being used. A call gives the tensors of `results`, each a pair
    (shape, dtype): a tensor for one pair, a tuple for a list of them. Arguments
    of the kernel are the addresses of its results, then of its inputs, then
    `values`. It runs when a result is needed, and has no gradient: custom gives
    it one.

    It writes every element of its results and nothing else. Nothing can check
    that.

    >>> import doorbell
    >>> double = doorbell.kernel('twice', doorbell.KernelCode('CPU', 'c', '''
    ... #include <stdint.h>
    ... void twice(const uint64_t *args, const uint32_t *grid, uint64_t first,
    ...            uint64_t last)
    ... {
    ...     float *y = (float *)args[0];
    ...     const float *x = (const float *)args[1];
    ...     for (uint64_t i = 0; i < args[2]; i++)
    ...         y[i] = 2 * x[i];
    ... }'''))
    >>> with doorbell.device('CPU'):
    ...     x = doorbell.tensor([1., 2., 3.])
    >>> double(x, results=(x.shape, x.dtype), values=[3]).tolist()
    [2.0, 4.0, 6.0]
    """

    def __init__(self, name, codes):
        codes = [codes] if isinstance(codes, tuple) else codes
        self.name = name
        self.codes = tuple(
            (c.device, c.form, c.code, _three(c.grid), _three(c.local),
             c.shared_bytes) for c in map(lambda c: KernelCode(*c), codes))

    def __call__(self, *inputs, results, values=()):
        several = isinstance(results, list)
        made = _c._kernel(self.name, self.codes,
                          tuple(results) if several else (tuple(results),),
                          tuple(values), inputs)
        return made if several else made[0]

    def __repr__(self):
        return f'<doorbell.kernel {self.name}>'
