#!/usr/bin/env python3
"""Writes the backend tests of the onnx package as folders.

usage: onnx_cases.py FOLDER

Needs the package onnx (pip install onnx). Each test gets a folder with
model.onnx and test_data_set_0/input_0.pb, .., output_0.pb, as the package's own
tests of converted models have them; test_onnx_cases runs such folders. A file
tolerance.txt has the relative and the absolute difference that the package's
runner allows.
"""
import os
import shutil
import sys

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.case import model as model_cases
from onnx.backend.test.case import node as node_cases


def write(path, message):
    with open(path, 'wb') as file:
        file.write(message.SerializeToString())


def value_of(value, info):
    """A test's value as the message of its type."""
    kind = info.type.WhichOneof('value') if info is not None else None
    if isinstance(value, onnx.TensorProto):
        return value
    if kind == 'sequence_type':
        return numpy_helper.from_list(value, info.name)
    if kind == 'optional_type':
        return numpy_helper.from_optional(value, info.name)
    return numpy_helper.from_array(
        value if isinstance(value, numpy.ndarray) else numpy.array(value))


def export(case, folder):
    if not case.model_dir and case.model is None:
        return # of those that are downloaded
    path = os.path.join(folder, case.kind, case.name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    with open(os.path.join(path, 'tolerance.txt'), 'w',
              encoding='utf-8') as file:
        file.write(f'{case.rtol} {case.atol}\n')
    if case.model_dir:
        for name in os.listdir(case.model_dir):
            source = os.path.join(case.model_dir, name)
            if os.path.isdir(source):
                shutil.copytree(source, os.path.join(path, name))
            elif name.endswith('.onnx'):
                shutil.copy(source, os.path.join(path, 'model.onnx'))
        return
    write(os.path.join(path, 'model.onnx'), case.model)
    for i, (inputs, outputs) in enumerate(case.data_sets or []):
        at = os.path.join(path, f'test_data_set_{i}')
        os.makedirs(at)
        for kind, values, infos in (
                ('input', inputs, case.model.graph.input),
                ('output', outputs, case.model.graph.output)):
            for k, value in enumerate(values):
                info = infos[k] if k < len(infos) else None
                write(os.path.join(at, f'{kind}_{k}.pb'),
                      value_of(value, info))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cases = node_cases.collect_testcases(None) + \
        model_cases.collect_testcases()
    for kind in ('simple', 'pytorch-converted', 'pytorch-operator', 'light'):
        try:
            cases += load_model_tests(kind=kind)
        except (FileNotFoundError, ValueError):
            pass
    failed = 0
    for case in cases:
        try:
            export(case, sys.argv[1])
        except (TypeError, ValueError, AttributeError, OSError) as error:
            failed += 1
            print(f'{case.name}: {error}', file=sys.stderr)
    print(f'{len(cases)} tests, {failed} not written')


main()
