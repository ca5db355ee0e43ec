#!/usr/bin/env python3
"""What the built libraries show and hold.

usage: test_symbols.py SOURCE_ROOT --shared LIB --driver ARCHIVE
                       --archives ARCHIVE... --hardened FILE...
- the shared library exports bell_* and every function marked BELL_API, and
  nothing else
- the driver half needs nothing of the compiler half, nor LLVM
- programs and the library are hardened as docs/reference/errors.md says
- no part has mutable file-scope state beyond the list below
"""
import argparse
import re
import subprocess

from common import Tap, hardening_complaints, read, sources

# What may change at file scope, and why there is no better place.
MUTABLE = {
    'log_mask': 'BELL_DEBUG, written once',
    'log_out': 'where debug lines go, under a lock',
    'n_allocs': 'allocations so far: the test hook counts in it',
    'fail_at': 'the test hook of the allocator',
    'fail_once': 'the test hook of the allocator',
    'handle_chunks': 'every handle of the process: one that ended can be asked for',
    'n_handle_chunks': 'every handle of the process',
    'n_free_chunks': 'every handle of the process',
    'once_regions': 'addresses of objects, which are used once',
    'once_known': 'addresses of objects, which are used once',
    'symbolic_set': 'rule patterns, parsed once',
    'loaded': "LLVM's functions, looked up once",
    'load_once': "LLVM's functions, looked up once",
    'load_error': "LLVM's functions, looked up once",
    'library': "LLVM's functions, looked up once",
    'amdgpu_once': "LLVM's target for AMD, set up once",
    'amdgpu_error': "LLVM's target for AMD, set up once",
    'foreign_once': "LLVM's target for the other kind of processor, set up once",
    'foreign_error': "LLVM's target for the other kind of processor, set up once",
    'machine_key': "key of each thread's code generator",
    'machine_once': "key of each thread's code generator",
    'machine_key_error': "key of each thread's code generator",
    'cache_told': 'what was told of the cache: once a process',
    'cache_call': 'one call of sqlite3 at a time, and none in the child of one',
    'fault_state': 'signal handlers belong to the process',
    'places': 'where a signal handler finds the worker of its thread',
    'step_state': 'signal handlers belong to the process',
    'bar_watch': 'what signal handlers see belongs to the process',
    'bar_steps': 'what signal handlers see belongs to the process',
    'window_watch': 'what signal handlers see belongs to the process',
    'window_steps': 'what signal handlers see belongs to the process',
    'registry': 'simulated machines: all openings of a name share one',
    'registry_lock': 'simulated machines: all openings of a name share one',
    'counting': 'what the simulated cards of the process count',
    'stepping': 'who steps through the simulated cards of the process',
    'exclusive': "a card's reservation is the process's, not an opening's",
    'processes': 'KFD keeps state for the process until it exits: so do we',
    'list_lock': 'KFD keeps state for the process until it exits: so do we',
}
OBJECT = re.compile(
    r'^[0-9a-f]+ (.{7}) (\.(?:data|bss)\S*)\s+[0-9a-f]+\s+(?:\.hidden )?(\S+)$')
API = re.compile(r'^BELL_API\b[^;{]*?\b(\w+)\s*\(', re.MULTILINE)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True,
                          check=True).stdout


def exported(library):
    lines = run('nm', '-D', '--defined-only', library).splitlines()
    # the version itself is a symbol, too
    return {line.split()[-1].split('@')[0] for line in lines
            if line.split()[-2] != 'A'}


def check_exports(tap, root, library):
    names = exported(library)
    tap.check('the shared library exports only bell_*', sorted(
        f'exported: {n}' for n in names if not n.startswith('bell_')))
    for header in sources(root, ('.h',)):
        if header.startswith('include/'):
            declared = API.findall(read(root, header))
            tap.check(f'{header} is exported whole', [
                f'declared, not exported: {n}'
                for n in declared if n not in names])


def check_threads(tap, library):
    """A library with variables in the static block of threads cannot always be
    loaded into a program that runs."""
    lines = run('readelf', '-d', library).splitlines()
    tap.check('the shared library takes nothing of the static block', [
        line.strip() for line in lines if 'STATIC_TLS' in line])


def check_driver(tap, archive):
    """Undefined symbols that the archive itself does not define."""
    defined, undefined = set(), set()
    for line in run('nm', archive).splitlines():
        match = re.match(r'^[0-9a-f ]{16} (\w) (\S+)$', line)
        if match:
            kind, name = match.groups()
            (undefined if kind in 'Uw' else defined).add(name)
    ours = re.compile('^(uop_|rw_|lower_|sched_build|render_|tensor_|LLVM)')
    with open(archive, 'rb') as file:
        content = file.read()
    tap.check('the driver half has nothing that makes calls fail', [
        f'has {text.decode()}'
        for text in (b'kio_fault', b'host_fail_after', b'BELL_FAIL_ALLOC',
                     b'as planned for call') if text in content])
    tap.check('the driver half stands alone', sorted(
        f'needs {n}' for n in undefined - defined if ours.match(n)))


def check_globals(tap, archives):
    found = []
    for archive in archives:
        for line in run('objdump', '-t', archive).splitlines():
            match = OBJECT.match(line)
            if not match or 'O' not in match.group(1):
                continue
            section, name = match.group(2), match.group(3)
            if section.startswith('.data.rel.ro') or name in MUTABLE:
                continue
            found.append(f'{archive.split("/")[-1]}: {name} in {section}')
    tap.check('no mutable state at file scope', found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('root')
    parser.add_argument('--shared')
    parser.add_argument('--driver')
    parser.add_argument('--archives', nargs='*', default=[])
    parser.add_argument('--hardened', nargs='*', default=[])
    args = parser.parse_args()
    tap = Tap()
    if args.shared:
        check_exports(tap, args.root, args.shared)
        check_threads(tap, args.shared)
    if args.driver:
        check_driver(tap, args.driver)
    check_globals(tap, args.archives)
    for path in args.hardened:
        tap.check(f'{path.split("/")[-1]} is hardened',
                  hardening_complaints(path))
    tap.finish()


if __name__ == '__main__':
    main()
