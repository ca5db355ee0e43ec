"""What tools/compare_pytorch.py needs to know of PyTorch: how its functions are
called where they are not called as ours, which are not compared, and which
differences are wanted. docs/reference/pytorch.md is printed from the last two by

    python3 tools/compare_pytorch_table.py > docs/reference/pytorch.md
"""

import textwrap

CONVERSIONS = 'int8 uint8 int16 uint16 int32 uint32 int64 uint64 to'


def beyond(a, x):
    """Where a float is outside of the integers of a."""
    size = 8 * a.element_size()
    unsigned = str(a.dtype).startswith('torch.uint')
    least, most = (0, 2.0 ** size) if unsigned else (-2.0 ** (size - 1),
                                                     2.0 ** (size - 1))
    x = x[0].double()
    return x.isnan() | (x <= least - 1) | (x >= most)


def large(x, size):
    """Where an operand is larger, not a number, or a power of it vanishes."""
    where = x[0].abs() > size
    for t in x:
        if t.shape == where.shape:
            where = where | ~(t.abs() <= size) | (t.abs() < 1e-18)
    return where


# Functions; what differs: 'value', 'gradient', 'dtype', 'shape', 'none' where
# PyTorch has no gradient, or 'refused' where it refuses the call; words,
# separated by ' | ', of which one is in the case or is a dtype ('': any); what
# differs and why, for the page. A fifth item says at which elements values or
# gradients may differ, by ours, PyTorch's and the call's tensors. Words that no
# case of the comparison has: the row is for the page alone.
WANTED = [
    (CONVERSIONS, 'value', '',
     'A float outside of an integer dtype becomes its least or greatest '
     'number, NaN 0: the same on every device. PyTorch gives what the '
     'processor gives.', lambda a, b, x: beyond(a, x)),
    ('sum cumsum', 'value', 'yuint',
     'Each float is converted to the integer dtype first, likewise.'),
    ('tensor full full_like', 'refused', 'yint | yuint | yfloat16',
     'A float of the caller is converted like an element: 300.0 is 255 in '
     'uint8, and 1e6 infinity in float16. PyTorch refuses it, but for '
     'infinities in `tensor`. A whole number that does not fit is refused, '
     'and -1 is 255 in uint8, as in PyTorch.'),
    ('float8_e4m3fn to', 'value', 'yfloat8 | @x',
     'A float beyond 448 is NaN in float8_e4m3fn, as the dtype has no '
     'infinity. PyTorch 2.15 gives 448 for all but NaN.',
     lambda a, b, x: a.double().isnan() & (x[0].abs() > 448)),
    ('arange', 'value', 'yint32',
     'Numbers are computed as floats and then converted. PyTorch converts '
     'start and step first: a step of 0.5 is 0.'),
    ('any all', 'dtype', 'uint8',
     'The result is bool. PyTorch gives uint8 for uint8.'),
    ('div trunc_divide', 'value', '',
     'The exact quotient is rounded towards zero: 0.5 by 0.1 of float32, '
     'which is above a tenth, is 4. PyTorch rounds the quotient to nearest '
     'first.',
     lambda a, b, x: (a - b).abs() <= 1),
    ('remainder fmod', 'value gradient', '',
     'The remainder is that of the exact quotient. PyTorch gives NaN where '
     'the quotient overflows, and rounds the quotient that is the slope.',
     lambda a, b, x: ~b.isfinite() |
     ((a - b).abs() <= 1)),
    ('div trunc_divide floor_divide remainder fmod', 'refused', 'int',
     'Integers by 0 are 0, and leave 0. PyTorch raises ZeroDivisionError.'),
    ('floor_divide', 'none', '',
     'The gradient is 0, as for floor. PyTorch has none.'),
    ('detach', 'none', '',
     'The gradient of what is detached is 0. PyTorch has none.'),
    ('expm1 log10 atan2 asinh acosh softsign silu mish',
     'gradient', '',
     'Slopes of large arguments are exact. PyTorch computes them from the '
     'result or a square, which cancels or overflows.',
     lambda a, b, x: large(x, 4)),
    ('tanh sigmoid', 'gradient', '',
     'Slopes are computed from the result, as in PyTorch: 1 - y * y and '
     'y * (1 - y) cancel where y is near 1, and the two libraries differ by '
     'the rounding of y there.', lambda a, b, x: large(x, 4)),
    ('clamp', 'gradient', '@U',
     'Two bounds that are equal share the gradient. PyTorch gives it to the '
     'lower one, or to x where x equals both.',
     lambda a, b, x: (x[1] == x[2]) | x[0].isnan() | x[1].isnan() |
     x[2].isnan()),
    ('hypot', 'gradient', '',
     'At (0, 0) the slope is 0. At an infinity it is 1 for the infinite '
     'operand and 0 for the other. PyTorch divides 0 by 0, and squares.',
     lambda a, b, x: b.isnan() | large(x, 1e18)),
    ('copysign', 'gradient', '',
     'The slope at an infinity is 1 or -1. PyTorch divides infinities.',
     lambda a, b, x: b.isnan()),
    ('sigmoid silu mish', 'value', '',
     'Results near the smallest normal number are exact. PyTorch gives 0 '
     'below -88, or a less exact number.',
     lambda a, b, x: x[0] < -16),
    ('gelu', 'value gradient', '',
     'gelu of minus infinity is 0. Below -5 gelu of float16 and bfloat16 '
     'is exact, where 1 + erf of PyTorch cancels, as it does here in '
     'float32. The slope of the tanh form is finite for large arguments.',
     lambda a, b, x: (x[0] < -4) | b.isnan()),
    ('hardsigmoid', 'gradient', 'float64',
     'The slope is 1 / 6. PyTorch has that of float32.'),
    ('logaddexp', 'gradient', '',
     'Two equal infinities share the gradient equally, where PyTorch divides '
     'infinities. Slopes below 1e-38 are not 0.',
     lambda a, b, x: b.isnan() | (a.abs() < 1e-37)),
    ('topk', 'value', '',
     'Equal elements stay in their order. PyTorch promises none.',
     lambda a, b, x: (a == a) & (a.element_size() == 8 and
                                 not a.dtype.is_floating_point)),
    ('topk', 'shape', '@n: i0',
     'k = 0 of a scalar gives an empty tensor. PyTorch gives the element.'),
    ('median nanmedian', 'value gradient', '@c | @q',
     'With `dim`, a stable sort decides which of several equal elements gets '
     'the index and the gradient. PyTorch does not say which.'),
    ('median nanmedian', 'refused', 'keepdim',
     '`keepdim` is taken without `dim`.'),
    ('quantile nanquantile', 'gradient', '@c',
     'Among equal elements the gradient belongs to those that a stable sort '
     'puts beside the quantile. PyTorch promises none.'),
    ('adaptive_avg_pool1d adaptive_avg_pool2d', 'none', 'i0 | l0 | ,0',
     'A result of size 0 gives gradients of 0. PyTorch has none.'),
    ('kthvalue', 'value gradient', '@c | @q',
     'Among equal elements the index, and with it the gradient, belongs to '
     'the one that a stable sort puts there. PyTorch promises none.'),
    ('max min amax amin aminmax scatter_reduce quantile nanquantile',
     'gradient', '@q',
     'A NaN that makes the result NaN takes no gradient.'),
    ('quantile nanquantile', 'refused', '',
     'A q outside 0..1 gives NaN: q may be a tensor, which is not read before '
     'the graph runs. PyTorch refuses it.'),
    ('quantile nanquantile', 'value', 'infinities',
     'Between two equal infinities lies that infinity. PyTorch subtracts '
     'them, which is NaN.'),
    ('histc', 'refused', 'nan | inf',
     'Without a range, and with an element that is not finite, no element is '
     'counted. PyTorch reads the elements and refuses.'),
    ('multinomial', 'refused', 'weights',
     'Where nothing can be drawn, and from a row with a weight that is '
     'negative or not finite, the index is -1: weights are not read before '
     'the graph runs. PyTorch refuses them.'),
    ('mode', 'value', 'several nan',
     'NaN are not equal to each other, so one never counts twice. PyTorch '
     'counts them as equal.'),
    ('searchsorted bucketize', 'value', 'nan',
     'NaN is the greatest number, so a NaN of the sequence is found. PyTorch '
     'puts NaN behind all.'),
    ('any all', 'shape', 'dim=[]',
     'An empty list of axes is all axes, as for `sum`. PyTorch reduces none '
     'here, and all in `sum`.'),
    ('index_add', 'value', 'alpha of integers',
     'An alpha that is not whole multiplies integers before the product '
     'is converted. PyTorch converts alpha first: 0.5 is 0.'),
    ('addmm', 'value', 'alpha=0',
     'A factor alpha of 0 multiplies, so infinity and NaN give NaN. PyTorch '
     'leaves the product out.'),
    ('matrix_rank', 'value', 'rtol=0',
     'With a tolerance of 0 rounded singular values count. Which are exactly '
     '0 depends on the algorithm.'),
    ('logsumexp logcumsumexp', 'gradient', '3e38',
     'The slopes are the shares of each term, which sum to 1. PyTorch '
     'computes them from the rounded result: equal terms of 3e38 get 1 each, '
     'and in logcumsumexp one of minus infinity gets NaN.'),
    ('matmul mm bmm mv dot linear conv1d conv2d conv3d', 'refused',
     'mixed dtypes',
     'Operands of several dtypes get the dtype of a sum of them. PyTorch '
     'wants one dtype.'),
    ('cross_entropy nll_loss', 'refused', 'yint32',
     'Classes may be of any integer dtype.'),
    ('maximum minimum hypot atan2 isclose allclose', 'refused', 'numbers',
     'An operand may be a number.'),
    ('bincount', 'dtype', '@n',
     'Counts have the dtype of the weights.'),
    ('repeat_interleave', 'shape gradient none refused', ':0 | i9',
     'output_size is the size of the result: missing elements are 0, surplus '
     'ones are left out.'),
    ('one_hot', 'refused', 'int', 'Integers of all sizes are taken.'),
    ('einsum', 'dtype', 'int',
     'Sums of integers keep their dtype, also with one operand.'),
    ('scatter scatter_add', 'none', '',
     'src may be larger than index, and scatter may add or multiply. PyTorch '
     'has no gradient then.'),
    ('index_add take_along_dim', 'refused', '@n:',
     'A scalar counts as one element.'),
    ('clamp', 'refused', 'i300 | i-70000 | i-1',
     'A whole number outside an integer dtype counts as the dtype\'s nearest '
     'number. PyTorch refuses a bound that leaves no number.'),
    ('conv2d', 'refused', 'padding=i-1',
     'Negative padding cuts. PyTorch refuses it.'),
    ('det', 'gradient', '@m:9,9',
     'The gradient is the matrix of cofactors, which is finite where the '
     'determinant overflows. PyTorch multiplies the inverse by the '
     'determinant.'),
    ('pinv', 'gradient', 'hermitian',
     'The gradient of a symmetric matrix is symmetric. PyTorch has that of '
     'any matrix.'),
    ('solve det inv slogdet svd svdvals eigh eigvalsh pinv matrix_rank',
     'refused dtype', 'int',
     'Integers are taken, as float32.'),
    ('index_put scatter index_copy', 'gradient', '@w | @i',
     'Where an element is put several times, the value that stays takes '
     'the gradient. PyTorch gives it to all.'),
    ('nonzero masked_select', 'refused', ' i',
     'A size may be given, for captured functions.'),
    ('argmax argmin topk', 'refused', 'bool', 'bool is taken.'),
    ('lerp', 'refused', '@b', 'A weight of bool is taken.'),
    ('kl_div', 'refused', '@b | /?', 'A target of bool is taken.'),
    ('cdist', 'gradient', 'finf',
     'With p = infinity, coordinates at the same largest distance share the '
     'gradient, as in `norm`. PyTorch gives the whole gradient to each.'),
    ('fft ifft irfft', 'refused', 'int', 'Integers are taken, as float32.'),
    ('istft', 'value gradient', 'onesided=b0',
     'With onesided=False both halves count. PyTorch reads one: the same '
     'for what stft of real numbers gives.'),
    ('var var_mean std std_mean', 'gradient', 'correction',
     'Where correction leaves no degree of freedom the gradient is NaN. '
     'PyTorch gives infinities.'),
    ('softmax log_softmax softmin binary_cross_entropy_with_logits',
     'gradient', '',
     'A gradient whose terms cancel differs by their rounding.',
     lambda a, b, x: (a - b).abs() <= 1e-4),
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
    ('pixel_shuffle pixel_unshuffle', 'none', ':4,0,2',
     'An empty image has a gradient. PyTorch fails.'),
    ('cross_entropy nll_loss binary_cross_entropy_with_logits batch_norm '
     'instance_norm', 'none', '',
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
        'sort': lambda x, dim=-1, descending=False: torch.sort(
            x, dim=dim, descending=descending, stable=True),
        'argsort': lambda x, dim=-1, descending=False: torch.argsort(
            x, dim=dim, descending=descending, stable=True),
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

This page is for people who port code from PyTorch. The functions of [functions.md](functions.md)
have PyTorch's names and meaning, except for the differences below, which are wanted.

`python3 tools/compare_pytorch_table.py` prints this page. [A
comparison](../how-to/fuzzing.md#another-judge-pytorch) finds the differences; one that is not
listed here is a fault.

| functions | difference |
|---|---|
"""

# Calls that PyTorch takes and we refuse, and why.
NARROWER = [
    ('mse_loss l1_loss huber_loss smooth_l1_loss kl_div',
     'Operands of several shapes are refused. PyTorch broadcasts them, and '
     'warns that it is likely a mistake.'),
    ('one_hot',
     'num_classes must be given and positive. PyTorch counts the classes in '
     'the elements, which are not read here before the graph runs.'),
    ('cat',
     'An empty tensor of one axis beside tensors of more axes is refused, as '
     'its shape does not fit. PyTorch leaves it out, for old programs.'),
    ('movedim', 'One axis is moved. `permute` moves several.'),
    ('square', 'bool is refused, as for other products of numbers.'),
    ('where', 'A condition must be bool. PyTorch takes uint8, and warns.'),
    ('softplus', 'beta must be greater than 0. PyTorch divides by 0.'),
    ('linspace', 'bool is refused, also for 0 steps.'),
]

MIDDLE = """
PyTorch takes these calls, and they are refused here:

| functions | refused |
|---|---|
"""

END = """
Where a result is NaN, its gradient may be any number. Singular vectors and eigenvectors
may have the other sign, and the vectors of a full U or Vh beyond the singular values are any
orthonormal basis.

A convolution multiplies its border of zeros by the weights, as do gradients and transposed
convolutions at the ends of an axis: an infinite weight makes NaN there. In PyTorch it depends on
the library that it calls. Infinite elements and infinite gradients of results reach what an offset
of the window takes them to, and nothing else.

PyTorch has none of these functions: {absent}.

PyTorch draws other random numbers from the same seed: {random}.
"""


def page():
    rows = ''.join(
        f"| {', '.join(f'`{name}`' for name in names.split())} | {why} |\n"
        for names, _, _, why, *_ in WANTED)
    narrower = ''.join(
        f"| {', '.join(f'`{name}`' for name in names.split())} | {why} |\n"
        for names, why in NARROWER)
    end = END.format(absent=', '.join(f'`{name}`' for name in ABSENT),
                     random=', '.join(f'`{name}`' for name in RANDOM))
    return PAGE + rows + MIDDLE + narrower + '\n' + '\n\n'.join(
        textwrap.fill(part, 100, break_long_words=False,
                      break_on_hyphens=False)
        for part in end.strip().split('\n\n')) + '\n'


if __name__ == '__main__':
    print(page(), end='')
