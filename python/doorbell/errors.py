"""A class for each reason why a call fails (docs/reference/errors.md): each is a
doorbell.Error and one of Python's own, such as ShapeError of ValueError."""
from doorbell._c import Error

globals().update({name: value for name, value in vars(Error).items()
                  if name.endswith('Error')})
__all__ = [name for name in vars(Error) if name.endswith('Error')]


def __getattr__(name: str) -> 'type[Error]':
    """For type checkers, which do not see what is made of Error's classes."""
    raise AttributeError(f"module 'doorbell.errors' has no attribute '{name}'")
