#!/usr/bin/env python3
"""DLPack with NumPy and PyTorch, both ways, through capsules of both kinds.

usage: test_dlpack.py DOORBELL LIBRARY
"""
import ctypes as ct
import sys

from cli import Tap

try:
    import numpy as np
    import torch
except ImportError:
    print('1..0 # SKIP: NumPy or PyTorch is not installed')
    sys.exit(77)

py = ct.pythonapi
py.PyCapsule_New.restype = ct.py_object
py.PyCapsule_New.argtypes = [ct.c_void_p, ct.c_char_p, ct.c_void_p]
py.PyCapsule_GetPointer.restype = ct.c_void_p
py.PyCapsule_GetPointer.argtypes = [ct.py_object, ct.c_char_p]
py.PyCapsule_SetName.argtypes = [ct.py_object, ct.c_char_p]
KINDS = {False: b'dltensor', True: b'dltensor_versioned'}
USED = {False: b'used_dltensor', True: b'used_dltensor_versioned'}


class Doorbell:
    def __init__(self, path):
        self.lib = ct.CDLL(path)
        self.ctx = ct.c_void_p()
        assert self.lib.bell_context_create(b'CPU', ct.byref(self.ctx)) == 0
        for name in ('bell_from_dlpack', 'bell_from_dlpack_versioned'):
            getattr(self.lib, name).restype = ct.c_void_p
            getattr(self.lib, name).argtypes = [ct.c_void_p, ct.c_void_p]
        for name in ('bell_to_dlpack', 'bell_to_dlpack_versioned'):
            getattr(self.lib, name).argtypes = [ct.c_void_p, ct.c_void_p]
        self.lib.bell_is_error.argtypes = [ct.c_void_p]
        self.lib.bell_is_error.restype = ct.c_bool

    def take(self, capsule, versioned):
        pointer = py.PyCapsule_GetPointer(capsule, KINDS[versioned])
        name = 'bell_from_dlpack' + ('_versioned' if versioned else '')
        py.PyCapsule_SetName(capsule, USED[versioned])
        tensor = getattr(self.lib, name)(self.ctx, pointer)
        assert not self.lib.bell_is_error(tensor)
        return tensor

    def give(self, tensor, versioned):
        pointer = ct.c_void_p()
        name = 'bell_to_dlpack' + ('_versioned' if versioned else '')
        assert getattr(self.lib, name)(tensor, ct.byref(pointer)) == 0
        return py.PyCapsule_New(pointer, KINDS[versioned], None)


class Given:
    """What numpy.from_dlpack and torch.from_dlpack ask."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


def capsule_of(x, versioned):
    return x.__dlpack__(max_version=(1, 0)) if versioned else x.__dlpack__()


def kinds_of(x):
    """The kinds that this release of x's library knows."""
    try:
        x.__dlpack__(max_version=(1, 0))
    except TypeError:
        return (False,)
    return False, True


def can_give(x):
    """Whether the library gives bool: older ones do not."""
    try:
        x.__dlpack__()
    except (BufferError, RuntimeError, TypeError):
        return False
    return True


def main():
    tap = Tap()
    bell = Doorbell(sys.argv[2])
    rng = np.random.default_rng(3)
    whole = (rng.standard_normal((3, 4, 5)) * 9)
    for dtype in ('float16', 'float32', 'float64', 'int8', 'uint8', 'int16',
                  'uint16', 'int32', 'uint32', 'int64', 'uint64', 'bool'):
        a = np.abs(whole).astype(dtype)
        if dtype == 'bool' and not can_give(a):
            tap.skip(f'NumPy {dtype}', 'not of this NumPy')
            continue
        complaints = []
        for x in (a, a.transpose(2, 0, 1), a[1:, ::2, ::-1], a[0, 0, 0],
                  a[:0]):
            for versioned in kinds_of(a):
                t = bell.take(capsule_of(np.asarray(x), versioned), versioned)
                for back in kinds_of(a):
                    got = np.from_dlpack(Given(bell.give(t, back)))
                    if got.dtype != a.dtype or not np.array_equal(got, x):
                        complaints.append(f'{x.shape} {versioned} {back}')
        tap.check(f'NumPy {dtype}', complaints)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64,
                  torch.int8, torch.uint8, torch.int32, torch.int64,
                  torch.bool):
        a = torch.from_numpy(whole).to(dtype)
        if dtype == torch.bool and not can_give(a):
            tap.skip(f'PyTorch {dtype}', 'not of this PyTorch')
            continue
        complaints = []
        for x in (a, a.permute(2, 0, 1), a[1:, ::2], a[0, 0].expand(4, 5),
                  a[0, 0, 0], a[:0]):
            for versioned in kinds_of(a):
                t = bell.take(capsule_of(x, versioned), versioned)
                got = torch.from_dlpack(bell.give(t, versioned))
                if got.dtype != dtype or not torch.equal(got, x):
                    complaints.append(f'{tuple(x.shape)} {versioned}')
        tap.check(f'PyTorch {dtype}', complaints)
    tap.finish()


if __name__ == '__main__':
    main()
