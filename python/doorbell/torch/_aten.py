"""ATen's core operators, each by functions of this package.

A row's key is an operator's name without the overload, 'aten.add', or with it,
'aten.max.dim', which goes first. Its function takes the operator's arguments,
tensors of this package in place of PyTorch's. The bridge gives a result the
dtype that PyTorch's would have, so rows need not ask for it.
"""
import math
import operator

import doorbell as bell
from doorbell._grad import own_node

TABLE = {}

# Operators whose positional arguments are those of the function of that name.
SAME = '''abs acos acosh asin asinh atan atanh atan2 bitwise_and bitwise_not
bitwise_or bitwise_xor bmm ceil copysign cos cosh cumprod diagonal dot eq erf exp
exp2 expm1 fliplr flipud floor fmod frac ge gelu gt hypot index_select isfinite
isinf isnan isneginf isposinf le leaky_relu lerp log log10 log1p log2 logaddexp
logcumsumexp logical_and logical_not logical_or logical_xor lt masked_fill matmul
maximum minimum mish mm mul mv narrow ne neg nextafter outer pixel_shuffle
pixel_unshuffle pow reciprocal relu relu6 remainder rsqrt scatter_add select selu
sigmoid sign silu sin sinh softplus sqrt square stack take tan tanh trace transpose
tril triu trunc unsqueeze where linear amax amin prod addcmul addcdiv
bitwise_left_shift bitwise_right_shift hardswish hardsigmoid kthvalue mode addmm
celu permute floor_divide cat roll gather topk
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d'''

# The same under another name.
RENAMED = {
    'adaptive_avg_pool2d': '_adaptive_avg_pool2d',
    'adaptive_avg_pool3d': '_adaptive_avg_pool3d', 'contiguous': 'clone',
    'detach': 'alias lift_fresh_copy lift_fresh detach',
    'logsigmoid': 'log_sigmoid', 'bitwise_left_shift': '__lshift__',
    'bitwise_right_shift': '__rshift__', 'reshape': 'view _unsafe_view reshape',
}

for _name in SAME.split():
    if hasattr(bell, _name):
        TABLE['aten.' + _name] = getattr(bell, _name)
for _name, _theirs in RENAMED.items():
    for _other in _theirs.split():
        TABLE['aten.' + _other] = getattr(bell, _name)


def row(*names):
    def add(function):
        for name in names:
            TABLE[name if name.startswith('prims.') else 'aten.' + name] = function
        return function
    return add


# Integers of sizes, and what is known without a tensor.
for _name in ('add', 'sub', 'mul', 'floordiv', 'mod', 'eq', 'ne', 'lt', 'le', 'gt',
              'ge', 'neg', 'pow', 'truediv', 'and_', 'or_', 'not_'):
    TABLE['operator.' + _name] = getattr(operator, _name)
for _name in ('aten._assert_async', 'aten._assert_scalar', 'aten.sym_constrain_range',
              'aten._assert_tensor_metadata', 'aten.sym_constrain_range_for_size'):
    TABLE[_name] = lambda *unused, **named: None
TABLE['operator.getitem'] = operator.getitem
TABLE['math.trunc'], TABLE['math.ceil'] = math.trunc, math.ceil
TABLE['math.floor'] = math.floor
TABLE['torch.sym_max'], TABLE['torch.sym_min'] = max, min
TABLE['torch.sym_not'], TABLE['torch.sym_float'] = operator.not_, float
TABLE['aten.sym_size.int'] = lambda x, dim: x.shape[dim]
TABLE['aten.sym_numel'] = lambda x: math.prod(x.shape)


def listed(value, n):
    """An argument of one number for all axes, or of one each, as n numbers."""
    value = [value] if isinstance(value, int) else list(value)
    return value * n if len(value) == 1 else value


def axes(x, dim):
    """Axes as the reductions take them: none listed are all."""
    if dim is None or dim == [] or dim == ():
        return list(range(x.ndim))
    return dim


# ---- arithmetic ----

@row('add')
def add(x, y, alpha=1):
    return x + y if alpha == 1 else x + y * alpha


@row('sub')
def sub(x, y, alpha=1):
    return x - y if alpha == 1 else x - y * alpha


@row('rsub')
def rsub(x, y, alpha=1):
    return y - x if alpha == 1 else y - x * alpha


