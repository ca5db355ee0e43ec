#!/usr/bin/env python3
"""./package's packages: what is in them, and that they install and run in a
root that has what they depend on and nothing else.

usage: test_package.py SOURCE_ROOT BUILD_ROOT ARCH [WRAPPER...]

The root is made of this machine's files: of each package that the packages'
Depends lead to, as dpkg knows them. So nothing is downloaded.

Packages for another architecture, Debian's name of which is ARCH, run as they
are unpacked, by the emulator WRAPPER, whose last word is the folder with that
architecture's libraries.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from tree_copy import copy
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'structure'))
from common import Tap  # noqa: E402

SOURCE, BUILD, ARCH = sys.argv[1:4]
WRAPPER = sys.argv[4:]
MULTIARCH = {'amd64': 'x86_64-linux-gnu', 'arm64': 'aarch64-linux-gnu'}
NAMES = ('doorbell', 'libdoorbell-dev', 'libdoorbell0',
         *(() if WRAPPER else ('python3-doorbell',)))
# What a shell and dpkg's scripts need, and a C program.
BASE = ('base-files', 'coreutils', 'dash', 'libc-bin', 'dpkg')
TO_BUILD = ('gcc', 'libc6-dev', 'pkg-config')
LEFT_OUT = ('/dev', '/proc', '/sys', '/usr/share/doc', '/usr/share/man',
            '/usr/share/locale')
CONTENTS = {
    'doorbell': ['/usr/bin/doorbell', '/usr/share/man/man1/doorbell.1.gz',
                 '/usr/share/bash-completion/completions/doorbell'],
    'libdoorbell0': ['/libdoorbell.so.0'],
    'libdoorbell-dev': [
        '/usr/include/doorbell/tensor.h', '/libdoorbell-hcq.a',
        '/pkgconfig/doorbell.pc', '/doorbellConfig.cmake',
        '/usr/share/doc/doorbell/LICENSE',
        '/usr/share/doc/doorbell/docs/how-to/first-run.md',
        '/usr/share/doc/doorbell/examples/first.c'],
    'python3-doorbell': [
        '/python3/dist-packages/doorbell/_c.abi3.so',
        '/python3/dist-packages/doorbell/hcq.py',
        '/python3/dist-packages/doorbell/torch/__init__.py'],
}


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False,
                          **options)


def field(package, name):
    return run('dpkg-deb', '-f', package, name).stdout.strip()


def build_packages(root):
    """{name: path of the .deb}, or what went wrong."""
    build = copy(SOURCE, BUILD, root, options=[
        '-Dprefix=/usr', f'-Dlibdir=lib/{MULTIARCH[ARCH]}', '-Dtests=disabled',
        '-Dpython=' + ('disabled' if WRAPPER else 'enabled')])
    environment = dict(os.environ)
    if WRAPPER and WRAPPER[-1] != '/':
        environment['CROSS_ROOT'] = WRAPPER[-1]
    os.symlink(build, f'{root}/build-package' + (f'-{ARCH}' if WRAPPER else ''))
    done = run('./package', '--arch', ARCH, cwd=root, env=environment)
    if done.returncode:
        return done.stdout
    return {field(path, 'Package'): path
            for path in done.stdout.split('\n') if path.endswith('.deb')}


def contents_complaints(packages):
    yield from (f'no package {name}' for name in NAMES if name not in packages)
    for name, path in packages.items():
        files = [line.split()[5].lstrip('.') for line in
                 run('dpkg-deb', '-c', path).stdout.strip().split('\n')]
        for want in CONTENTS[name]:
            if not any(file.endswith(want) for file in files):
                yield f'{name} lacks {want}'
        for need in ('Version', 'Maintainer', 'Description', 'Depends'):
            if not field(path, need):
                yield f'{name}: no {need}'
        if field(path, 'Architecture') != ARCH:
            yield f'{name} is for {field(path, "Architecture")}'
    if 'libllvm19' not in field(packages['libdoorbell0'], 'Depends'):
        yield 'libdoorbell0 does not depend on LLVM, which it loads'
    for name in ('doorbell', 'libdoorbell0'): # found by dpkg-shlibdeps
        for want in (r'libc6 \(>= 2\.', 'zlib1g'):
            if not re.search(want, field(packages[name], 'Depends')):
                yield f'{name} does not depend on {want}'
    symbols = run('dpkg-deb', '-I', packages['libdoorbell0'], 'symbols').stdout
    if ' bell_tensor_release@DOORBELL_0 ' not in symbols:
        yield f'libdoorbell0 has the symbols {symbols[:200]}'


# ---- the root ----

def alternatives(depends):
    """For each dependency, the names that would do."""
    for part in depends.split(','):
        names = [re.sub(r'[ (:].*', '', name.strip())
                 for name in part.split('|')]
        if names[0]:
            yield names


def stanzas():
    """{package: its paragraph of dpkg's list of what is installed}; for a name
    that is provided, the provider's."""
    found, provided = {}, {}
    with open('/var/lib/dpkg/status', encoding='utf-8') as file:
        for text in file.read().split('\n\n'):
            fields = dict(re.findall(r'^(\S+): (.*)', text, re.M))
            if not fields.get('Status', '').endswith(' installed'):
                continue
            found.setdefault(fields['Package'], (text, fields))
            for names in alternatives(fields.get('Provides', '')):
                provided.setdefault(names[0], (text, fields))
    return provided | found


def closure(known, wanted):
    """{package: its paragraph} of all that `wanted` leads to."""
    taken, todo = {}, list(wanted)
    while todo:
        name = todo.pop()
        if name not in known:
            raise LookupError(name)
        text, fields = known[name]
        if fields['Package'] in taken:
            continue
        taken[fields['Package']] = text
        for key in ('Depends', 'Pre-Depends'):
            for names in alternatives(fields.get(key, '')):
                todo.append(next((n for n in names if n in known), names[0]))
    return taken


def make_root(root, packages):
    """Files and dpkg's records of what the packages need, by links to this
    machine's."""
    files = set()
    for name in packages:
        files.update(run('dpkg', '-L', name).stdout.split('\n'))
    tar = subprocess.Popen(
        ['tar', 'c', '--no-recursion', '--ignore-failed-read', '-C', '/',
         '--null', '-T', '-'],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL)
    out = subprocess.Popen(['tar', 'xp', '-C', root], stdin=tar.stdout,
                           stderr=subprocess.DEVNULL)
    # /bin/dash is /usr/bin/dash
    names = {'.' + os.path.join(os.path.realpath(os.path.dirname(name)),
                                os.path.basename(name))
             for name in files
             if name.startswith('/') and os.path.lexists(name)
             and not name.startswith(LEFT_OUT)}
    names = sorted(names | {'./usr/bin/sh'})
    tar.stdin.write('\0'.join(names).encode())
    tar.stdin.close()
    out.wait()
    for folder in ('info', 'updates', 'triggers'):
        os.makedirs(f'{root}/var/lib/dpkg/{folder}', exist_ok=True)
    os.makedirs(f'{root}/tmp', exist_ok=True)
    os.makedirs(f'{root}/dev', exist_ok=True)
    for name in packages: # whose files, and what they do when they are triggered
        for kind in ('list', 'triggers', 'postinst'):
            for full in (name, f'{name}:amd64', f'{name}:arm64'):
                path = f'/var/lib/dpkg/info/{full}.{kind}'
                if os.path.exists(path):
                    shutil.copy(path, root + path)
    with open(f'{root}/var/lib/dpkg/status', 'w', encoding='utf-8') as file:
        file.write(''.join(f'{text}\n\n' for text in packages.values()))


def as_root(*command):
    """Runs as root, or where the caller is not, as root of a name space."""
    if os.geteuid() != 0:
        command = ('unshare', '-r', '-m', *command)
    return run(*command)


def inside(root, script):
    return as_root('chroot', root, '/usr/bin/env', '-i', 'HOME=/tmp',
                   'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'BELL_CACHE=off',
                   '/bin/sh', '-ec', script)


def attempt(tap, name, done, part=''):
    tap.check(name, [] if done.returncode == 0 and part in done.stdout else
              [f'exit code {done.returncode}, "{part}" expected'] +
              done.stdout.split('\n')[-20:])
    return done.returncode == 0


def check_root(tap, packages):
    known = stanzas()
    with tempfile.TemporaryDirectory() as root:
        needed = [next((n for n in names if n in known), names[0])
                  for path in packages.values()
                  for names in alternatives(field(path, 'Depends'))
                  if names[0] not in NAMES]
        try:
            make_root(root, closure(known, [*needed, *BASE, *TO_BUILD]))
        except LookupError as error:
            tap.skip('in a root of its own', f'{error} is not installed here')
            return
        if inside(root, 'true').returncode:
            tap.skip('in a root of its own', 'chroot is not allowed here')
            return
        if not attempt(tap, 'installing', as_root(
                'dpkg', f'--root={root}', '-i', *packages.values())):
            return
        attempt(tap, 'training', inside(root, 'doorbell demo mnist --steps 10'),
                'loss')
        shutil.copy(os.path.join(SOURCE, 'examples/first.c'), f'{root}/tmp')
        with open(os.path.join(SOURCE, 'examples/first.txt'),
                  encoding='utf-8') as file:
            attempt(tap, 'a program', inside(
                root, 'cd /tmp; gcc -std=c11 first.c -o first '
                '$(pkg-config --cflags --libs doorbell); '
                'BELL_DEVICE=CPU ./first'), file.read())
        if 'python3-doorbell' in NAMES: # no compiler is found there
            attempt(tap, 'from Python', inside(
                root, 'cd /tmp; PATH=/none exec /usr/bin/python3 -c "'
                'import doorbell as bell, doorbell.hcq as hcq\n'
                "print((bell.arange(4.0) * 2).sum().item())\n"
                "hcq.Device('AMD@sim:gfx1100').close()\""), '12.0')
        attempt(tap, 'removing', as_root('dpkg', f'--root={root}', '-r',
                                         *NAMES))


# ---- of another architecture ----

def check_unpacked(tap, packages):
    """Runs the tool of the packages by the emulator."""
    with tempfile.TemporaryDirectory() as root:
        for path in packages.values():
            run('dpkg-deb', '-x', path, root)
        command = [*WRAPPER, '-E',
                   f'LD_LIBRARY_PATH={root}/usr/lib/{MULTIARCH[ARCH]}',
                   f'{root}/usr/bin/doorbell']
        environment = {'PATH': os.environ['PATH'], 'HOME': root,
                       'BELL_CACHE': 'off'}

        def attempt_tool(name, *arguments, part):
            attempt(tap, name, run(*command, *arguments, env=environment), part)

        attempt_tool('devices', 'devices', part='CPU')
        for device in ('CPU', 'NV@sim:sm_90', 'AMD@sim:gfx1100',
                       'QCOM@sim:a740'):
            attempt_tool(f'eval on {device}', 'eval', 'ones([2,3]).sum()',
                         '--device', device, part='6')


def main():
    for program in ('dh', 'dpkg-architecture', 'meson', 'unshare', 'chroot'):
        if shutil.which(program) is None:
            print(f'1..0 # SKIP no {program} here')
            sys.exit(77)
    tap = Tap()
    with tempfile.TemporaryDirectory() as root:
        packages = build_packages(root)
        if isinstance(packages, str):
            tap.check('./package', packages.split('\n')[-40:])
        else:
            tap.check('./package', list(contents_complaints(packages)))
            (check_unpacked if WRAPPER else check_root)(tap, packages)
    tap.finish()


if __name__ == '__main__':
    main()
