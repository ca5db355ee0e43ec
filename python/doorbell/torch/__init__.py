"""PyTorch's models on Doorbell: a backend of torch.compile, and exported programs.

>>> import doorbell.torch                                   # doctest: +SKIP
>>> model = torch.compile(model, backend='doorbell')        # doctest: +SKIP
>>> net = doorbell.torch.from_exported(torch.export.export(model, (x,)))
...                                                         # doctest: +SKIP

ATen's core operators become functions of this package, by a table. Another one
is an error with its name before anything runs. Each graph is captured once for
each signature (doorbell.jit) and then replayed. Tensors travel by DLPack, as
copies in the host's memory.
"""
import doorbell as bell
import torch
from torch.utils import _pytree

from doorbell.torch._graph import Graph, decompositions, to_doorbell, to_torch

__all__ = ['ExportedModel', 'backend', 'from_exported']


def _context(device):
    return bell.current_context() if device is None else bell.device(device)


class _Compiled:
    """A graph of torch.compile as a function of PyTorch's tensors."""

    def __init__(self, module, context):
        self.graph = Graph(module)
        self.context = context
        self.run = bell.jit(self.graph.run, 'torch')
        self._boxed_call = True  # AOTAutograd gives a list that we may clear

    def __call__(self, inputs):
        with self.context:
            given = [to_doorbell(x) for x in inputs]
            inputs.clear()
            made = self.run(*given)
            return [to_torch(x, like)
                    for x, like in zip(made, self.graph.outputs)]


def backend(module, example_inputs, *, options=None, **unused):
    """torch.compile's backend 'doorbell', for inference and training. Its options:
    device, a name as doorbell.device takes it; without one the current context.
    """
    from torch._dynamo.backends.common import aot_autograd
    options = dict(options or {})
    context = _context(options.pop('device', None))
    if options:
        raise ValueError(f'doorbell: unknown options {sorted(options)}; expected '
                         "'device'")

    def compile_graph(module, example_inputs):
        return _Compiled(module, context)

    return aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph,
                        inference_compiler=compile_graph,
                        decompositions=decompositions())(module, example_inputs)


class ExportedModel:
    """An exported program: called as the module was, with PyTorch's tensors or
    with this package's, it gives tensors of that kind. Its weights are on the
    device. Buffers that the program changes are changed by each call."""

    def __init__(self, program, context):
        program = program.run_decompositions(decompositions())
        signature = program.graph_signature
        self.context, self.spec = context, program.call_spec
        state = {**program.state_dict, **program.constants}
        self.weights, self.places = {}, []  # of each placeholder
        with context:
            for spec in signature.input_specs:
                name = spec.target if spec.kind.name != 'USER_INPUT' else None
                if name is not None and name not in self.weights:
                    self.weights[name] = to_doorbell(state[name])
                elif name is None and spec.kind.name != 'USER_INPUT':
                    raise NotImplementedError(f'{spec.arg}: an input of kind '
                                              f'{spec.kind.name}')
                self.places.append(name)
        self.results = []  # of each output: None, or the buffer that it is for
        for spec in signature.output_specs:
            if spec.kind.name not in ('USER_OUTPUT', 'BUFFER_MUTATION'):
                raise NotImplementedError(
                    f'{spec.arg.name}: an output of kind {spec.kind.name}')
            self.results.append(spec.target if spec.kind.name == 'BUFFER_MUTATION'
                                else None)
        self.graph = Graph(program.graph_module)
        self.run = bell.jit(self._run, 'exported')

    def _run(self, *inputs):
        inputs = iter(inputs)
        made = self.graph.run(*[next(inputs) if name is None else self.weights[name]
                                for name in self.places])
        for name, value in zip(self.results, made):
            if name is not None:
                self.weights[name].assign(value)
        return [value for name, value in zip(self.results, made) if name is None]

    def _flatten(self, args, named):
        leaves, spec = _pytree.tree_flatten((args, named))
        if spec != self.spec.in_spec:
            raise TypeError(f'the arguments are not those of the export: expected '
                            f'{self.spec.in_spec}, got {spec}')
        return leaves

    def __call__(self, *args, **named):
        leaves = self._flatten(args, named)
        theirs = any(isinstance(x, torch.Tensor) for x in leaves)
        with self.context:
            made = self.run(*[to_doorbell(x) for x in leaves])
        if theirs:
            made = [to_torch(x, None) for x in made]
        return _pytree.tree_unflatten(made, self.spec.out_spec)

    def save(self, path, *args, targets=('CPU',), **named):
        """Saves the model for such arguments as a bundle (doorbell.jit's save)."""
        with self.context:
            inputs = [to_doorbell(x) for x in self._flatten(args, named)]
            self.run.save(path, *inputs, targets=targets)


def from_exported(program, device=None):
    """The model of a torch.export.ExportedProgram, on the device of that name or
    in the current context. An operator that the table lacks is a
    NotImplementedError with its name."""
    return ExportedModel(program, _context(device))


# A wheel's entry point names the backend; PyTorch registers it by that.
if 'doorbell' not in torch._dynamo.list_backends(exclude_tags=()):
    torch._dynamo.register_backend(compiler_fn=backend, name='doorbell')
