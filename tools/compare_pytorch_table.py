"""What tools/compare_pytorch.py needs to know of PyTorch: how its functions are
called where they are not called as ours, which are not compared, and which
differences are wanted. docs/pytorch.md is printed from the last two by

    python3 tools/compare_pytorch_table.py > docs/pytorch.md
"""

CONVERSIONS = ('int8 uint8 int16 uint16 int32 uint32 int64 uint64 to sum '
               'cumsum')

# Functions; what differs: 'value', 'gradient', 'dtype', 'shape', or 'refused'
# for what PyTorch refuses; words, separated by ' | ', of which one is in the
# case or is a dtype ('': any); what differs and why, for the page.
WANTED = [
    (CONVERSIONS, 'value', '',
     'A float outside of an integer dtype becomes its least or greatest '
     'number, NaN 0: the same on every device. PyTorch gives what the '
     'processor gives.'),
    ('tensor full full_like', 'refused', 'yint | yuint | yfloat16',
     'A number of the caller is converted like an element, and to infinity '
     'beyond a float dtype. PyTorch refuses it.'),
    ('float8_e4m3fn to', 'value', '',
     'A float beyond 448 is NaN in float8_e4m3fn, as the dtype has no '
     'infinity. PyTorch 2.15 gives 448 for all but NaN.'),
    ('arange', 'value', 'yint32',
     'Numbers are computed as floats and then converted. PyTorch converts '
     'start and step first: a step of 0.5 is 0.'),
    ('any all', 'dtype', 'uint8',
     'The result is bool. PyTorch gives uint8 for uint8.'),
    ('div trunc_divide', 'value', '',
     'The exact quotient is rounded towards zero: 0.5 by 0.1 of float32, '
     'which is above a tenth, is 4. PyTorch rounds the quotient to nearest '
     'first.'),
    ('remainder fmod', 'value gradient', '',
     'The remainder is that of the exact quotient. PyTorch gives NaN where '
     'the quotient overflows.'),
    ('div trunc_divide floor_divide remainder fmod', 'refused', 'int',
     'Integers by 0 are 0, and leave 0. PyTorch raises ZeroDivisionError.'),
    ('floor_divide', 'gradient', '',
     'The gradient is 0, as for floor. PyTorch has none.'),
    ('detach', 'gradient', '',
     'The gradient of what is detached is 0. PyTorch has none.'),
    ('expm1 log10 atan2 tanh asinh acosh softsign sigmoid silu mish',
     'gradient', '',
     'Slopes of great arguments are exact. PyTorch computes them from the '
     'result or a square, which cancels or overflows.'),
    ('clamp', 'gradient', '@U',
     'Of bounds that are equal each has half of their gradient. PyTorch '
     'gives it to the lower one, or to x where that is equal, too.'),
    ('hypot', 'gradient', '',
     'At (0, 0) and at infinities the slope is 0, or 1 by the infinite leg. '
     'PyTorch divides 0 by 0.'),
    ('copysign', 'gradient', '',
     'The slope at an infinity is 1 or -1. PyTorch divides infinities.'),
    ('sigmoid silu mish', 'value', '',
     'Results near the least normal number are exact. PyTorch gives 0 '
     'below -88, or is off.'),
    ('gelu', 'value gradient', '',
     'gelu of minus infinity is 0. Below -5 gelu of float16 and bfloat16 '
     'is exact, where 1 + erf of PyTorch cancels, as it does here in '
     'float32.'),
    ('hardsigmoid', 'gradient', 'float64',
     'The slope is 1 / 6. PyTorch has that of float32.'),
    ('logaddexp', 'gradient', '',
     'Of two infinities each has half the gradient, and slopes below '
     '1e-38 are not 0. PyTorch divides infinities.'),
    ('sort argsort topk', 'value', '',
     'Equal elements stay in their order. PyTorch promises none without '
     'stable=True.'),
    ('kthvalue', 'value gradient', '@c | @q',
     'The index of equal elements, which takes the gradient, is the first '
     'of its place in a stable order. PyTorch promises none.'),
    ('max min amax amin aminmax scatter_reduce quantile nanquantile',
     'gradient', '@q',
     'A NaN that makes the result NaN takes no gradient.'),
    ('quantile nanquantile', 'refused', '',
     'q beyond 0 and 1 counts as 0 or 1, and of no elements the result is '
     'NaN.'),
    ('bincount', 'dtype', '',
     'Counts have the dtype of the weights.'),
    ('repeat_interleave', 'shape gradient refused', ':0 | i9',
     'output_size is the size of the result: what lacks is 0, what is too '
     'much is left out.'),
    ('one_hot', 'refused', 'int', 'Integers of all sizes are taken.'),
    ('solve det inv svd', 'refused', 'int',
     'Integers are taken, as float32.'),
    ('einsum', 'dtype', 'int',
     'Sums keep an integer dtype, of one operand, too.'),
    ('scatter_add', 'gradient', '',
     'src may be greater than index. PyTorch has no gradient then.'),
    ('index_add take_along_dim', 'refused', '@n:',
     'A scalar counts as one element.'),
    ('clamp', 'refused', 'i300 | i-70000 | i-1',
     'A whole number beyond an integer dtype is no bound, or the nearest '
     'end. PyTorch refuses one that leaves no number.'),
    ('conv2d', 'refused', 'padding=i-1',
     'Negative padding cuts. PyTorch refuses it.'),
    ('det', 'gradient', '@m:9,9',
     'The gradient are cofactors, finite where the determinant overflows. '
     'PyTorch multiplies the inverse by it.'),
    ('pinv', 'gradient', 'hermitian',
     'The gradient of a symmetric matrix is symmetric. PyTorch has that of '
     'any matrix.'),
    ('svd svdvals eigh eigvalsh slogdet pinv matrix_rank', 'refused dtype', 'int',
     'Integers are taken, as float32.'),
    ('svd eigh', 'value gradient', '',
     'Singular vectors may have the other sign.'),
    ('index_put scatter index_copy', 'gradient', '@w | @i',
     'Where an element is put several times, the value that stays takes '
     'the gradient. PyTorch gives it to all.'),
    ('nonzero masked_select', 'refused', ' i',
     'A size may be given, for captured functions.'),
    ('argmax argmin topk', 'refused', 'bool', 'bool is taken.'),
    ('kl_div', 'refused', '/?', 'A target of bool is taken.'),
    ('fft ifft irfft', 'refused', 'int', 'Integers are taken, as float32.'),
    ('istft', 'value gradient', 'onesided=b0',
     'With onesided=False both halves count. PyTorch reads one: the same '
     'for what stft of real numbers gives.'),
    ('var var_mean std std_mean', 'gradient', 'correction',
     'Where correction leaves no degree of freedom the gradient is NaN. '
     'PyTorch gives infinities.'),
    ('softmax log_softmax softmin', 'gradient', '',
     'Gradients that vanish differ by rounding, of a sum near 0.'),
    ('conv1d conv2d', 'refused', 'padding=l',
     'Padding may differ at the two ends of an axis.'),
    ('conv2d', 'refused', ':2,2,0,4', 'An image may have an empty axis.'),
    ('max_pool1d avg_pool1d', 'refused', ':0,9',
     'An image without a batch may have no channels.'),
    ('max_pool1d max_pool2d max_pool3d', 'gradient', '@c | @q',
     'Equal elements of a window share its gradient. PyTorch gives it to '
     'the first.'),
    ('grid_sample', 'value', '@q',
     'NaN counts as -1 in every mode, as PyTorch documents. Points '
     'infinitely far away are outside.'),
    ('pixel_shuffle pixel_unshuffle', 'gradient', ':4,0,2',
     'An empty image has a gradient. PyTorch fails.'),
    ('cross_entropy nll_loss binary_cross_entropy_with_logits batch_norm '
     'instance_norm', 'gradient', '',
     'Weights of classes and running statistics have gradients. PyTorch '
     'has none.'),
    ('binary_cross_entropy', 'gradient', '@b',
     'The slope of a right answer of 0 or 1 is its limit, 1 or -1. '
     'PyTorch has 0 there.'),
]

