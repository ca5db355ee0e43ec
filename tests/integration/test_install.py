#!/usr/bin/env python3
"""What `meson install` puts down is enough to build and run programs.

usage: test_install.py DOORBELL SOURCE_ROOT BUILD_ROOT C_COMPILER
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from cli import Tap

SOURCE, BUILD, COMPILER = sys.argv[2:5]


CMAKE = """cmake_minimum_required(VERSION 3.18)
project(programs C)
find_package(doorbell 0.1 REQUIRED)
add_executable(first ${SOURCE}/examples/first.c)
target_link_libraries(first doorbell::doorbell)
add_executable(driver ${SOURCE}/tests/integration/driver_alone.c)
target_link_libraries(driver doorbell::hcq)
"""


class Installed:
    """An installation below a folder that is not its prefix."""

    def __init__(self, root):
        self.root = root
        self.environment = dict(os.environ, PKG_CONFIG_SYSROOT_DIR=root)
        self.run('meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet',
                 '--destdir', root)
        for folder, _, files in os.walk(root):
            if 'doorbell.pc' in files:
                self.environment['PKG_CONFIG_PATH'] = folder
            if 'doorbell' in files and os.path.basename(folder) == 'bin':
                self.program = os.path.join(folder, 'doorbell')
            if 'libdoorbell.so' in files:
                self.environment['LD_LIBRARY_PATH'] = folder

    def run(self, *command):
        return subprocess.run(command, capture_output=True, text=True,
                              env=self.environment, check=True).stdout

    def build(self, source, package):
        """Compiles a program as its author would; returns its path."""
        flags = self.run('pkg-config', '--cflags', '--libs', package)
        out = os.path.join(self.root, 'program')
        self.run(*COMPILER.split(), '-std=c11', '-Wall', '-Werror',
                 os.path.join(SOURCE, source), '-o', out, *flags.split())
        return out


    def build_with_cmake(self):
        """The same with find_package(), of both libraries."""
        with open(os.path.join(self.root, 'CMakeLists.txt'), 'w',
                  encoding='utf-8') as file:
            file.write(CMAKE)
        build = os.path.join(self.root, 'cmake')
        prefix = os.path.dirname(os.path.dirname(self.program))
        self.run('cmake', '-S', self.root, '-B', build, f'-DSOURCE={SOURCE}',
                 f'-DCMAKE_PREFIX_PATH={prefix}')
        self.run('cmake', '--build', build)
        return build


def attempt(tap, name, check):
    """A check is a function that returns complaints; failing to run is one."""
    try:
        tap.check(name, check())
    except subprocess.CalledProcessError as error:
        tap.check(name, [str(error)] + error.stderr.splitlines()[-20:])


def same(got, expected):
    return [] if got == expected else [f'"{got}", not "{expected}"']


def sbom_complaints(path):
    """What SPDX 2.3 asks for and the document lacks."""
    with open(path, encoding='utf-8') as file:
        spdx = json.load(file)
    complaints = [f'no {key}' for key in (
        'spdxVersion', 'dataLicense', 'SPDXID', 'name', 'documentNamespace',
        'creationInfo', 'packages', 'relationships') if not spdx.get(key)]
    known = {'SPDXRef-DOCUMENT'} | {p['SPDXID'] for p in spdx['packages']}
    complaints += [f'{end} is no part' for r in spdx['relationships']
                   for end in (r['spdxElementId'], r['relatedSpdxElement'])
                   if end not in known]
    complaints += [f'{p["name"]}: no {key}' for p in spdx['packages']
                   for key in ('name', 'versionInfo', 'downloadLocation',
                               'licenseDeclared') if not p.get(key)]
    if not any(r['relationshipType'] == 'DESCRIBES' and
               r['relatedSpdxElement'] == 'SPDXRef-doorbell'
               for r in spdx['relationships']):
        complaints.append('it describes nothing')
    return complaints


def main():
    tap = Tap()
    with open(os.path.join(SOURCE, 'examples/first.txt'),
              encoding='utf-8') as file:
        first = file.read()
    root = tempfile.mkdtemp()
    installed = Installed(root)
    attempt(tap, 'doorbell --version', lambda: same(
        installed.run(installed.program, '--version'), 'doorbell 0.1.0\n'))
    attempt(tap, 'a program with the shared library', lambda: same(
        installed.run(installed.build('examples/first.c', 'doorbell')), first))

    def static():
        """With libdoorbell.a and what it needs, from one line of pkg-config."""
        flags = installed.run('pkg-config', '--static', '--cflags', '--libs',
                              'doorbell').split()
        complaints = [f'{flag} is for ourselves' for flag in flags
                      if flag.startswith('-I') and 'cjson' in flag]
        flags = ['-l:libdoorbell.a' if f == '-ldoorbell' else f for f in flags]
        out = os.path.join(root, 'static')
        installed.run(*COMPILER.split(), os.path.join(SOURCE,
                      'examples/first.c'), '-o', out, *flags)
        if 'doorbell' in installed.run('ldd', out):
            complaints.append('it needs the shared library')
        return complaints + same(installed.run(out), first)

    attempt(tap, 'a program with the static library', static)

    def driver():
        program = installed.build('tests/integration/driver_alone.c',
                                  'doorbell-hcq')
        needed = installed.run('ldd', program)
        complaints = [f'needs {name}' for name in ('LLVM', 'libz', 'doorbell')
                      if name in needed]
        return complaints + same(installed.run(program), 'CPU:0: 0x600d\n')

    attempt(tap, 'a program with the driver half alone', driver)

    def cmake():
        build = installed.build_with_cmake()
        return (same(installed.run(f'{build}/first'), first) +
                same(installed.run(f'{build}/driver'), 'CPU:0: 0x600d\n'))

    if shutil.which('cmake'):
        attempt(tap, 'programs built with CMake', cmake)
    else:
        tap.skip('programs built with CMake', 'no cmake')
    tap.check('documents', [
        f'no {name}' for name in ('LICENSE', 'README.md',
                                  'docs/how-to/first-run.md',
                                  'docs/tutorials/measure.md', 'examples/fit.c')
        if not os.path.exists(os.path.join(
            os.path.dirname(os.path.dirname(installed.program)),
            'share/doc/doorbell', name))])
    tap.check('the list of parts', sbom_complaints(os.path.join(
        os.path.dirname(os.path.dirname(installed.program)),
        'share/doc/doorbell/doorbell.spdx.json')))
    shutil.rmtree(root)
    tap.finish()


if __name__ == '__main__':
    main()