@row('div')
def div(x, y, rounding_mode=None):
    return bell.div(x, y, rounding_mode=rounding_mode)


@row('clamp')
def clamp(x, min=None, max=None):
    return bell.clamp(x, min, max)


@row('clamp_min')
def clamp_min(x, min):
    return bell.clamp(x, min, None)


@row('clamp_max')
def clamp_max(x, max):
    return bell.clamp(x, None, max)


@row('hardtanh')
def hardtanh(x, low=-1, high=1):
    return bell.clamp(x, low, high)


@row('elu')
def elu(x, alpha=1, scale=1, input_scale=1):
    return bell.where(x > 0, x * scale,
                      ((x * input_scale).clamp(None, 0).expm1()) * (alpha * scale))


@row('round')
def round(x, decimals=0):
    if decimals == 0:
        return bell.round(x)
    return bell.round(x * 10.0**decimals) / 10.0**decimals


@row('softplus')
def softplus(x, beta=1, threshold=20):
    return bell.where(x * beta > threshold, x, bell.softplus(x, beta))


@row('sgn')
def sgn(x):
    return bell.sign(x)


# ---- new tensors ----

def skip(named):
    """Without what says where memory lies: it is the context's."""
    return {key: value for key, value in named.items() if key not in
            ('layout', 'device', 'pin_memory', 'memory_format', 'requires_grad',
             'non_blocking', 'copy', 'implicit', 'generator') and value is not None}


@row('full')
def full(size, value, **named):
    return bell.full(list(size), value, **skip(named))


@row('full_like')
def full_like(x, value, **named):
    return bell.full(list(x.shape), value, **{'dtype': x.dtype, **skip(named)})


@row('new_full')
def new_full(x, size, value, **named):
    return bell.full(list(size), value, **{'dtype': x.dtype, **skip(named)})


@row('zeros', 'empty', 'new_zeros.size')
def zeros(size, *unused, **named):
    return bell.full(list(size), 0, **skip(named))


@row('empty_strided')
def empty_strided(size, stride, **named):
    return bell.full(list(size), 0, **skip(named))


@row('ones')
def ones(size, **named):
    return bell.full(list(size), 1, **skip(named))


@row('new_zeros', 'new_empty')
def new_zeros(x, size, *unused, **named):
    return new_full(x, size, 0, **named)


@row('new_ones')
def new_ones(x, size, **named):
    return new_full(x, size, 1, **named)


@row('zeros_like', 'empty_like')
def zeros_like(x, **named):
    return full_like(x, 0, **named)


@row('ones_like')
def ones_like(x, **named):
    return full_like(x, 1, **named)


@row('scalar_tensor')
def scalar_tensor(value, **named):
    return bell.full([], value, **skip(named))


@row('arange', 'arange.start', 'arange.start_step')
def arange(*bounds, step=1, **named):
    return bell.arange(*bounds, **skip(named)) if step == 1 or len(bounds) > 2 \
        else bell.arange(*bounds, step, **skip(named))


@row('prims.iota')
def iota(length, *, start, step, dtype, device=None, requires_grad=False):
    return bell.arange(start, start + length * step, step, dtype=dtype)


@row('eye', 'eye.m')
def eye(n, m=None, **named):
    return bell.eye(n, n if m is None else m, **skip(named))


@row('linspace')
def linspace(*args, **named):
    return bell.linspace(*args, **skip(named))


@row('_to_copy', 'to')
def to_copy(x, **named):
    return x.to(named['dtype']) if named.get('dtype') is not None else x.detach()


@row('prims.convert_element_type')
def convert(x, dtype):
    return x.to(dtype)


@row('prims.device_put')
def device_put(x, device, non_blocking=False):
    return x.detach()


@row('clone')
def clone(x, memory_format=None):
    return x.detach()


@row('copy', 'copy_')
def copy(x, source, non_blocking=False):
    return source.expand(*x.shape).to(x.dtype) if x.ndim else \
        source.reshape(()).to(x.dtype)


# ---- random numbers: the package's own ----