# Functions whose numbers PyTorch draws otherwise, or that it has not.
RANDOM = ('rand randn randint randperm rand_like randn_like normal '
          'multinomial dropout').split()
ABSENT = ('quick_gelu glorot_uniform kaiming_normal '
          'kaiming_uniform scaled_uniform uniform rearrange nms '
          'roi_align').split()


def calls(torch):
    """Functions that PyTorch calls otherwise."""
    F = torch.nn.functional

    def to(name):
        return lambda x: x.to(getattr(torch, name))

    def over_all(function):
        return lambda x, dim=None, **rest: function(
            x, dim=tuple(range(x.dim())) if dim is None else dim, **rest)

    def along_last(function):
        return lambda x, dim=-1, **rest: function(x, dim=dim, **rest)

    def prod(x, dim=None, keepdim=False, dtype=None):
        if dim is None:
            return torch.prod(x, dtype=dtype)
        dims = dim if isinstance(dim, list) else [dim]
        for d in sorted((d % max(x.dim(), 1) for d in dims), reverse=True):
            x = torch.prod(x, dim=d, keepdim=keepdim, dtype=dtype)
        return x

    def fourier(name, real=False):
        def call(x, n=None, dim=-1, norm=None):
            x = x if real else torch.view_as_complex(x.contiguous())
            return getattr(torch.fft, name)(x, n=n, dim=dim, norm=norm)
        return call

    def istft(x, *args, **rest):
        return torch.istft(torch.view_as_complex(x.contiguous()), *args,
                           **rest)

    def pool(name):
        def call(x, kernel_size, return_indices=False, **rest):
            function = getattr(F, name + '_with_indices' if return_indices
                               else name)
            return function(x, kernel_size, **rest)
        return call

    def unfold(x, dimension, size, step):
        return x.unfold(dimension, size, step)

    def permute(x, dims=None):
        return x.permute(dims if dims is not None else
                         list(reversed(range(x.dim()))))

    def batch_norm(x, running_mean=None, running_var=None, **rest):
        return F.batch_norm(x, running_mean, running_var, **rest)

    def wrap(index, size):
        index = index.long()
        return torch.where(index < 0, index + size, index)

    def extreme(name):
        def call(x, dim=None, keepdim=False):
            if isinstance(dim, int):
                return getattr(torch, name)(x, dim, keepdim)
            dim = tuple(range(x.dim())) if dim is None else dim
            return getattr(torch, 'a' + name)(x, dim=dim, keepdim=keepdim)
        return call

    def aminmax(x, **rest):
        return tuple(extreme(name)(x, **rest) if not isinstance(
            rest.get('dim'), int) else getattr(torch, 'a' + name)(x, **rest)
                     for name in ('min', 'max'))

    def at_index(name):
        def call(x, dim, index, *args, **rest):
            size = x.shape[dim] if x.dim() else 1
            function = getattr(torch.Tensor, name)
            if isinstance(rest.get('src'), float):
                rest['value'] = rest.pop('src')
            return function(x, dim, wrap(index, size), *args, **rest)
        return call

    def unpool(name):
        def call(x, indices, kernel_size, output_size=None, **rest):
            if isinstance(output_size, int):
                output_size = [output_size]
            return getattr(F, name)(x, indices, kernel_size,
                                    output_size=output_size, **rest)
        return call

    names = ('bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 '
             'bfloat16 float32 float64 float8_e4m3fn float8_e5m2 '
             'float8_e4m3fnuz float8_e5m2fnuz').split()
    table = {name: to(name) for name in names}
    table.update({
        'prod': prod, 'logsumexp': over_all(torch.logsumexp),
        'softmax': along_last(torch.softmax),
        'log_softmax': along_last(torch.log_softmax),
        'softmin': along_last(F.softmin),
        'fft': fourier('fft'), 'ifft': fourier('ifft'),
        'rfft': fourier('rfft', True), 'irfft': fourier('irfft'),
        'stft': lambda x, *args, **rest: torch.stft(
            x, *args, return_complex=True, **rest),
        'istft': istft, 'permute': permute, 'mT': lambda x: x.mT,
        'unfold': unfold, 'batch_norm': batch_norm,
        'to': lambda x, dtype: x.to(dtype),
        'bitcast': lambda x, dtype: x.view(dtype),
        'trunc_divide': lambda x, other: torch.div(
            x, other, rounding_mode='trunc'),
        'softsign': F.softsign,
        'max': extreme('max'), 'min': extreme('min'), 'aminmax': aminmax,
        'cholesky': torch.linalg.cholesky, 'qr': torch.linalg.qr,
        'solve': lambda A, B: torch.linalg.solve(A, B),
        'svd': lambda x, full_matrices=False: torch.linalg.svd(
            x, full_matrices=full_matrices),
        'matrix_rank': lambda x, **rest: torch.linalg.matrix_rank(x, **rest),
        'einsum': lambda equation, operands: torch.einsum(equation,
                                                          *operands),
        'take_along_dim': lambda x, indices, dim=None: torch.take_along_dim(
            x, wrap(indices, x.numel() if dim is None else x.shape[dim]),
            dim),
        'take': lambda x, index: torch.take(x, wrap(index, x.numel())),
    })
    table.update({name: at_index(name) for name in (
        'gather index_select scatter scatter_add scatter_reduce index_add '
        'index_copy').split()})
    table.update({f'max_pool{n}d': pool(f'max_pool{n}d') for n in (1, 2, 3)})
    table.update({f'max_unpool{n}d': unpool(f'max_unpool{n}d')
                  for n in (1, 2, 3)})
    return table


PAGE = """# What differs from PyTorch, and why

For who ports code from PyTorch: functions of [functions.md](functions.md) have the names and the meaning of
PyTorch's, but for these differences, all of them wanted.

Printed by `python3 tools/compare_pytorch_table.py`. [Another judge](fuzzing.md#another-judge-pytorch) finds them;
a difference that is not here is a fault.

| functions | difference |
|---|---|
"""

END = """
The gradient of a result that is NaN is any number.

PyTorch has none of these functions: {absent}.

PyTorch draws other random numbers of a seed: {random}.
"""


def page():
    rows = ''.join(
        f"| {', '.join(f'`{name}`' for name in names.split())} | {why} |\n"
        for names, _, _, why in WANTED)
    return PAGE + rows + END.format(
        absent=', '.join(f'`{name}`' for name in ABSENT),
        random=', '.join(f'`{name}`' for name in RANDOM))


if __name__ == '__main__':
    print(page(), end='')
