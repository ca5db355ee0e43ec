"""jit: functions that are captured at the first call and then replayed."""
import functools

from doorbell import _c


def flatten(value, leaves):
    """A copy of nested lists, tuples and dicts with numbers for its tensors,
    which go to `leaves`. What is neither stays, and is part of the signature."""
    if isinstance(value, _c.Tensor):
        leaves.append(value)
        return Leaf(len(leaves) - 1)
    if isinstance(value, dict):
        return Tree(dict, tuple((key, flatten(value[key], leaves))
                                for key in value))
    if isinstance(value, (list, tuple)):
        kind = type(value)
        return Tree(kind, tuple(flatten(item, leaves) for item in value))
    return value


class Leaf(int):
    """The number of a tensor."""


class Tree(tuple):
    """A container: its type and its items."""

    def __new__(cls, kind, items):
        return super().__new__(cls, (kind, items))


def unflatten(tree, leaves):
    if isinstance(tree, Leaf):
        return leaves[tree]
    if isinstance(tree, Tree):
        kind, items = tree
        if kind is dict:
            return {key: unflatten(item, leaves) for key, item in items}
        items = [unflatten(item, leaves) for item in items]
        if hasattr(kind, '_fields'):
            return kind(*items)
        return kind(items)
    return tree


class Signature:
    """A function for inputs of one structure, with what was captured of it."""

    def __init__(self, function, context, name, tree, n_in):
        self.function, self.tree, self.result = function, tree, None
        self.captured = False
        make = functools.partial(_c._Jit, self.run, context, name, n_in)
        self.jit = make(-1)
        self.make = make
        self.n_out = None

    def run(self, inputs):
        """The capture calls it: a list of tensors for a list of tensors."""
        args, named = unflatten(self.tree, inputs)
        leaves = []
        self.result = flatten(self.function(*args, **named), leaves)
        return leaves

    def count(self, inputs):
        """How many results there are, the function tells: a first capture, which
        is given up, so that nothing has happened."""
        if self.n_out is None:
            self.n_out = self.jit.call(inputs)
            self.jit = self.make(self.n_out)

    def call(self, inputs):
        self.count(inputs)
        results = self.jit.call(inputs)
        self.captured = True
        if type(self.result) is Leaf:
            return results[self.result]
        return unflatten(self.result, results)


    def with_sizes(self, call, inputs, sizes):
        """A call that captures the function for all values of the symbols in
        `sizes`: its inputs are copies that have these sizes."""
        before = {}
        try:
            for size, number in pairs(inputs, sizes):
                if size.is_symbol and size not in before:
                    before[size] = int(size)
                    size.set(number)
            for size, number in pairs(inputs, sizes):
                if int(size) != number:
                    raise _c.Error.ShapeError(
                        f'an axis is {number}, where {size} is {int(size)}')
            return call([_c._sized(x, shape) if shape else x
                         for x, shape in zip(inputs, sizes)])
        finally:
            for size, value in before.items():
                size.set(value)


def pairs(inputs, sizes):
    """Each Size of `sizes` with the number that an input has there."""
    return [(size, number) for x, shape in zip(inputs, sizes) if shape
            for size, number in zip(shape, x.shape)
            if isinstance(size, _c.Size)]


def sized_parameters(function):
    """The sizes that annotations give to parameters, by name, and the names of
    parameters by position."""
    function = getattr(function, '__func__', function)
    code = getattr(function, '__code__', None)
    if code is None or not getattr(function, '__annotations__', None):
        return {}, ()
    import inspect
    import typing
    try:
        notes = inspect.get_annotations(function, eval_str=True)
    except NameError:
        notes = function.__annotations__
    found = {}
    for name, note in notes.items():
        parts = note if isinstance(note, tuple) else ()
        if typing.get_origin(note) is typing.Annotated:
            parts = next((part for part in note.__metadata__
                          if isinstance(part, tuple)), ())
        if any(isinstance(part, _c.Size) for part in parts):
            found[name] = parts
    return found, code.co_varnames[:code.co_argcount]


