"""Layers as classes. Names of parameters, and so of state_dict, are PyTorch's.

>>> import doorbell
>>> from doorbell import nn
>>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
>>> list(net.state_dict())
['0.weight', '0.bias', '2.weight', '2.bias']
>>> net(doorbell.zeros(3, 4)).shape
(3, 2)
"""
import math

import doorbell as functional
from doorbell import _c
from doorbell._c import Tensor

__all__ = ['AvgPool2d', 'BatchNorm1d', 'BatchNorm2d', 'BatchNorm3d', 'Conv1d',
           'Conv2d', 'Conv3d', 'ConvTranspose1d', 'ConvTranspose2d',
           'ConvTranspose3d', 'CrossEntropyLoss', 'Dropout', 'Embedding',
           'Flatten', 'GELU', 'GroupNorm', 'Identity', 'LayerNorm', 'Linear',
           'MSELoss', 'MaxPool2d', 'Module', 'ModuleList', 'MultiheadAttention',
           'Parameter', 'RMSNorm', 'ReLU', 'Sequential', 'SiLU', 'Sigmoid',
           'Softmax', 'Tanh', 'functional']


def Parameter(data, requires_grad=True):
    """A tensor that training changes."""
    x = data if isinstance(data, Tensor) else _c.tensor(data)
    return x.requires_grad_(requires_grad)


def _buffer(x):
    """A tensor with memory of its own that training does not change."""
    return x.requires_grad_().requires_grad_(False)


def _uniform(shape, bound):
    return Parameter(_c.uniform(shape, -bound, bound))


def _many(value, n):
    return (value,) * n if isinstance(value, int) else tuple(value)


class Module:
    """Base of all layers and nets: its tensors and modules are its attributes,
    also in lists, and those of its modules. Define forward."""

    training = True

    def forward(self, *args, **named):
        raise NotImplementedError(f'{type(self).__name__} has no forward')

    def __call__(self, *args, **named):
        return self.forward(*args, **named)

    def named_children(self):
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, (list, tuple)):
                for i, item in enumerate(value):
                    if isinstance(item, Module):
                        yield f'{name}.{i}', item

    def children(self):
        return [child for _, child in self.named_children()]

    def named_modules(self, prefix=''):
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(f'{prefix}.{name}' if prefix else name)

    def modules(self):
        return [module for _, module in self.named_modules()]

    def _named_tensors(self):
        seen = set()
        for prefix, module in self.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Tensor) and value not in seen and \
                        not name.startswith('_'):
                    seen.add(value)
                    yield f'{prefix}.{name}' if prefix else name, value

    def named_parameters(self):
        """Tensors that require gradients, by name."""
        return [(name, x) for name, x in self._named_tensors()
                if x.requires_grad]

    def parameters(self):
        return [x for _, x in self.named_parameters()]

    def named_buffers(self):
        return [(name, x) for name, x in self._named_tensors()
                if not x.requires_grad]

    def state_dict(self):
        """All tensors by name: what doorbell.save takes."""
        return dict(self._named_tensors())

    def load_state_dict(self, state, strict=True):
        """Takes the values of a state_dict, or of a file that doorbell.load
        opened; all of them or, where a name or shape does not match, none."""
        own = self.state_dict()
        names = set(state.keys())
        missing = [name for name in own if name not in names]
        unexpected = sorted(names - own.keys())
        if strict and (missing or unexpected):
            raise KeyError(f'load_state_dict: missing: {missing}, unexpected: '
                           f'{unexpected}')
        values = {name: state[name] for name in own if name in names}
        for name, value in values.items():
            if tuple(value.shape) != own[name].shape:
                raise _c.Error.ShapeError(
                    f'load_state_dict: {name} has shape {own[name].shape}, the '
                    f'state {tuple(value.shape)}')
        for name, value in values.items():
            if not isinstance(value, Tensor):
                value = _c.tensor(value)
            own[name].assign(value.detach().to(own[name].dtype))
        return missing, unexpected

    def requires_grad_(self, on=True):
        for _, x in self._named_tensors():
            if x.dtype.is_floating_point:
                x.requires_grad_(on)
        return self

    def zero_grad(self):
        for x in self.parameters():
            x.grad = None

    def train(self, on=True):
        """Layers behave as in training, or (on=False, or eval) not."""
        for module in self.modules():
            module.training = on
        return self

    def eval(self):
        return self.train(False)

    def extra_repr(self):
        return ''

    def __repr__(self):
        lines = [f'({name}): ' + repr(child).replace('\n', '\n  ')
                 for name, child in self.named_children()]
        inside = self.extra_repr()
        if lines:
            inside += '\n  ' + '\n  '.join(lines) + '\n'
        return f'{type(self).__name__}({inside})'


