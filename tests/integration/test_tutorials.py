#!/usr/bin/env python3
"""Tutorials, followed to the letter: what they tell to type works, and prints
what they say.

usage: test_tutorials.py DOORBELL SOURCE_ROOT BUILD_ROOT
"""
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor

import guide
import onnx_write
from arrays import Array, write_npy
from cli import DOORBELL, Tap, data_dir

SOURCE, BUILD = map(os.path.abspath, sys.argv[2:4])
MNIST = ('t10k-images-idx3-ubyte', 't10k-labels-idx1-ubyte')
# Each page with how many of its blocks are followed, at least.
PAGES = {'appliance': 10, 'bring-up': 10, 'measure': 6, 'read-a-trace': 9,
         'send': 10, 'first-tensor': 4, 'gradients': 4, 'custom-kernel': 2,
         'overlap': 2, 'bundle': 7, 'mnist': 2, 'python': 8, 'onnx': 10,
         'hcq': 11}
NEEDS = {'mnist': 'mnist', 'bundle': 'stories260K'}
# Whose commands take files from elsewhere, or long: the tests that run them.
ELSEWHERE = {
    'transformer': 'example_transformer, on a text of its own',
    'resnet18': 'example_resnet18, on random weights, beside PyTorch',
    'gpt2': 'example_gpt2, on random weights, beside PyTorch',
    'gguf': 'example_gguf, demo llama, on files that they write',
}


def place_data(page, folder):
    """The files that a page takes for granted. Whether they are here."""
    os.symlink(BUILD, os.path.join(folder, 'build'))
    data = data_dir(NEEDS[page]) if page in NEEDS else None
    if page == 'bundle' and data:
        for name in 'stories260K.bin', 'tok512.bin':
            shutil.copy(os.path.join(data, name), folder)
    if page == 'mnist' and data:
        for name in MNIST:
            with gzip.open(os.path.join(data, name + '.gz')) as packed, open(
                    os.path.join(folder, name), 'wb') as file:
                shutil.copyfileobj(packed, file)
    if page == 'onnx':
        place_export(folder)
    if page in ('hcq', 'python'):  # where Python's headers were
        return os.path.exists(f'{BUILD}/python/doorbell/_c.abi3.so')
    return page not in NEEDS or bool(data)


def place_export(folder):
    """The files of a model that PyTorch exported, made without it."""
    def write(name, shape, values, dtype):
        write_npy(os.path.join(folder, name), Array(shape, values, dtype))

    onnx_write.encoder().save(os.path.join(folder, 'encoder.onnx'))
    write('ids.npy', (1, 6), onnx_write.ENCODER_IDS, 'int64')
    write('mask.npy', (1, 6), onnx_write.ENCODER_MASK, 'int64')
    write('embedding.npy', (1, 32), onnx_write.ENCODER_RESULT, 'float32')
    with zipfile.ZipFile(os.path.join(folder, 'expected.npz'), 'w') as file:
        file.write(os.path.join(folder, 'embedding.npy'), 'embedding.npy')


def complaints_of(page, installed):
    """None where the page's data are not here."""
    tools = os.path.dirname(os.path.abspath(DOORBELL))
    environment = dict(
        os.environ,
        PATH=f'{tools}:{os.environ["PATH"]}',
        PKG_CONFIG_SYSROOT_DIR=installed,
        PKG_CONFIG_PATH=next(folder for folder, _, files in os.walk(installed)
                             if 'doorbell.pc' in files))
    with tempfile.TemporaryDirectory() as folder:
        if not place_data(page, folder):
            return None
        try:
            n = guide.follow(f'{SOURCE}/docs/tutorials/{page}.md', folder,
                             environment)
        except guide.Broken as broken:
            return str(broken).split('\n')
    return [] if n >= PAGES[page] else [f'{n} blocks']


def main():
    tap = Tap()
    names = {name[:-3] for name in os.listdir(f'{SOURCE}/docs/tutorials')}
    tap.check('every tutorial is followed, or has its tests', [
        f'{name} is neither, or no page'
        for name in sorted(names ^ {*PAGES, *ELSEWHERE})])
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(2) as pool:
        subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild',
                        '--quiet', '--destdir', root], check=True)
        done = pool.map(lambda page: complaints_of(page, root), PAGES)
        for page, complaints in zip(PAGES, done):
            if complaints is None:
                tap.skip(page, f'no {NEEDS[page]} (BELL_TEST_DATA)'
                         if page in NEEDS else 'no Python.h (python3-dev)')
            else:
                tap.check(page, complaints)
    tap.finish()


if __name__ == '__main__':
    main()
