#!/usr/bin/env python3
"""Public structures may grow, or are said not to: options, results and
descriptions that a caller makes begin with struct_size (docs/reference/versions.md). What
has none is listed here, with the reason.

usage: test_sizes.py SOURCE_ROOT
"""
import os
import re
import sys

from common import Tap, read

HEADERS = ['hcq/hcq.h', 'hcq/hcq_bundle.h', 'hcq/hcq_collective.h',
           'hcq/hcq_facts.h',
           'hcq/hcq_graph.h']
SIZED = ('_options', '_info', '_stats', '_desc')

ELEMENT = 'an element of a list of the caller\'s, whose stride is its size'
OURS = 'the library makes it and gives its address: fields may come at the end'
LAYER = 'a layer of a module, which lies within the caller\'s own structures'
LIST = 'a list that the library grows, begun with {0}'
FIXED = {
    'bell_arg': ELEMENT,
    'bell_call': 'bindings lay it out: it changes with a minor version',
    'bell_dim': 'a word, passed by value',
    'bell_dl_managed': 'DLPack\'s',
    'bell_dl_managed_versioned': 'DLPack\'s, which has a version in it',
    'bell_dl_tensor': 'DLPack\'s',
    'bell_error': OURS,
    'bell_file_entry': OURS,
    'bell_function': OURS,
    'bell_function_c': OURS,
    'bell_index_item': ELEMENT,
    'bell_kernel_code': ELEMENT,
    'bell_kernel_result': ELEMENT,
    'bell_loader_field': ELEMENT,
    'bell_module_field': ELEMENT,
    'bell_module_type': 'constant data of the caller\'s, made by a macro',
    'bell_named_size': ELEMENT,
    'bell_shard_rule': ELEMENT,
    'bell_onnx_dim': ELEMENT,
    'bell_onnx_node': OURS,
    'bell_onnx_operator': 'a row of a table, all of whose fields are known',
    'bell_onnx_value': OURS,
    'bell_nn_attention': LAYER,
    'bell_nn_batch_norm': LAYER,
    'bell_nn_cell': LAYER,
    'bell_nn_conv': LAYER,
    'bell_nn_embedding': LAYER,
    'bell_nn_group_norm': LAYER,
    'bell_nn_instance_norm': LAYER,
    'bell_nn_kv_cache': LAYER,
    'bell_nn_layer_norm': LAYER,
    'bell_nn_linear': LAYER,
    'bell_nn_rms_norm': LAYER,
    'bell_nn_rnn': LAYER,
    'bell_nn_transformer': LAYER,
    'bell_param': ELEMENT,
    'bell_params': LIST,
    'bell_state': LIST,
    'bell_state_item': ELEMENT,
    'bell_value': ELEMENT,
    'hcq_buffer': OURS,
    'hcq_bundle_value': OURS,
    'hcq_card': ELEMENT,
    'hcq_collective_rank': ELEMENT,
    'hcq_command': OURS,
    'hcq_device_desc': ELEMENT,
    'hcq_fact': OURS,
    'hcq_fault': 'drivers make it: it changes with a minor version',
    'hcq_graph_arg': ELEMENT,
    'hcq_program': OURS,
    'hcq_signal': OURS,
    'hcq_sum_kernel': OURS,
    'hcq_sum_program': OURS,
}
# Whose name says that they are options or results.
EXCEPTIONS = {'hcq_device_desc'}


def structures(root):
    """Each public structure's header, name and first member."""
    folder = os.path.join(root, 'include', 'doorbell')
    headers = [f'include/doorbell/{name}' for name in sorted(
        os.listdir(folder)) if name.endswith('.h')] + HEADERS
    for header in headers:
        text = re.sub(r'/\*.*?\*/', '', read(root, header), flags=re.S)
        for match in re.finditer(r'^struct (\w+)\s*\{\s*([^;]*);', text, re.M):
            yield header, match[1], ' '.join(match[2].split())


def main():
    root = sys.argv[1]
    tap = Tap()
    found = set()
    for header, name, first in structures(root):
        found.add(name)
        has_size = first == 'uint32_t struct_size'
        complaints = []
        if not has_size and name not in FIXED:
            complaints.append(f'{header}: {name} begins with "{first}", not '
                              'with "uint32_t struct_size"')
        if has_size and name in FIXED:
            complaints.append(f'{name} is said to have no struct_size')
        if name in FIXED and name.endswith(SIZED) and name not in EXCEPTIONS:
            complaints.append(f'{name} has to begin with struct_size')
        tap.check(name, complaints)
    tap.check('what is listed is there', sorted(set(FIXED) - found))
    tap.finish()


if __name__ == '__main__':
    main()
