#!/usr/bin/env python3
"""Every kernel call that the drivers issue has a row that says which source
proves its arguments, and the page made from those rows is up to date.

usage: test_proofs.py SOURCE_ROOT
"""
import os
import re
import sys

from common import Tap, read, sources

ROOT = sys.argv[1]
sys.path.insert(0, os.path.join(ROOT, 'ioctl'))
import uapigen  # noqa: E402  pylint: disable=wrong-import-position

SPECS = [uapigen.Spec(os.path.join(ROOT, 'ioctl', name))
         for name in ('nv.uapi', 'amdkfd.uapi', 'kgsl.uapi', 'msm.uapi')]
NAMES = {name: kind for spec in SPECS for name, kind in spec.names().items()}
PROOFS = {name: row for spec in SPECS for name, row in spec.proofs.items()}
PAGE = 'docs/reference/kernel-calls.md'

# KFD's requests have short names of their own; the number says which is which.
REQUEST = re.compile(r'#define (KFD_\w+)\s+KFD_REQUEST\(\d, (0x\w+), \d+\)')
# A call through the wrappers, its second argument; and one made by hand.
CALL = re.compile(r'\bkio_ioctl(?:_status)?\s*\(\s*[^,]+,\s*([\w]+)')
BY_HAND = re.compile(r'\b(?:_IO[WR]*|_IOC|(?<!_)ioctl)\s*\(')
# What stands for requests that a caller names: the calls there are looked at.
PASSED_ON = {'request', 'nv_request', 'unsigned'}
ALIASES = {'AMDGPU_INFO_REQUEST': 'DRM_IOCTL_AMDGPU_INFO'}


def strip_comments(text):
    return re.sub(r'/\*.*?\*/', '', text, flags=re.S)


def aliases():
    numbers = {number: name for number, _, name in SPECS[1].calls['kfd']}
    found = dict(ALIASES)
    for name, number in REQUEST.findall(read(ROOT, 'ioctl/kfd_uapi.h')):
        found[name] = numbers[int(number, 0)]
    return found


def issuers():
    """The drivers, but for the one of a card that does not exist, and what asks
    the kernel which driver it is."""
    return [path for path in sources(ROOT, ('.c', '.h'))
            if path.startswith('hcq' + os.sep) and
            not path.startswith('hcq/template' + os.sep)] + ['ioctl/nv_abi.c']


def issued():
    """{name: path} of what the drivers name, and complaints."""
    known, found, complaints = aliases(), {}, []
    for path in issuers():
        text = strip_comments(read(ROOT, path))
        for word in set(re.findall(r'\b[A-Z]\w+\b', text)):
            name = known.get(word, word)
            if name in NAMES:
                found.setdefault(name, path)
        for word in CALL.findall(text):
            if word not in PASSED_ON and known.get(word, word) not in NAMES:
                complaints.append(f'{path}: a call of {word}, which no '
                                  '.uapi file names')
        complaints += [f'{path}: {call.strip()}: not through ioctl/kio.h'
                       for call in BY_HAND.findall(text)]
    return found, complaints


def row_complaints(name):
    kernel, programs = PROOFS[name]
    if not re.fullmatch(r'(\w+\.c \w+(, )?)+', kernel):
        return [f'{name}: "{kernel}" is not FILE.c FUNCTION, ...']
    if not re.fullmatch(r'none|((tinygrad|CUDA|ROCr \w+\.c|Mesa \w+\.cc)( \([^)]*\))?'
                        r'(, )?)+', programs):
        return [f'{name}: "{programs}" are no programs']
    return []


def main():
    tap = Tap()
    found, complaints = issued()
    tap.check('calls are made by names that ioctl/*.uapi has', complaints)
    tap.check('what the drivers issue has a proof', [
        f'{found[name]}: {name} ({NAMES[name]}): add a row '
        f'"proof {name} | ..." to its .uapi file'
        for name in sorted(found) if name not in PROOFS])
    tap.check('no proof is left over', [
        f'{name} is not issued, or no such call'
        for name in PROOFS if name not in found])
    tap.check('proofs name kernel functions and programs',
              [c for name in PROOFS for c in row_complaints(name)])
    layouts = SPECS[0].issued()
    tap.check('layouts that the drivers use are of calls with a proof', [
        f'{path}: {word}: an appliance lacks it'
        for path in issuers() for word in re.findall(
            r'\bNV_S_(\w+)', strip_comments(read(ROOT, path)))
        if word.lower() not in layouts])
    made = '\n'.join(uapigen.proofs(SPECS)) + '\n'
    tap.check(f'{PAGE} is up to date', [
        c for c in ['run ioctl/uapigen.py ioctl/nv.uapi ioctl/amdkfd.uapi '
                    'ioctl/kgsl.uapi ioctl/msm.uapi '
                    f'--proofs {PAGE}'] if made != read(ROOT, PAGE)])
    tap.finish()


if __name__ == '__main__':
    main()
