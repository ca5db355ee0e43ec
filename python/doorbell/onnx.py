"""ONNX models: a file as a function of tensors.

>>> import doorbell
>>> from doorbell import onnx
>>> model = onnx.load(MODEL)
>>> model.inputs
[Value(name='x', dtype=doorbell.float32, shape=('n', 3))]
>>> model(doorbell.tensor([[1., -1., -5.]])).tolist()
[[2.0, 1.0, 0.0]]

A model is called by the order of its inputs or by their names, is captured by
doorbell.jit, and has its weights as parameters:

>>> sorted(model.state_dict())
['w']
>>> step = doorbell.jit(model)
>>> step(x=doorbell.zeros(2, 3)).shape
(2, 3)
"""
import collections

from doorbell import _c

Value = collections.namedtuple('Value', 'name dtype shape')
Value.__doc__ = """An input, output or weight. A size is a number, the name that the
model gives it, or None; a shape that the model does not say is None."""

Refused = collections.namedtuple('Refused', 'op name why')
Refused.__doc__ = 'A node that cannot be run, and the reason.'


class Model:
    """A model of a file: a function of tensors, and its weights."""

    def __init__(self, path):
        self._model = _c._Onnx(path)
        self._weights = {}
        self._sizes = {}
        self.inputs = [Value(name, dtype, shape) for name, dtype, _, shape in
                       self._model.inputs()]
        self.outputs = [Value(name, dtype, shape) for name, dtype, _, shape in
                        self._model.outputs()]
        for name, *_ in self._model.weights():
            weight = self._model.weight(name)
            if weight is not None:
                self._weights[name] = weight

    def __call__(self, *args, **named):
        """The output; a tuple of them where there are several."""
        given = dict(zip((value.name for value in self.inputs), args))
        if len(args) > len(self.inputs) or given.keys() & named.keys():
            raise TypeError(f'{len(args)} inputs by position and {list(named)}: '
                            f'the model has {self._names()}')
        given.update(named)
        if given.keys() != {value.name for value in self.inputs}:
            raise TypeError(f'inputs {list(given)}: the model has '
                            f'{self._names()}')
        results = self._model.call([given[value.name]
                                    for value in self.inputs])
        return results[0] if len(results) == 1 else tuple(results)

    def _names(self):
        return ', '.join(value.name for value in self.inputs)

    @property
    def refused(self):
        """The nodes that cannot be run; without any, the model can be called."""
        return [Refused(*row) for row in self._model.refused()]

    def state_dict(self):
        """The weights by name, the model's own tensors: doorbell.save writes
        them. Numbers of the graph, which have no tensors, are not among them."""
        return dict(self._weights)

    def parameters(self):
        """The weights that are floats: for an optimiser, or requires_grad_."""
        return [x for x in self._weights.values() if x.dtype.is_floating_point]

    def set_sizes(self, **sizes):
        """Gives sizes that the model names, numbers or symbols (doorbell.symbol).
        jit and save are for these, with symbols for all their values."""
        for name, size in sizes.items():
            self._model.set_dim(name, size)
            self._sizes[name] = size
        return self

    def jit(self):
        """doorbell.jit of the model, captured once for all values of the symbols
        that set_sizes gave."""
        import doorbell
        step = doorbell.jit(self, name='model')
        step.names = [value.name for value in self.inputs]
        if any(isinstance(size, _c.Size) for size in self._sizes.values()):
            step.sized = {value.name: tuple(self._sizes.get(size, size if
                                            isinstance(size, int) else None)
                                            for size in value.shape)
                          for value in self.inputs if value.shape}
        return step

    def save(self, path, *args, targets=('CPU',), **named):
        """Saves the model for such inputs as a bundle, which the driver half runs
        alone: `doorbell run` and appliances (docs/how-to/onnx.md)."""
        given = dict(zip((value.name for value in self.inputs), args), **named)
        self.jit().save(path, *(given[value.name] for value in self.inputs),
                        targets=targets,
                        in_names=[value.name for value in self.inputs],
                        out_names=[value.name for value in self.outputs])


def load(path):
    """The model of a .onnx file, in the current context. Raises what is damaged;
    operators that are not known are in Model.refused."""
    return Model(path)