TABLE['aten.rand'] = lambda size, **named: bell.rand(list(size), **skip(named))
TABLE['aten.randn'] = lambda size, **named: bell.randn(list(size), **skip(named))
TABLE['aten.rand_like'] = lambda x, **named: bell.rand(list(x.shape), dtype=x.dtype)
TABLE['aten.randn_like'] = lambda x, **named: bell.randn(list(x.shape),
                                                         dtype=x.dtype)


@row('bernoulli')
def bernoulli(x, p=None, **named):
    p = x if p is None or not isinstance(p, (int, float)) else p
    return (bell.rand(list(x.shape)) < p).to(x.dtype)


@row('native_dropout')
def native_dropout(x, p, train):
    if train is False or p == 0:
        return x, bell.full(list(x.shape), True, dtype='bool')
    kept = bell.rand(list(x.shape)) >= p
    return x * kept.to(x.dtype) * (1 / (1 - p) if p < 1 else 0), kept


@row('native_dropout_backward')
def native_dropout_backward(grad, kept, scale):
    return grad * kept.to(grad.dtype) * scale


# ---- shapes ----

@row('t')
def transposed(x):
    return x if x.ndim < 2 else x.transpose(0, 1)


@row('expand')
def expand(x, size, implicit=False):
    return x.expand(*size) if len(size) else x.detach()


@row('squeeze')
def squeeze(x, dim=None):
    if dim is None:
        dim = range(x.ndim)
    return x.squeeze([d for d in ([dim] if isinstance(dim, int) else dim)
                      if x.shape[d] == 1]) if x.ndim else x.detach()


@row('flip')
def flip(x, dims):
    return x.flip(list(dims)) if len(dims) else x.detach()


@row('repeat')
def repeat(x, repeats):
    return x.repeat(*repeats) if len(repeats) else x.detach()


def places(x, dim, start, end, step):
    """A subscript of a run of places along an axis."""
    start = 0 if start is None else start
    return (slice(None),) * (dim % x.ndim) + \
        (slice(start, x.shape[dim] if end is None else end, step),)


@row('slice')
def slice_of(x, dim=0, start=None, end=None, step=1):
    return x[places(x, dim, start, end, step)]


@row('slice_scatter')
def slice_scatter(x, source, dim=0, start=None, end=None, step=1):
    made = x.detach()
    made[places(x, dim, start, end, step)] = source
    return made


@row('select_scatter')
def select_scatter(x, source, dim, index):
    made = x.detach()
    made[(slice(None),) * (dim % x.ndim) + (index,)] = source
    return made


@row('diagonal_scatter')
def diagonal_scatter(x, source, offset=0, dim1=0, dim2=1):
    at = bell.arange(math.prod(x.shape)).reshape(*x.shape).diagonal(
        offset, dim1, dim2).reshape(-1)
    return x.reshape(-1).index_copy(0, at, source.reshape(-1)).reshape(*x.shape)


@row('as_strided')
def as_strided(x, size, stride, offset=None):
    if not size:
        return x.reshape(-1)[offset or 0]
    at = bell.full(list(size), offset or 0, dtype='int64')
    for i, (n, step) in enumerate(zip(size, stride)):
        shape = [1] * len(size)
        shape[i] = n
        at = at + (bell.arange(n) * step).reshape(*shape)
    return x.reshape(-1).take(at)


@row('split', 'split.Tensor', 'split_with_sizes', 'split_with_sizes_copy')
def split(x, sizes, dim=0):
    return x.split(sizes if isinstance(sizes, int) else list(sizes), dim)


@row('unbind')
def unbind(x, dim=0):
    return x.unbind(dim)


@row('chunk')
def chunk(x, chunks, dim=0):
    return x.chunk(chunks, dim)


@row('constant_pad_nd')
def constant_pad(x, pad, value=0):
    return x.pad(list(pad), value=value) if any(pad) else x.detach()


@row('reflection_pad1d', 'reflection_pad2d', 'reflection_pad3d')
def reflection_pad(x, pad):
    return x.pad(list(pad), 'reflect')


@row('replication_pad2d', 'replication_pad3d', 'replication_pad1d')
def replication_pad(x, pad):
    return x.pad(list(pad), 'replicate')


@row('unfold')
def unfold(x, dim, size, step):
    return x.unfold(dim, size, step)


# ---- reductions ----

@row('sum')
def total(x, dim=None, keepdim=False, dtype=None):
    return x.sum(axes(x, dim), keepdim, dtype=dtype) if x.ndim else \
        bell.sum(x, dtype=dtype)


