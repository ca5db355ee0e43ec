"""no_grad, as PyTorch has it."""
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