class Sequential(Module):
    """Modules one after the other."""

    def __init__(self, *modules):
        for i, module in enumerate(modules):
            setattr(self, str(i), module)

    def forward(self, x):
        for _, module in self.named_children():
            x = module(x)
        return x

    def __len__(self):
        return len(self.children())

    def __getitem__(self, i):
        return self.children()[i]

    def __iter__(self):
        return iter(self.children())


class ModuleList(Sequential):
    """Modules in a list, which the module that has it applies."""

    def __init__(self, modules=()):
        super().__init__(*modules)

    def append(self, module):
        setattr(self, str(len(self)), module)
        return self

    def forward(self, *unused):
        raise NotImplementedError('a ModuleList is not applied itself')


class Linear(Module):
    """x[.., in] @ weight[out, in].T + bias; uniform in +-1 / sqrt(in) at first."""

    def __init__(self, in_features, out_features, bias=True):
        bound = 1 / math.sqrt(in_features)
        self.weight = _uniform((out_features, in_features), bound)
        self.bias = _uniform((out_features,), bound) if bias else None

    def forward(self, x):
        return _c.linear(x, self.weight, self.bias)

    def extra_repr(self):
        n_out, n_in = self.weight.shape
        return f'in_features={n_in}, out_features={n_out}, ' \
            f'bias={self.bias is not None}'


class _Conv(Module):
    axes, transposed = 2, False

    def __init__(self, in_channels, out_channels, kernel_size, stride=1,
                 padding=0, dilation=1, groups=1, bias=True, output_padding=0):
        kernel = _many(kernel_size, self.axes)
        first, second = (in_channels, out_channels) if self.transposed else \
            (out_channels, in_channels)
        shape = (first, second // groups, *kernel)
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        self.weight = _uniform(shape, bound)
        self.bias = _uniform((out_channels,), bound) if bias else None
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.groups, self.output_padding = groups, output_padding

    def forward(self, x):
        kind = ('conv_transpose' if self.transposed else 'conv') + \
            f'{self.axes}d'
        options = {'output_padding': self.output_padding} if self.transposed \
            else {}
        return getattr(_c, kind)(x, self.weight, self.bias, stride=self.stride,
                                 padding=self.padding, dilation=self.dilation,
                                 groups=self.groups, **options)

    def extra_repr(self):
        return f'weight={self.weight.shape}, stride={self.stride}, ' \
            f'padding={self.padding}'


class Conv1d(_Conv):
    """x[n, in, l] with weight[out, in / groups, k]."""
    axes = 1


class Conv2d(_Conv):
    """x[n, in, h, w] with weight[out, in / groups, kh, kw]."""


class Conv3d(_Conv):
    """x[n, in, d, h, w] with weight[out, in / groups, kd, kh, kw]."""
    axes = 3


class ConvTranspose1d(_Conv):
    """The gradient of Conv1d as an operation; weight[in, out / groups, k]."""
    axes, transposed = 1, True


class ConvTranspose2d(_Conv):
    """The same over two axes."""
    transposed = True


class ConvTranspose3d(_Conv):
    """The same over three axes."""
    axes, transposed = 3, True


class _BatchNorm(Module):
    """x[n, c, ..] normalised over all axes but c: in training by the batch's
    statistics, which are blended into the running ones; else by these."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True):
        self.weight = Parameter(_c.ones(num_features)) if affine else None
        self.bias = Parameter(_c.zeros(num_features)) if affine else None
        self.running_mean = _buffer(_c.zeros(num_features))
        self.running_var = _buffer(_c.ones(num_features))
        self.eps, self.momentum = eps, momentum

    def forward(self, x):
        if self.training:
            self._blend(x.detach())
        return _c.batch_norm(x, self.running_mean, self.running_var, self.weight,
                             self.bias, training=self.training, eps=self.eps)

    def _blend(self, x):
        axes = [i for i in range(x.ndim) if i != 1]
        n = x.numel() // x.shape[1]
        m = self.momentum
        mean, var = x.mean(axes), x.var(axes, correction=0) * (n / max(n - 1, 1))
        self.running_mean.assign(self.running_mean * (1 - m) + mean * m)
        self.running_var.assign(self.running_var * (1 - m) + var * m)

    def extra_repr(self):
        return f'{self.running_mean.shape[0]}, eps={self.eps}, ' \
            f'momentum={self.momentum}'


class BatchNorm1d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__


class BatchNorm2d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__


class BatchNorm3d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes, times weight, plus bias."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True,
                 bias=True):
        self.normalized_shape = _many(normalized_shape, 1)
        self.eps = eps
        self.weight = Parameter(_c.ones(self.normalized_shape)) \
            if elementwise_affine else None
        self.bias = Parameter(_c.zeros(self.normalized_shape)) \
            if elementwise_affine and bias else None

    def forward(self, x):
        return _c.layer_norm(x, self.normalized_shape, self.weight, self.bias,
                             self.eps)

    def extra_repr(self):
        return f'{self.normalized_shape}, eps={self.eps}'


class RMSNorm(Module):
    """Mean square 1 over the last axes, times weight."""

    def __init__(self, normalized_shape, eps=None):
        self.normalized_shape = _many(normalized_shape, 1)
        self.eps = eps
        self.weight = Parameter(_c.ones(self.normalized_shape))

    def forward(self, x):
        return _c.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Module):
    """x[n, c, ..] normalised over groups of channels of each image."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True):
        self.num_groups, self.eps = num_groups, eps
        self.weight = Parameter(_c.ones(num_channels)) if affine else None
        self.bias = Parameter(_c.zeros(num_channels)) if affine else None

    def forward(self, x):
        return _c.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class Embedding(Module):
    """Rows of weight[count, size] by number; standard normal at first."""

    def __init__(self, num_embeddings, embedding_dim):
        self.weight = Parameter(_c.randn(num_embeddings, embedding_dim))

    def forward(self, x):
        return _c.embedding(x, self.weight)


class MultiheadAttention(Module):
    """Several heads of attention over x[n, l, size]; batch first. Names are
    PyTorch's: in_proj_weight, in_proj_bias, out_proj."""

    def __init__(self, embed_dim, num_heads, bias=True):
        bound = math.sqrt(6 / (4 * embed_dim))
        self.num_heads = num_heads
        self.in_proj_weight = _uniform((3 * embed_dim, embed_dim), bound)
        self.in_proj_bias = Parameter(_c.zeros(3 * embed_dim)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)

    def forward(self, x, attn_mask=None, is_causal=False):
        n, length, size = x.shape
        qkv = _c.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = (part.reshape(n, length, self.num_heads, -1).transpose(1, 2)
                   for part in qkv.chunk(3, dim=-1))
        y = _c.scaled_dot_product_attention(q, k, v, attn_mask,
                                            is_causal=is_causal)
        return self.out_proj(y.transpose(1, 2).reshape(n, length, size))


class Dropout(Module):
    """In training each element is 0 with probability p, the others over 1 - p."""

    def __init__(self, p=0.5):
        self.p = p

    def forward(self, x):
        return _c.dropout(x, self.p, training=self.training)

    def extra_repr(self):
        return f'p={self.p}'


class Flatten(Module):
    """Axes start_dim..end_dim as one."""

    def __init__(self, start_dim=1, end_dim=-1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        return _c.flatten(x, self.start_dim, self.end_dim)


class MaxPool2d(Module):
    """The greatest element of windows."""

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1,
                 ceil_mode=False):
        self.args = kernel_size, stride, padding, dilation, ceil_mode

    def forward(self, x):
        return _c.max_pool2d(x, *self.args)


class AvgPool2d(Module):
    """The mean of windows."""

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False,
                 count_include_pad=True):
        self.args = kernel_size, stride, padding, ceil_mode, count_include_pad

    def forward(self, x):
        return _c.avg_pool2d(x, *self.args)


