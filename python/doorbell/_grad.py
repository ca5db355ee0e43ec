"""no_grad and vjp, as PyTorch has them."""
from doorbell import _c


class no_grad:
    """In a with statement, or around a function: results are detached, and no
    gradient flows through them.

    >>> import doorbell
    >>> x = doorbell.ones(2).requires_grad_()
    >>> with doorbell.no_grad():
    ...     y = x * 2
    >>> (x * y).sum().backward()
    >>> x.grad.tolist()
    [2.0, 2.0]
    """

    def __enter__(self):
        self._context = _c.current_context()
        self._before = self._context.no_grad
        self._context.no_grad = True

    def __exit__(self, *unused):
        self._context.no_grad = self._before
        return False

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def wrapped(*args, **named):
            with no_grad():
                return function(*args, **named)
        return wrapped


def own_node(x):
    """x as a node of its own, by adding -0, which changes no bit: the function
    may use x from outside, or be given it twice."""
    if not x.dtype.is_floating_point:
        return x
    with x.context:
        return x + _c.tensor([-0.0], dtype=x.dtype).reshape((1,) * x.ndim)


def vjp(function, *inputs):
    """The value of function(*inputs), and a function from gradients of that value
    to those of the inputs. Both sides are tensors in lists, tuples and dicts;
    the gradients of inputs are a tuple, one for each.

    >>> import doorbell
    >>> x = doorbell.tensor([1., 2.])
    >>> value, back = doorbell.vjp(lambda x: x * x, x)
    >>> value.tolist(), back(doorbell.tensor([1., 10.]))[0].tolist()
    ([1.0, 4.0], [2.0, 40.0])
    """
    from doorbell._jit import flatten, unflatten
    leaves = []
    tree = flatten(inputs, leaves)
    leaves = [own_node(leaf) for leaf in leaves]
    value = function(*unflatten(tree, leaves))
    outputs = []
    shape = flatten(value, outputs)
    # Names of their own keep the graph when the values are read.
    outputs = [output.__copy__() for output in outputs]

    def back(gradients):
        vectors = []
        if flatten(gradients, vectors) != shape:
            raise TypeError('vjp: gradients are expected in the form of the '
                            "function's value")
        sums = None
        for output, vector in zip(outputs, vectors):
            made = _c.grad(output, leaves, vector)
            sums = made if sums is None else [a + b for a, b in zip(sums, made)]
        if sums is None:
            raise ValueError('vjp: the function returned no tensor')
        return unflatten(tree, list(sums))
    return value, back
