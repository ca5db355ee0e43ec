#!/usr/bin/env python3
"""Other weights in a bundle, from a file of safetensors: the bundle that is
written is, byte for byte, the one that is saved anew with these weights; what
does not fit is refused by name, and nothing is written then. What `doorbell run`
says of its options.

usage: test_renew.py DOORBELL RUNNER OLD_BUNDLE [TARGET]...
RUNNER is doorbell-run; OLD_BUNDLE was saved before weights had names.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from cli import DOORBELL, Tap, expect, expect_json_error, run, schema_complaints

RUNNER, OLD = sys.argv[2:4]
TARGETS = sys.argv[4:] or ['CPU@null:x86-64-v2']
EXPR = 'relu(x @ w + b) + tensor([1.5, 2.5, 3.5])'
X = ('x', (2, 4), [0.5 * i - 1 for i in range(8)])
W = (('w', (4, 3), [0.25 * i for i in range(12)]),
     ('b', (3,), [1.5, 2.5, 3.5]))  # as the constant
NEW = (('b', (3,), [-1.0, 0.25, 8.0]),
       ('w', (4, 3), [2.0 - i for i in range(12)]))


def header_of(tensors, kind='F32'):
    at, header = 0, {}
    for name, shape, values in tensors:
        header[name] = {'dtype': kind, 'shape': shape,
                        'data_offsets': [at, at + 4 * len(values)]}
        at += 4 * len(values)
    return header


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack('<Q', len(text)) + text + data


def data_of(tensors):
    return b''.join(struct.pack(f'<{len(v)}f', *v) for _, _, v in tensors)


def npy(shape, values):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    head = head.ljust(117) + '\n'
    return (b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) +
            head.encode() + data_of([('', shape, values)]))


class Files:
    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), 'wb') as file:
            file.write(content)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), 'rb') as file:
            return file.read()

    def save(self, name, weights, expr=EXPR):
        """A bundle of the expression with these weights."""
        args = []
        for weight, shape, values in weights:
            path = self.write(f'{weight}.npy', npy(shape, values))
            args += ['--weight', f'{weight}={path}']
        for target in TARGETS:
            args += ['--target', target]
        return run('eval', expr, '--in', f'x={self.path("x.npy")}', *args,
                   '--save', self.path(name), '--device', 'CPU')


def use(program, *args):
    return subprocess.run([program, *args], capture_output=True, text=True,
                          timeout=120, check=False)


def check_same(tap, files):
    """The file, and what is computed without one."""
    new = files.write('new.safetensors', safetensors(
        dict(header_of(NEW), __metadata__={'format': 'pt'}), data_of(NEW)))
    bundle = files.path('first.bundle')
    tap.check('it is saved', expect(files.save('first.bundle', W), 0))
    tap.check('it is saved anew', expect(files.save(
        'anew.bundle', sorted(NEW, key=lambda row: row[0] != 'w')), 0))
    listed = run('run', bundle, '--list').stdout
    tap.check('the list has the names', [
        f'no "{line}" in {listed}' for line in (
            'weight  w float32 (4, 3), 48 bytes\n',
            'weight  b float32 (3), 12 bytes\n',
            'float32 (3), 12 bytes, constant\n') if line not in listed])
    for program in ([DOORBELL, 'run'], [RUNNER]):
        name = os.path.basename(program[0])
        done = use(*program, bundle, '--weights', new, '--save',
                   files.path('renewed.bundle'))
        tap.check(f'{name}: the file is that', expect(done, 0) or [
            'it is another'] * (files.read('renewed.bundle') !=
                                files.read('anew.bundle')))
        shutil.copy(bundle, files.path('own.bundle'))
        done = use(*program, files.path('own.bundle'), '--weights', new,
                   '--save', files.path('own.bundle'))
        tap.check(f'{name}: in place', expect(done, 0) or [
            'it is another'] * (files.read('own.bundle') !=
                                files.read('anew.bundle')))
        outs = []
        for args in (['first.bundle', '--weights', new], ['anew.bundle'],
                     ['first.bundle']):
            done = use(*program, files.path(args[0]), *args[1:], '--device',
                       'CPU', '--in', f'x={files.path("x.npy")}')
            tap.check(f'{name}: {args[0]} runs', expect(done, 0))
            outs.append(done.stdout)
        tap.check(f'{name}: the numbers are those', [
            f'{outs}'] * (outs[0] != outs[1] or outs[0] == outs[2]))
    done = run('run', bundle, '--weights', new, '--save',
               files.path('renewed.bundle'), '--json')
    tap.check('--save --json', expect(done, 0) +
              schema_complaints('run', done.stdout))
    done = run('run', bundle, '--list', '--json')
    tap.check('--list --json', expect(done, 0) +
              schema_complaints('run', done.stdout) + [
                  f'{v}' for v in json.loads(done.stdout)['values']
                  if v.get('renewable') is not {
                      'input': None, 'output': None,
                      'weight': not v['name'].startswith('data.')}[v['kind']]])


def check_refused(tap, files):
    bundle = files.path('first.bundle')
    good, data = header_of(NEW), data_of(NEW)
    whole = safetensors(good, data)

    def other(**changes):
        """A header with some members of b's other."""
        return dict(good, b=dict(good['b'], **changes))

    rows = (
        ('lacks one', safetensors(header_of(NEW[1:]), data_of(NEW[1:])),
         "it lacks 'b', a weight of the bundle"),
        ('has nothing', safetensors({}, b''), 'it lacks'),
        ('has one more', safetensors(header_of((*NEW, ('c', (1,), [1.0]))),
                                     data + bytes(4)),
         "it has 'c', which is not a weight or state of the bundle"),
        ('an input', safetensors(header_of((*NEW, ('x', (2, 4), [0.0] * 8))),
                                 data + bytes(32)), "it has 'x', which is not"),
        ('another shape', safetensors(other(shape=[1, 3]), data),
         "'b' is float32 (1, 3); the bundle's is float32 (3)"),
        ('another dtype', safetensors(other(dtype='I32'), data),
         "'b' is int32 (3); the bundle's is float32 (3)"),
        ('an unknown dtype', safetensors(other(dtype='F8_E8M0'), data),
         "'b' is F8_E8M0 (3); the bundle's is float32 (3)"),
        ('sizes that do not agree', safetensors(
            dict(good, b=dict(good['b'], data_offsets=[0, 8]),
                 w=dict(good['w'], data_offsets=[8, 60])), data),
         "'b' has 8 bytes, expected 12"),
        ('a constant', safetensors(
            header_of((*NEW, ('data.4', (3,), [1.0] * 3))), data + bytes(12)),
         "'data.4' is a constant of the function"),
        ('cut short by a byte', whole[:-1], 'are not in the file'),
        ('cut short in the header', whole[:40], 'a header of'),
        ('cut short in the length', whole[:5], 'a header of'),
        ('a byte more', whole + b'\0', '1 bytes after the last tensor'),
        ('empty', b'', 'is empty'),
        ('a bundle', files.read('first.bundle'), 'a header of'),
    )
    for name, content, text in rows:
        path = files.write('bad.safetensors', content)
        for program in ([DOORBELL, 'run'], [RUNNER]):
            out = files.path('none.bundle')
            for more in (['--save', out],
                         ['--device', 'CPU', '--in',
                          f'x={files.path("x.npy")}', '--out', f'out={out}']):
                done = use(*program, bundle, '--weights', path, *more)
                complaints = expect(done, 1, err=text)
                complaints += expect(done, 1, err=path)
                if len(done.stderr.splitlines()) != 1:
                    complaints.append(f'more than a line: {done.stderr}')
                if os.path.exists(out):
                    complaints.append('something was written')
                    os.remove(out)
                tap.check(f'{os.path.basename(program[0])}: {name}, {more[0]}',
                          complaints)
    new = files.path('new.safetensors')
    tap.check('--json', expect_json_error(
        run('run', bundle, '--weights', path, '--save', out, '--json'), 1,
        'a header of'))
    tap.check('no such file', expect(run('run', bundle, '--weights', '/none',
                                         '--save', out), 1, err='/none: '))
    for args in (['--save', out], ['--weights', new, '--save', out, '--list'],
                 ['--weights', new, '--list'],
                 ['--weights', new, '--save', out, '--device', 'CPU'],
                 ['--weights', new, '--weights', new, '--save', out],
                 ['--weights', new, '--save', out, '--save', out],
                 ['--weights', new, '--save', '']):
        tap.check(f'usage: {" ".join(args)}',
                  expect(run('run', bundle, *args), 2, err='run: --'))


