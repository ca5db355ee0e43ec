#!/usr/bin/env python3
"""Each header compiles alone; a public one as C++ too, and every function that
it declares has a comment of its own.

usage: test_headers.py SOURCE_ROOT C_COMPILER [CXX_COMPILER]
"""
import os
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

from common import Tap, read, sources

PYTHON = sysconfig.get_paths()['include']
WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Werror', '-fsyntax-only']


def compile_alone(root, compiler, language, standard, header):
    """What the compiler says about including `header` twice and alone."""
    name = header[len('include/'):] if header.startswith('include/') else header
    command = compiler.split() + WARNINGS + [
        f'-std={standard}', '-D_GNU_SOURCE', '-I', root,
        '-I', os.path.join(root, 'include'), '-isystem', PYTHON,
        '-DPy_LIMITED_API=0x030B0000', '-x', language, '-']
    text = f'#include "{name}"\n#include "{name}"\n'
    done = subprocess.run(command, input=text, capture_output=True, text=True,
                          check=False)
    return done.stderr.splitlines() if done.returncode else []


def needs_llvm(root, header):
    return '#include <llvm-c/' in read(root, header)


def guard_complaints(root, header):
    path = re.sub('^include/', '', header)
    guard = 'BELL_' + re.sub(r'[/.]', '_', path).upper()
    if f'#ifndef {guard}\n#define {guard}\n' in read(root, header):
        return []
    return [f'{header}: the guard is not {guard}']


def bare_functions(root, header):
    """Prototypes of a public header without a comment directly above."""
    lines = read(root, header).splitlines()
    return [f'{header}:{i + 1}: no comment above: {line}'
            for i, line in enumerate(lines) if line.startswith('BELL_API')
            and not lines[i - 1].endswith('*/')]


def main():
    root, c_compiler = sys.argv[1:3]
    cxx_compiler = sys.argv[3] if len(sys.argv) > 3 else None
    tap = Tap()
    headers = [h for h in sources(root, ('.h',)) if not h.startswith('tests/')]
    with_llvm = '-isystem' in c_compiler
    for header in [h for h in headers if needs_llvm(root, h)]:
        if not with_llvm:
            headers.remove(header)
            tap.skip(f'{header} as C', 'built without LLVM')
    if not os.path.exists(os.path.join(PYTHON, 'Python.h')):
        for header in [h for h in headers if h.startswith('python/')]:
            headers.remove(header)
            tap.skip(f'{header} as C', 'no Python.h (python3-dev)')
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        as_c = pool.map(lambda h: compile_alone(root, c_compiler, 'c', 'c11',
                                                h), headers)
        for header, complaints in zip(headers, as_c):
            tap.check(f'{header} as C',
                      complaints + guard_complaints(root, header))
    for header in headers:
        if not header.startswith('include/'):
            continue
        tap.check(f'{header}: every function is documented',
                  bare_functions(root, header))
        if cxx_compiler is None:
            tap.skip(f'{header} as C++', 'no C++ compiler')
        else:
            tap.check(f'{header} as C++', compile_alone(
                root, cxx_compiler, 'c++', 'c++11', header))
    tap.finish()


if __name__ == '__main__':
    main()