@row('mean')
def mean(x, dim=None, keepdim=False, dtype=None):
    return x.mean(axes(x, dim), keepdim, dtype=dtype) if x.ndim else \
        bell.mean(x, dtype=dtype)


@row('any')
def any_of(x, dim=None, keepdim=False):
    return bell.any(x, axes(x, dim), keepdim) if x.ndim else bell.any(x)


@row('all')
def all_of(x, dim=None, keepdim=False):
    return bell.all(x, axes(x, dim), keepdim) if x.ndim else bell.all(x)


def extreme(name):
    def reduce(x, dim=None, keepdim=False):
        whole = dim is None or dim == [] or not x.ndim
        return getattr(bell, name)(x) if whole and not keepdim else \
            getattr(bell, name)(x, axes(x, dim), keepdim)
    return reduce


for _name in ('amax', 'amin', 'logsumexp'):
    TABLE['aten.' + _name] = extreme(_name)


def spread(name):
    def reduce(x, dim=None, correction=1, keepdim=False, unbiased=None):
        if isinstance(dim, bool):  # var(x, unbiased)
            dim, correction = None, int(dim)
        correction = 1 if correction is None else correction
        return getattr(bell, name)(x, axes(x, dim), correction=correction,
                                   keepdim=keepdim)
    return reduce


for _name in ('var', 'std', 'var_mean', 'std_mean'):
    TABLE['aten.' + _name] = spread(_name)


@row('argmax')
def argmax(x, dim=None, keepdim=False):
    return bell.argmax(x, dim, keepdim) if x.ndim else bell.full([], 0, dtype='int64')


@row('argmin')
def argmin(x, dim=None, keepdim=False):
    return bell.argmin(x, dim, keepdim) if x.ndim else bell.full([], 0, dtype='int64')


for _name in ('max', 'min', 'median', 'nanmedian'):
    TABLE['aten.' + _name] = getattr(bell, _name)


@row('sort', 'sort.stable')
def sort(x, *args, stable=None, dim=-1, descending=False):
    args = args[1:] if len(args) == 3 else args  # stable, dim, descending
    return bell.sort(x, *(args or (dim, descending)))


@row('topk')
def topk(x, k, dim=-1, largest=True, sorted=True):
    return bell.topk(x, k, dim, largest)


@row('cumsum')
def cumsum(x, dim, dtype=None):
    return bell.cumsum(x, dim, dtype=dtype) if x.ndim else bell.sum(x, dtype=dtype)


@row('_softmax')
def softmax(x, dim, half_to_float=False):
    return bell.softmax(x, dim) if x.ndim else x * 0 + 1


@row('_log_softmax')
def log_softmax(x, dim, half_to_float=False):
    return bell.log_softmax(x, dim) if x.ndim else x * 0


@row('_softmax_backward_data')
def softmax_backward(grad, y, dim, dtype):
    product = grad * y
    return product - y * product.sum([dim], True)


@row('_log_softmax_backward_data')
def log_softmax_backward(grad, y, dim, dtype):
    return grad - y.exp() * grad.sum([dim], True)


# ---- indexing ----

@row('embedding')
def embedding(weight, index, *unused):
    return bell.embedding(index, weight)


@row('embedding_dense_backward')
def embedding_backward(grad, index, n, padding_idx, scale_grad_by_freq):
    rows = grad.reshape(-1, grad.shape[-1])
    index = index.reshape(-1)
    if scale_grad_by_freq:
        counts = bell.zeros(n).index_add(0, index, bell.ones(*index.shape))
        rows = rows / counts.index_select(0, index).unsqueeze(1).to(rows.dtype)
    if padding_idx >= 0:
        rows = rows * (index != padding_idx).unsqueeze(1).to(rows.dtype)
    return bell.zeros(n, grad.shape[-1], dtype=grad.dtype).index_add(0, index, rows)


def subscript(indices):
    return tuple(slice(None) if i is None else i for i in indices)


@row('index', '_unsafe_index')
def index(x, indices):
    return x[subscript(indices)]


