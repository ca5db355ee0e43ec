#!/usr/bin/env python3
"""ONNX models by the tool: `doorbell onnx`, `doorbell run MODEL`, a bundle of
one, and that docs/reference/onnx.md has the list that the tool prints.

usage: test_onnx.py DOORBELL MODEL
MODEL is tests/fuzz/onnx/add.onnx: y = relu(x + (1, 2, 3)), x of n rows.
"""
import json
import os
import struct
import sys
import tempfile

from cli import Tap, expect, expect_json_error, run, schema_complaints

MODEL = sys.argv[2]
PAGE = os.path.join(os.path.dirname(__file__), '..', '..', 'docs', 'reference',
                    'onnx.md')


def write_npy(path, shape, values):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    with open(path, 'wb') as file:
        file.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', 118) +
                   (head.ljust(117) + '\n').encode() +
                   struct.pack(f'<{len(values)}f', *values))


def read_npy(path):
    with open(path, 'rb') as file:
        data = file.read()
    begin = 10 + struct.unpack_from('<H', data, 8)[0]
    return struct.unpack(f'<{(len(data) - begin) // 4}f', data[begin:])


def check_verb(tap):
    done = run('onnx', MODEL)
    complaints = expect(done, 0)
    for part in ('opset 21', 'x: float (n, 3)', 'Relu', 'all of it is'):
        if part not in done.stdout:
            complaints.append(f'no {part!r} in {done.stdout}')
    tap.check('onnx', complaints)
    done = run('onnx', MODEL, '--json')
    complaints = expect(done, 0) + schema_complaints('onnx', done.stdout)
    if not complaints:
        got = json.loads(done.stdout)
        if got['inputs'] != [{'name': 'x', 'kind': 'tensor', 'type': 'float',
                              'shape': ['n', 3]}]:
            complaints.append(str(got['inputs']))
    tap.check('onnx --json', complaints)
    done = run('onnx', '--list', '--json')
    tap.check('onnx --list --json',
              expect(done, 0) + schema_complaints('onnx', done.stdout))
    tap.check('onnx without a model', expect(run('onnx'), 2))
    tap.check('onnx of no file', expect_json_error(
        run('onnx', '/none.onnx', '--json'), 1, '/none.onnx'))


def check_page(tap):
    done = run('onnx', '--list')
    with open(PAGE, encoding='utf-8') as file:
        page = file.read()
    complaints = expect(done, 0)
    if not page.endswith('\n\n' + done.stdout):
        complaints.append('docs/reference/onnx.md does not end with what '
                          '`doorbell onnx --list` prints')
    tap.check('the list in docs/reference/onnx.md', complaints)


def check_run(tap, folder):
    x, y = (os.path.join(folder, name) for name in ('x.npy', 'y.npy'))
    write_npy(x, (2, 3), [0, 0, 0, -9, 9, -1])
    want = (1, 2, 3, 0, 11, 2)
    for more in ((), ('--times', '3')):
        complaints = expect(run('run', MODEL, '--in', f'x={x}', '--out',
                                f'y={y}', '--device', 'CPU', *more), 0)
        if not complaints and read_npy(y) != want:
            complaints.append(f'{read_npy(y)}')
        tap.check(f'run a model {" ".join(more)}', complaints)
    done = run('run', MODEL, '--in', f'x={x}', '--json', '--device', 'CPU')
    complaints = expect(done, 0) + schema_complaints('run', done.stdout)
    tap.check('run a model --json', complaints)
    tap.check('an input that is missing', expect(
        run('run', MODEL, '--device', 'CPU'), 1, err="input 'x' is missing"))
    tap.check('an input of another name', expect(
        run('run', MODEL, '--in', f'z={x}', '--device', 'CPU'), 1,
        err='the model has x'))
    tap.check('--target of no bundle', expect(
        run('run', MODEL, '--in', f'x={x}', '--target', 'CPU'), 2,
        err='--target is of --save'))
    bundle = os.path.join(folder, 'm.bundle')
    complaints = expect(run('run', MODEL, '--in', f'x={x}', '--save', bundle,
                            '--device', 'CPU'), 0)
    os.remove(y)
    complaints = complaints or expect(
        run('run', bundle, '--in', f'x={x}', '--out', f'y={y}', '--device',
            'CPU'), 0)
    if not complaints and read_npy(y) != want:
        complaints.append(f'{read_npy(y)}')
    tap.check('a bundle of a model', complaints)


def main():
    tap = Tap()
    check_verb(tap)
    check_page(tap)
    with tempfile.TemporaryDirectory() as folder:
        check_run(tap, folder)
    tap.finish()


if __name__ == '__main__':
    main()
