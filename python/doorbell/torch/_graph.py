"""Graphs of ATen's operators, run by functions of this package."""
import doorbell as bell
import torch

from doorbell.torch._aten import TABLE

# Operators that have decompositions and better rows in the table.
OWN = ('_scaled_dot_product_flash_attention_for_cpu',
       'native_layer_norm_backward', 'native_group_norm_backward',
       'native_batch_norm_backward', '_softmax_backward_data',
       '_log_softmax_backward_data')


def decompositions():
    """Core ATen's, but for the operators that the table has."""
    table = dict(torch._decomp.core_aten_decompositions())
    for name in OWN:
        for overload in getattr(torch.ops.aten, name).overloads():
            table.pop(getattr(getattr(torch.ops.aten, name), overload), None)
    return table


DTYPES = {getattr(torch, name): value for name, value in
          ((name, getattr(bell._c, name)) for name in dir(bell._c))
          if isinstance(value, bell.DType) and hasattr(torch, name)}


def to_doorbell(x):
    """A tensor of PyTorch's as one of this package; anything else as it is."""
    if not isinstance(x, torch.Tensor):
        return x
    if x.dtype not in DTYPES:
        raise TypeError(f'doorbell has no {x.dtype}')
    return bell.from_dlpack(x.detach().cpu().resolve_conj().resolve_neg())


def to_torch(x, like):
    """Back again, with strides in the order of what PyTorch expects there."""
    if not isinstance(x, bell.Tensor):
        return x
    made = torch.from_dlpack(x)
    if like is None or made.ndim < 2:
        return made
    order = sorted(range(made.ndim), key=lambda i: -like[i])
    if order == list(range(made.ndim)):
        return made
    back = [order.index(i) for i in range(made.ndim)]
    return made.permute(order).contiguous().permute(back)


def name_of(target):
    """An operator's name: 'aten.add.Tensor', 'operator.add'."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    module = getattr(target, '__module__', '').lstrip('_')
    return f'{module}.{getattr(target, "__name__", target)}'


def find(target):
    name = name_of(target)
    return TABLE.get(name) or TABLE.get(name.rsplit('.', 1)[0]
                                        if name.count('.') > 1 else name)


class Graph:
    """A GraphModule of ATen's operators: run(*inputs) gives its results. Made
    only if the table has all its operators."""

    def __init__(self, module):
        self.module = module
        self.constants = {}
        missing = {name_of(node.target) for node in module.graph.nodes
                   if node.op == 'call_function' and find(node.target) is None}
        missing |= {node.target for node in module.graph.nodes
                    if node.op in ('call_module', 'call_method')}
        if missing:
            raise NotImplementedError('doorbell has none of these operators: ' +
                                      ', '.join(sorted(missing)))
        results = next(node for node in module.graph.nodes
                       if node.op == 'output').args[0]
        self.outputs = [strides_of(node) for node in results]

    def constant(self, name):
        if name not in self.constants:
            value = self.module
            for part in name.split('.'):
                value = getattr(value, part)
            self.constants[name] = to_doorbell(value)
        return self.constants[name]

    def run(self, *inputs):
        values, inputs = {}, iter(inputs)
        for node in self.module.graph.nodes:
            if node.op == 'placeholder':
                values[node] = next(inputs)
            elif node.op == 'get_attr':
                values[node] = self.constant(node.target)
            elif node.op == 'output':
                made = torch.fx.node.map_arg(list(node.args[0]), values.get)
                return list(made)
            else:
                values[node] = self.call(node, values)
        raise ValueError('a graph without an output')

    def call(self, node, values):
        args, named = torch.fx.node.map_aggregate(
            torch.fx.node.map_arg((node.args, node.kwargs), values.get), theirs)
        try:
            made = find(node.target)(*args, **named)
        except Exception as error:
            error.add_note(f'{name_of(node.target)} as {node}')
            raise
        return settle(made, node.meta.get('val'))


def theirs(value):
    """PyTorch's dtypes as this package's."""
    return DTYPES[value] if isinstance(value, torch.dtype) else value


def settle(made, want):
    """A result with the dtype that PyTorch's has."""
    if isinstance(made, (tuple, list)) and isinstance(want, (tuple, list)):
        return tuple(settle(a, b) for a, b in zip(made, want))
    if isinstance(made, bell.Tensor) and isinstance(want, torch.Tensor) and \
            made.dtype is not DTYPES.get(want.dtype):
        return made.to(DTYPES[want.dtype])
    return made


def strides_of(node):
    """The strides of a result, where the graph says them as numbers."""
    value = node.meta.get('val') if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return None
    strides = value.stride()
    return strides if all(isinstance(s, int) for s in strides) else None