class jit:
    """A function of tensors that is run once for each signature: its kernels are
    noted and replayed by later calls, which build no graph.

    Tensors in lists, tuples and dicts among the arguments are inputs, those of
    the result outputs. Other arguments are part of the signature. Tensors that
    the function uses from outside are read at each call, and changed if the
    function does: parameters by an optimiser's step, arguments of assign. Values
    cannot be read inside.

    >>> import doorbell
    >>> @doorbell.jit
    ... def step(x, y):
    ...     return (x + y).relu()
    >>> x = doorbell.tensor([1., -2.])
    >>> step(x, x).tolist(), step(x, -x).tolist()
    ([2.0, 0.0], [0.0, 0.0])

    A parameter's annotation may be its sizes, numbers and symbols (symbol), or
    None for what does not matter; in typing.Annotated, where type checkers read.
    It is captured once for all values then. The first call copies such inputs.

    >>> n = doorbell.symbol('n', 1, 512)
    >>> @doorbell.jit
    ... def total(x: (n, 2)):
    ...     return x.sum(0)
    >>> total(doorbell.ones(3, 2)).tolist(), total(doorbell.ones(9, 2)).tolist()
    ([3.0, 3.0], [9.0, 9.0])
    """

    MOST = 64  # signatures of one function

    def __init__(self, function, name=None):
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name or getattr(function, '__name__', 'jit')
        self.sized, names = sized_parameters(function)
        bound = hasattr(function, '__self__')
        self.names = names[1:] if bound else names
        self.signatures = {}
        self.plain = {}  # the same by key, of tensors by position alone

    def __get__(self, instance, owner=None):
        """Methods: each object has its own."""
        if instance is None:
            return self
        bound = jit(self.function.__get__(instance, owner), self.name)
        try:
            instance.__dict__[self.__name__] = bound
        except AttributeError:
            pass
        return bound

    def sizes_of(self, args, named, inputs):
        """For each input the sizes that its annotation gives, or None."""
        wanted = {id(x): (name, self.sized[name])
                  for name, x in [*zip(self.names, args), *named.items()]
                  if name in self.sized}
        found = []
        for x in inputs:
            name, sizes = wanted.get(id(x), ('', None))
            if sizes:
                shape = x.shape
                if len(sizes) != len(shape) or any(
                        isinstance(a, int) and a != b
                        for a, b in zip(sizes, shape)):
                    raise _c.Error.ShapeError(
                        f'{self.name}: {name} is of shape {shape}; its annotation '
                        f'is {sizes}')
                sizes = tuple(b if a is None else a
                              for a, b in zip(sizes, shape))
            found.append(sizes)
        return found

    def signature(self, args, named):
        inputs = []
        tree = flatten((args, named), inputs)
        context = inputs[0].context if inputs else _c.current_context()
        sizes = self.sizes_of(args, named, inputs) if self.sized else ()
        shapes = [x.shape for x in inputs]
        if sizes:
            shapes = [b or a for a, b in zip(shapes, sizes)]
        key = (tree, tuple((shape, x.dtype.name)
                           for x, shape in zip(inputs, shapes)), id(context))
        try:
            found = self.signatures.get(key)
        except TypeError as error:
            raise TypeError(f'{self.name}: an argument that is not a tensor must '
                            f'be hashable: {error}') from None
        if found is None:
            if len(self.signatures) == self.MOST:
                raise ValueError(f'{self.name}: more than {self.MOST} signatures; '
                                 'make what differs from call to call a tensor')
            found = Signature(self.function, context, self.name, tree,
                              len(inputs))
            self.signatures[key] = found
        return found, inputs, sizes

    def __call__(self, *args, **named):
        key = None if named or self.sized else _c._jit_key(args)
        found = self.plain.get(key)
        if found is not None:  # without calls between: most are replays
            results = found.jit.call(list(args))
            tree = found.result
            return results[tree] if type(tree) is Leaf else \
                unflatten(tree, results)
        found, inputs, sizes = self.signature(args, named)
        if sizes and not found.captured:
            return found.with_sizes(found.call, inputs, sizes)
        result = found.call(inputs)
        if key is not None:
            self.plain[key] = found
        return result

    def info(self, *args, **named):
        """Counts of what was captured for such arguments."""
        return self.signature(args, named)[0].jit.info()

    def save(self, path, *args, targets=('CPU',), in_names=(), out_names=(),
             n_steps=0, **named):
        """Saves the function for such arguments as a bundle, which the driver
        half runs alone (docs/reference/bundle-format.md)."""
        found, inputs, sizes = self.signature(args, named)

        def write(inputs):
            found.count(inputs)
            found.jit.save(path, inputs, list(targets), list(in_names),
                           list(out_names), n_steps)

        if sizes and not found.captured:
            found.with_sizes(write, inputs, sizes)
        else:
            write(inputs)
