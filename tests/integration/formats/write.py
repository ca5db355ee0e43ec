#!/usr/bin/env python3
"""Writes the files of this folder: what NumPy and PyTorch make of the tensors
that tests/integration/test_formats.py knows.

usage: write.py FOLDER
"""
import os
import pickle
import sys

import numpy as np
import torch

x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 2


def arrays():
    return {'x': x, 'i': np.array([3, -1, 2**40]), 'f': np.asfortranarray(x),
            's': np.float64(2.5), 'none': np.zeros((0, 3), np.float16),
            'b': np.array([True, False]), 'big': np.arange(4, dtype='>i4'),
            'object': np.array([{}], dtype=object)}


def tensors():
    t = torch.from_numpy(x.copy())
    return {'net': {'w': t, 'part': t[1, 1:, 2:], 'turned': t.permute(2, 0, 1),
                    'repeated': t[0, 0].expand(3, 4)},
            'half': t.half(), 'brain': t.bfloat16(), 'int8': t.to(torch.int8),
            'bool': t > 5, 'e4m3': t.to(torch.float8_e4m3fn),
            'uint32': torch.tensor([1, 4000000000]).to(torch.uint32),
            'none': torch.zeros(0, 3), 'scalar': torch.tensor(2.5).double(),
            'parameter': torch.nn.Parameter(t[0]),
            'list': [torch.tensor([7]), {'in': torch.tensor([8])}],
            'epoch': 3, 'lr': 1e-3, 'name': 'a name', 'size': torch.Size([2])}


def main():
    folder = sys.argv[1]
    np.savez(os.path.join(folder, 'stored.npz'), **arrays())
    np.savez_compressed(os.path.join(folder, 'deflated.npz'), **arrays())
    np.save(os.path.join(folder, 'fortran.npy'), arrays()['f'])
    torch.save(tensors(), os.path.join(folder, 'net.pth'))
    torch.save(tensors(), os.path.join(folder, 'protocol5.pth'),
               pickle_protocol=5)
    torch.save(torch.nn.Linear(1, 1), os.path.join(folder, 'module.pth'))
    torch.save({'net': print}, os.path.join(folder, 'call.pth'),
               pickle_module=pickle)
    torch.save(tensors()['half'], os.path.join(folder, 'one.pt'))


if __name__ == '__main__':
    main()
