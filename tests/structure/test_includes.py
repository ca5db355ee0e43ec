#!/usr/bin/env python3
"""The include directions of the parts: who may know whom.

usage: test_includes.py SOURCE_ROOT
"""
import re
import sys

from common import MODULES, Tap, read, sources

# A part may include itself, BASICS, and these. 'doorbell' is the
# public API. Order: a part comes after everything that it may include.
MAY_INCLUDE = {
    'base': set(),
    'include': set(),
    'ioctl': {'base'},
    'mem': {'base', 'ioctl'},
    'hcq': {'base', 'ioctl', 'mem'},
    'sim': {'base', 'ioctl'},
    'uops': {'base'},
    'lower': {'base', 'uops'},
    'render': {'base', 'uops', 'lower'},
    'reference': {'base', 'uops'},
    'cache': {'base'},
    'tensor': {'base', 'hcq', 'uops', 'lower', 'render', 'reference',
               'cache', 'doorbell'},
    'tools': {'base', 'hcq', 'ioctl', 'cache', 'doorbell'},
    'python': {'doorbell'},
    'examples': {'doorbell'},
    # verbs of the tool, with its options, documents and helpers
    'examples/demo': {'base', 'doorbell', 'examples', 'tools'},
}
# Single headers beyond that: the expression parser and the fuzzer work on
# the tables that the tensor functions are documented by; the selftest makes
# binaries of kernels that are written by hand, below the compiler; `kernel
# --ir` compiles what somebody wrote; Adreno's shaders are printed; arrays are read and written by `doorbell
# run`, which is built without the tensors.
ALSO = {
    # the driver half's own extension: the contract, facts, and words by name
    'python': {'hcq/decode/decode_queue.h', 'hcq/decode/encode_queue.h',
               'hcq/hcq.h', 'hcq/hcq_facts.h', 'hcq/hcq_graph.h',
               'hcq/regs.h', 'ioctl/sim_step.h'},
    'tools': {'reference/reference.h', 'render/ir3/ir3.h', 'render/ir3/ir3_isa.h', 'render/llvm/amdgpu.h',
              'render/ptx/nv_container.h', 'render/render.h',
              'tensor/files/array.h', 'tensor/files/npy.h', 'tensor/functions/signature.h', 'tensor/runtime/ir.h',
              'tensor/runtime/sum.h',
              'tensor/runtime/tune.h'},
    'examples/demo': {'tensor/files/idx.h'},
}
# What tools see of the drivers: the contract, facts, files that it loads, and
# what words mean. Their own headers are theirs (hcq_backend.h, hcq/nv/...).
TOOLS_HCQ = {
    'hcq/decode/decode_amd.h', 'hcq/decode/decode_nv.h', 'hcq/decode/decode_queue.h', 'hcq/decode/encode_queue.h',
    'hcq/hcq.h', 'hcq/hcq_bundle.h', 'hcq/hcq_bundle_file.h',
    'hcq/hcq_bundle_format.h', 'hcq/hcq_collective.h', 'hcq/hcq_facts.h', 'hcq/hcq_graph.h', 'hcq/regs.h',
}
# Files of tools that call a driver's own functions, and why.
BELOW_HCQ = {
    'tools/selftest/selftest_kfd.c': 'proves the steps of the driver one by one',
    'tools/selftest/selftest_rm.c': 'proves the steps of the driver one by one',
}
# Within a part: a folder may include itself, the part's own top, and these.
FOLDERS = {
    'lower/scan': {'lower/attention', 'lower/expand', 'lower/kernel'},
    'lower/schedule': set(),
    'lower/kernel': set(),
    'lower/opt': {'lower/kernel'},
    'lower/expand': {'lower/kernel'},
    'lower/attention': {'lower/expand', 'lower/kernel'},
    'lower/decompose': set(),
    'render/ir3': set(),
    'render/ptx': set(),
    'render/llvm': set(),
    'sim/ptx': set(),
    'sim/nv/gpu': {'sim/ptx'},
    'sim/nv/rm': {'sim/nv', 'sim/nv/gpu'},
    'sim/amd/isa': set(),
    'sim/amd/gpu': {'sim/amd/isa'},
    'sim/amd/kfd': {'sim/amd', 'sim/amd/gpu'},
    'sim/qcom/isa': set(),
    'sim/qcom/gpu': {'sim/qcom/isa'},
    'sim/qcom/kernel': {'sim/qcom', 'sim/qcom/gpu'},
    'tensor/core': set(),
    'tensor/files': {'tensor/core', 'tensor/onnx', 'tensor/train'},
    'tensor/functions': {'tensor/core', 'tensor/ops'},
    'tensor/jit': {'tensor/core', 'tensor/runtime'},
    'tensor/mesh': {'tensor/core'},
    'tensor/onnx': {'tensor/core'},
    'tensor/ops': {'tensor/core'},
    'tensor/runtime': {'tensor/core', 'tensor/mesh'},
    'tensor/train': {'tensor/core', 'tensor/mesh', 'tensor/ops', 'tensor/runtime'},
    'tools/bench': {'tools/chain', 'tools/machine', 'tools/plan', 'tools/selftest'},
    'tools/burn': {'tools/chain', 'tools/machine', 'tools/selftest'},
    'tools/chain': set(),
    'tools/decode': set(),
    'tools/eval': set(),
    'tools/fuzz': set(),
    'tools/machine': set(),
    'tools/run': {'tools/onnx'},
    'tools/selftest': {'tools/fuzz', 'tools/trace'},
    'tools/onnx': {'tools/eval'},
    'tools/plan': set(),
    'tools/send': set(),
    'tools/step': {'tools/decode', 'tools/eval', 'tools/trace'},
    'tools/top': {'tools/machine'},
    'tools/trace': {'tools/decode'},
    'tools/viz': {'tools/eval'},
}
# System headers that only some parts may use.
SYSTEM_ONLY_IN = {
    'CL/': {'hcq'},
    'llvm-c/': {'render'},
    'Python.h': {'python'},
    'structmember.h': {'python'},
    'sqlite3.h': {'cache'},
    'sys/ioctl.h': {'ioctl'},
    'drm/': {'ioctl', 'hcq', 'sim'},
    'linux/': {'base', 'ioctl', 'hcq', 'sim'},
}
# Public headers that all parts may include.
BASICS = ('doorbell/status.h', 'doorbell/log.h')
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def complaints_of(root, path):
    module = path.split('/')[0]
    if path.startswith('examples/demo/'):
        module = 'examples/demo'
    folder = path.rsplit('/', 1)[0]
    allowed = MAY_INCLUDE[module] | {module}
    for quote, name in INCLUDE.findall(read(root, path)):
        if quote == '<':
            for prefix, modules in SYSTEM_ONLY_IN.items():
                if name.startswith(prefix) and module not in modules:
                    yield f'{path} includes <{name}>'
            if name.startswith('doorbell/') and module != 'examples':
                yield f'{path}: "{name}" is ours; use quotes'
            if not name.startswith('doorbell/'):
                continue
        target = name.split('/')[0]
        if '/' not in name:
            yield f'{path}: "{name}" lacks its folder'
        elif name in BASICS or name in ALSO.get(module, ()):
            continue
        elif module == 'tools' and target == 'hcq':
            if name not in TOOLS_HCQ and path not in BELOW_HCQ:
                yield f'{path}: "{name}" is the drivers\' own'
        elif module == 'include' and target == 'doorbell':
            continue
        elif target not in allowed:
            yield f'{path} may not include "{name}"'
        elif name.endswith('_internal.h') and target != module:
            yield f'{path} includes the private "{name}"'
        elif (target == module and folder in FOLDERS
              and name.rsplit('/', 1)[0] not in
              FOLDERS[folder] | {folder, module}):
            yield f'{path}: {folder} may not include "{name}"'


def main():
    root = sys.argv[1]
    tap = Tap()
    paths = sources(root, ('.c', '.h', '.def'))
    for module in MODULES:
        if module == 'tests':
            continue
        own = [p for p in paths if p.startswith(module + '/')]
        if own:
            tap.check(f'includes of {module}',
                      [c for p in own for c in complaints_of(root, p)])
    tap.finish()


if __name__ == '__main__':
    main()