@row('index_put', '_unsafe_index_put')
def index_put(x, indices, values, accumulate=False):
    if not accumulate:
        made = x.detach()
        made[subscript(indices)] = values
        return made
    if not any(i is None for i in indices):
        return bell.index_put(x, list(indices), values, accumulate=True)
    flat = bell.arange(math.prod(x.shape)).reshape(*x.shape)[subscript(indices)]
    return x.reshape(-1).index_add(
        0, flat.reshape(-1),
        values.to(x.dtype).expand(*flat.shape).reshape(-1)).reshape(*x.shape)


@row('scatter')
def scatter(x, dim, index, source, reduce=None):
    if isinstance(source, (int, float)):
        source = bell.full(list(index.shape), source, dtype=x.dtype)
    return bell.scatter(x, dim, index, source, reduce) if reduce else \
        bell.scatter(x, dim, index, source)


@row('scatter_reduce')
def scatter_reduce(x, dim, index, source, reduce, include_self=True):
    return bell.scatter_reduce(x, dim, index, source, reduce, include_self)


@row('index_add')
def index_add(x, dim, index, source, alpha=1):
    return bell.index_add(x, dim, index, source, alpha)


@row('gather')
def gather(x, dim, index, sparse_grad=False):
    return bell.gather(x, dim, index)


@row('where')
def where(condition, x, y):
    return bell.where(condition, x, y)


# ---- gradients of rows above, by the package's own ----

def pull(function, grad, *inputs):
    """The gradients of function(*inputs) for `grad` of its result."""
    inputs = [own_node(x) for x in inputs]
    return bell.grad(function(*inputs), inputs, vector=grad)


# ---- layers ----

@row('convolution')
def convolution(x, weight, bias, stride, padding, dilation, transposed,
                output_padding, groups):
    n = weight.ndim - 2
    stride, padding, dilation = (listed(v, n) for v in (stride, padding, dilation))
    if transposed:
        return getattr(bell, f'conv_transpose{n}d')(
            x, weight, bias, stride=stride, padding=padding,
            output_padding=listed(output_padding, n), groups=groups,
            dilation=dilation)
    return getattr(bell, f'conv{n}d')(x, weight, bias, stride=stride,
                                      padding=padding, dilation=dilation,
                                      groups=groups)


@row('convolution_backward')
def convolution_backward(grad, x, weight, bias_sizes, stride, padding, dilation,
                         transposed, output_padding, groups, output_mask):
    made = pull(lambda x, weight: convolution(
        x, weight, None, stride, padding, dilation, transposed, output_padding,
        groups), grad, x, weight)
    bias = grad.sum([0, *range(2, grad.ndim)]) if output_mask[2] else None
    return made[0], made[1], bias


def pool_args(kernel, stride, padding, n):
    stride = kernel if stride is None or not len(listed(stride, 1)) else stride
    return listed(kernel, n), listed(stride, n), listed(padding, n)