def check_run(tap, files):
    """What `run` alone says: its help, inputs, and what is not a file."""
    bundle, x = files.path('first.bundle'), f'x={files.path("x.npy")}'
    fifo = files.path('fifo')
    os.mkfifo(fifo)
    for program in ([DOORBELL, 'run'], [RUNNER]):
        name = os.path.basename(program[0])
        called = ' '.join([name, *program[1:]])
        done = use(*program, '-h')
        tap.check(f'{name}: help', expect(
            done, 0, out=f'usage: {called} BUNDLE ') + [
                'no example'] * (f'  {called} mnist.bundle' not in done.stdout))
        tap.check(f'{name}: an input twice', expect(
            use(*program, bundle, '--device', 'CPU', '--in', x, '--in', x), 2,
            err='--in x is given twice'))
        for path, kind in ((fifo, 'FIFO'), ('/dev/zero', 'device'),
                           (files.folder, 'folder')):
            done = use(*program, path, '--list')
            tap.check(f'{name}: --list of a {kind}', expect(
                done, 1, err=f'{path}: expected a regular file, got a {kind}'))
        for shape, code in (('2x4', 0), ('2x4:int8', 1)):
            files.write(shape, data_of([X]))
            done = subprocess.run(
                [os.path.abspath(program[0]), *program[1:], bundle, '--device',
                 'CPU', '--in', f'x={shape}'],
                cwd=files.folder, capture_output=True, text=True, timeout=120,
                check=False)
            tap.check(f'{name}: a shape {shape} and a file of that name',
                      expect(done, code, err=f'that name is ./{shape}\n'))


def check_old(tap, files):
    """It loads and is listed; its weights stay: a constant may be one of
    them."""
    tap.check('an old bundle is listed', expect(
        run('run', OLD, '--list'), 0, out='bytes, saved without a name\n'))
    names = {v['name']: v for v in json.loads(
        run('run', OLD, '--list', '--json').stdout)['values']
        if v['kind'] == 'weight'}
    tensors = [(name, v['shape'], [0.0] * (v['bytes'] // 4))
               for name, v in names.items()]
    for header, data in ((header_of(tensors), data_of(tensors)), ({}, b'')):
        path = files.write('old.safetensors', safetensors(header, data))
        done = run('run', OLD, '--weights', path, '--save',
                   files.path('none.bundle'))
        tap.check(f'an old bundle is not renewed, {len(header)} tensors',
                  expect(done, 6 if not header else 1,
                         err='saved without a name') + ['it was written'] *
                  os.path.exists(files.path('none.bundle')))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        files.write('x.npy', npy(*X[1:]))
        check_same(tap, files)
        check_refused(tap, files)
        check_run(tap, files)
        check_old(tap, files)
    tap.finish()


if __name__ == '__main__':
    main()