class Identity(Module):
    """x."""

    def forward(self, x):
        return x


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x):
        return _c.relu(x)


class GELU(Module):
    """x * Phi(x)."""

    def __init__(self, approximate='none'):
        self.approximate = approximate

    def forward(self, x):
        return _c.gelu(x, self.approximate)


class SiLU(Module):
    """x * sigmoid(x)."""

    def forward(self, x):
        return _c.silu(x)


class Tanh(Module):
    """tanh(x)."""

    def forward(self, x):
        return _c.tanh(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x):
        return _c.sigmoid(x)


class Softmax(Module):
    """exp(x) over its sum along an axis."""

    def __init__(self, dim=-1):
        self.dim = dim

    def forward(self, x):
        return _c.softmax(x, self.dim)


class CrossEntropyLoss(Module):
    """-log softmax of the right class."""

    def __init__(self, weight=None, ignore_index=-100, reduction='mean',
                 label_smoothing=0.0):
        self.weight = weight
        self.options = {'ignore_index': ignore_index, 'reduction': reduction,
                        'label_smoothing': label_smoothing}

    def forward(self, x, target):
        return _c.cross_entropy(x, target, self.weight, **self.options)


class MSELoss(Module):
    """The mean of (x - target)^2."""

    def __init__(self, reduction='mean'):
        self.reduction = reduction

    def forward(self, x, target):
        return _c.mse_loss(x, target, self.reduction)