def max_pool(n):
    def pool(x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
        kernel, stride, padding = pool_args(kernel, stride, padding, n)
        return getattr(bell, f'max_pool{n}d')(
            x, kernel, stride, padding, listed(dilation, n), ceil_mode,
            return_indices=True)

    def backward(grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
        kernel, stride, padding = pool_args(kernel, stride, padding, n)
        return pull(lambda x: getattr(bell, f'max_pool{n}d')(
            x, kernel, stride, padding, listed(dilation, n), ceil_mode), grad, x)[0]
    TABLE[f'aten.max_pool{n}d_with_indices'] = pool
    TABLE[f'aten.max_pool{n}d_with_indices_backward'] = backward


def avg_pool(n):
    def pool(x, kernel, stride=None, padding=0, ceil_mode=False,
             count_include_pad=True, divisor_override=None):
        kernel, stride, padding = pool_args(kernel, stride, padding, n)
        if divisor_override:
            made = getattr(bell, f'avg_pool{n}d')(x, kernel, stride, padding,
                                                  ceil_mode, True)
            return made * (math.prod(kernel) / divisor_override)
        return getattr(bell, f'avg_pool{n}d')(x, kernel, stride, padding, ceil_mode,
                                              count_include_pad)

    def backward(grad, x, *args):
        return pull(lambda x: pool(x, *args), grad, x)[0]
    TABLE[f'aten.avg_pool{n}d'] = pool
    TABLE[f'aten.avg_pool{n}d_backward'] = backward
    if n > 1:
        adapt = getattr(bell, f'adaptive_avg_pool{n}d')
        TABLE[f'aten._adaptive_avg_pool{n}d_backward'] = lambda grad, x: pull(
            lambda x: adapt(x, list(grad.shape[-n:])), grad, x)[0]


for _n in (1, 2, 3):
    max_pool(_n)
    avg_pool(_n)


def broad(parameter, x):
    """A parameter of channels beside x[n, c, ..]."""
    return parameter.reshape(1, -1, *(1,) * (x.ndim - 2))


def standardize(x, dims, eps):
    """x with mean 0 and variance 1 over axes, the mean and 1 / deviation."""
    mean = x.mean(dims, True)
    rstd = (x.var(dims, correction=0, keepdim=True) + eps).rsqrt()
    return (x - mean) * rstd, mean, rstd


@row('native_layer_norm')
def layer_norm(x, shape, weight, bias, eps):
    dims = list(range(x.ndim - len(shape), x.ndim))
    mean, rstd = standardize(x, dims, eps)[1:]
    return bell.layer_norm(x, list(shape), weight, bias, eps), mean, rstd


@row('native_layer_norm_backward')
def layer_norm_backward(grad, x, shape, mean, rstd, weight, bias, output_mask):
    dims = list(range(x.ndim - len(shape), x.ndim))
    outer = list(range(x.ndim - len(shape)))
    y = (x - mean) * rstd
    g = grad if weight is None else grad * weight
    made = (g - g.mean(dims, True) - y * (g * y).mean(dims, True)) * rstd
    return (made, (grad * y).sum(outer) if outer else grad * y,
            grad.sum(outer) if outer else grad)


@row('native_group_norm')
def group_norm(x, weight, bias, n, c, hw, groups, eps):
    parts = x.reshape(x.shape[0], groups, -1)
    mean, rstd = standardize(parts, [2], eps)[1:]
    return (bell.group_norm(x, groups, weight, bias, eps), mean.squeeze([2]),
            rstd.squeeze([2]))


@row('native_group_norm_backward')
def group_norm_backward(grad, x, mean, rstd, weight, n, c, hw, groups, output_mask):
    g = grad if weight is None else grad * broad(weight, x)
    parts, g = x.reshape(n, groups, -1), g.reshape(n, groups, -1)
    rstd = rstd.unsqueeze(2)
    y = (parts - mean.unsqueeze(2)) * rstd
    made = (g - g.mean([2], True) - y * (g * y).mean([2], True)) * rstd
    others = [0, *range(2, x.ndim)]
    return (made.reshape(*x.shape), (grad * y.reshape(*x.shape)).sum(others),
            grad.sum(others))


def batch_norm(x, weight, bias, mean, rstd):
    y = (x - broad(mean, x)) * broad(rstd, x)
    y = y if weight is None else y * broad(weight, x)
    return y if bias is None else y + broad(bias, x)


@row('_native_batch_norm_legit_functional', 'native_batch_norm',
     '_native_batch_norm_legit', '_batch_norm_with_update_functional')
def batch_norm_training(x, weight, bias, running_mean, running_var, *options):
    training, momentum, eps = options if len(options) == 3 else \
        (True, *options)  # _batch_norm_with_update
    if not training:
        return (bell.batch_norm(x, running_mean, running_var, weight, bias, eps=eps),
                bell.zeros(0), bell.zeros(0), running_mean, running_var)
    others = [0, *range(2, x.ndim)]
    n = math.prod(x.shape) // x.shape[1]
    mean, var = x.mean(others), x.var(others, correction=0)
    rstd = (var + eps).rsqrt()
    y = batch_norm(x, weight, bias, mean, rstd)
    if running_mean is None:
        return y, mean, rstd
    new_mean = running_mean * (1 - momentum) + mean * momentum
    new_var = running_var * (1 - momentum) + var * (momentum * n / max(n - 1, 1))
    return y, mean, rstd, new_mean, new_var


@row('_native_batch_norm_legit.no_stats')
def batch_norm_no_stats(x, weight, bias, training, momentum, eps):
    return batch_norm_training(x, weight, bias, None, None, True, momentum, eps)


@row('_native_batch_norm_legit_no_training', '_batch_norm_no_update')
def batch_norm_inference(x, weight, bias, mean, var, momentum, eps):
    return (bell.batch_norm(x, mean, var, weight, bias, eps=eps),
            bell.zeros(0), bell.zeros(0), bell.zeros(0))


@row('native_batch_norm_backward')
def batch_norm_backward(grad, x, weight, running_mean, running_var, mean, rstd,
                        training, eps, output_mask):
    others = [0, *range(2, x.ndim)]
    if not training:
        mean, rstd = running_mean, (running_var + eps).rsqrt()
    y = (x - broad(mean, x)) * broad(rstd, x)
    scale = broad(rstd if weight is None else rstd * weight, x)
    made = grad * scale
    if training:
        made = (grad - grad.mean(others, True) -
                y * (grad * y).mean(others, True)) * scale
    return made, (grad * y).sum(others), grad.sum(others)


@row('_fused_rms_norm')
def rms_norm(x, shape, weight, eps=None):
    dims = list(range(x.ndim - len(shape), x.ndim))
    eps = 1.1920928955078125e-07 if eps is None else eps
    rstd = ((x * x).mean(dims, True) + eps).rsqrt()
    return x * rstd if weight is None else x * rstd * weight, rstd


# ---- attention ----

def attend(query, key, value, mask, causal, scale):
    return bell.scaled_dot_product_attention(query, key, value, mask,
                                             is_causal=causal, scale=scale)


def scores(query, key, mask, causal, scale):
    scale = query.shape[-1]**-0.5 if scale is None else scale
    made = query @ key.mT * scale
    if causal:
        allowed = bell.ones(*made.shape[-2:], dtype='bool').tril()
        made = bell.where(allowed, made, -math.inf)
    if mask is not None:
        made = bell.where(mask, made, -math.inf) if mask.dtype == bell._c.bool \
            else made + mask
    return made


@row('_scaled_dot_product_flash_attention_for_cpu')
def flash_attention(query, key, value, dropout_p=0.0, is_causal=False, *,
                    attn_mask=None, scale=None):
    return (attend(query, key, value, attn_mask, is_causal, scale),
            scores(query, key, attn_mask, is_causal, scale).logsumexp(-1))


@row('_scaled_dot_product_flash_attention_for_cpu_backward')
def flash_attention_backward(grad, query, key, value, out, logsumexp, dropout_p,
                             is_causal, *, attn_mask=None, scale=None):
    return pull(lambda query, key, value: attend(query, key, value, attn_mask,
                                                 is_causal, scale),
                grad, query, key, value)


# ---- images ----

def sizes_of(x, size, scales, n):
    if size is not None and len(size):
        return list(size)
    return [math.floor(a * s) for a, s in zip(x.shape[-n:], scales)]


def upsample(name, mode, n):
    corners = mode in ('linear', 'bilinear', 'bicubic', 'trilinear')

    def resize(x, size, *args):
        align = args[0] if corners else False
        scales = args[1:] if corners else args
        if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
            scales = scales[0]
        given = [s for s in scales if s is not None]
        if given and any(int(a * s) != b for a, s, b in
                         zip(x.shape[-n:], given, sizes_of(x, size, given, n))):
            raise NotImplementedError(f'{name}: a size that is not the scale\'s')
        options = {'align_corners': align} if corners else {}
        return bell.interpolate(x, sizes_of(x, size, given, n), mode=mode, **options)

    def backward(grad, size, input_size, *args):
        x = bell.zeros(list(input_size), dtype=grad.dtype)
        return pull(lambda x: resize(x, size, *args), grad, x)[0]
    TABLE['aten.' + name] = resize
    TABLE['aten.' + name + '_backward'] = backward


for _n, _linear in ((1, 'linear'), (2, 'bilinear'), (3, 'trilinear')):
    upsample(f'upsample_nearest{_n}d', 'nearest', _n)
    upsample(f'_upsample_nearest_exact{_n}d', 'nearest-exact', _n)
    upsample(f'upsample_{_linear}{_n}d', _linear, _n)
upsample('upsample_bicubic2d', 'bicubic', 2)


@row('grid_sampler_2d')
def grid_sampler(x, grid, mode, padding, align):
    return bell.grid_sample(x, grid, ('bilinear', 'nearest', 'bicubic')[mode],
                            ('zeros', 'border', 'reflection')[padding], align)
