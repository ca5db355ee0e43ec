#!/usr/bin/env python3
"""Code that the product does not need is not kept: functions that only tests
reach, macros and inline functions that nothing names.

usage: test_reach.py SOURCE_ROOT
A function with external linkage is to be named in some source that is no
test, outside of its own definition and prototype. bell_* are the products',
and hcq_graph_* and hcq_collective_*, which are for programs with kernels of
their own.
"""
import collections
import re
import sys

from common import Tap, read, sources

# What tests need and products do not, and why it is there.
HOOKS = {
    'hcq_bundle_bind': 'for programs that have buffers already',
    'hcq_bundle_open_memory': 'for programs whose bundle is no file',
    'hcq_bundle_queue': 'for programs that wait for more than a run',
    'host_alloc_count': 'which allocation is to fail',
    'kio_fault_hits': 'which call of the kernel is to fail',
    'kio_fault_set': 'which call of the kernel is to fail',
    'kio_poll': 'recordings hold polls, of other programs',
    'mem_pool_backings': 'what is held: leaks',
    'mem_pool_pieces': 'what is held: leaks',
    'mem_slab_pieces': 'what is held: leaks',
    'mem_slab_used': 'what is held: leaks',
    'rw_set_check': 'rules that cannot be parsed never match',
    'sim_amd_fault_text': 'what the simulated driver refused, and why',
    'sim_amd_usage_all': 'what the simulated driver holds: leaks',
    'sim_template_create': 'for the device that is made of the template',
    'sim_qcom_fault_text': 'what the simulated driver refused, and why',
    'sim_qcom_held': 'what the simulated driver holds: leaks',
    'sim_nv_bell_error': 'what the simulated driver refused, and why',
    'sim_nv_machine_exists': 'what the simulated driver holds: leaks',
}
# Macros that nothing of ours names, and why they are there.
MACROS = {
    'CL_TARGET_OPENCL_VERSION': "OpenCL's headers ask for it",
    'CL_USE_DEPRECATED_OPENCL_1_2_APIS': "OpenCL's headers ask for it",
    'SIM_PAGE_OF_CARD': 'says where a bit of map flags lies',
}
# Folders whose functions others call by name: they stand in for libc's.
INTERPOSED = ('sim/preload/', 'tools/recorder/')
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.DOTALL)
# Behind a type; what ends with a parenthesis is a macro's use.
DEFINITION = re.compile(r'^(?P<type>[^\s#/}].*[^)\n])\n(?P<name>\w+)\(',
                        re.MULTILINE)
WORD = re.compile(r'\w+')
MACRO = re.compile(r'^#define (?P<name>\w+)|'
                   r'^static inline[^;{]*?\b(?P<inline>\w+)\(', re.MULTILINE)
# A prototype begins a line in a header; what is indented is a body.
BODY = re.compile(r'^    .*$', re.MULTILINE)


def unused_macros(root):
    """Macros and inline functions of the product that only their definition
    names, by name; without those that describe a kernel's interface, and those
    of a file that makes names of parts."""
    defined, counts = {}, collections.Counter()
    for path in sources(root, ('.c', '.h', '.def', '.inc', '.py')):
        if path.startswith('tests/structure/'):
            continue
        text = COMMENT.sub('', read(root, path))
        counts.update(WORD.findall(text))
        if (path.startswith(('tests/', 'include/')) or '##' in text or
                path.endswith(('_uapi.h', '.inc', '.py'))):
            continue
        for match in MACRO.finditer(text):
            defined.setdefault(match['name'] or match['inline'], path)
    return {name: path for name, path in defined.items() if counts[name] == 1}


def main():
    root = sys.argv[1]
    defined, used = {}, {}
    for path in sources(root, ('.c', '.h', '.def', '.py')):
        if path.startswith('tests/'):
            continue
        text = COMMENT.sub('', read(root, path))
        if path.endswith('.c'):
            for match in DEFINITION.finditer(text):
                if 'static' not in match['type'].split():
                    defined.setdefault(match['name'], path)
            text = DEFINITION.sub('', text)
        elif path.endswith('.h'):
            text = '\n'.join(BODY.findall(text))
        for name in WORD.findall(text):
            used[name] = used.get(name, 0) + 1
    tap = Tap()
    tap.check('every function is reached by more than tests', [
        f'{path}: {name}' for name, path in sorted(defined.items())
        if name not in used and name not in HOOKS and name != 'main' and
        not name.startswith(('bell_', 'hcq_graph_', 'hcq_collective_')) and not path.startswith(INTERPOSED)])
    tap.check('every hook is a function that only tests reach', [
        name for name in sorted(HOOKS)
        if name not in defined or name in used])
    unused = unused_macros(root)
    tap.check('every macro and inline function is named', [
        f'{path}: {name}' for name, path in sorted(unused.items())
        if name not in MACROS])
    tap.check('every macro in the list is one that nothing names', [
        name for name in sorted(MACROS) if name not in unused])
    tap.finish()


if __name__ == '__main__':
    main()
