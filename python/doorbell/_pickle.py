"""Pickles: with protocol 5 the elements may travel out of band."""
import pickle

from doorbell import _c


def rebuild(data, dtype, shape, wants_grad):
    """A tensor of elements as bytes."""
    x = _c._from_bytes(data, dtype, shape)
    return x.requires_grad_() if wants_grad else x


def reduce(x, protocol):
    """For Tensor.__reduce_ex__."""
    data = x.tobytes()
    if protocol >= 5:
        data = pickle.PickleBuffer(data)
    return rebuild, (data, x.dtype, x.shape, x.requires_grad)
