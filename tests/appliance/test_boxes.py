#!/usr/bin/env python3
"""docs/how-to/boxes.md, followed: the runner under rules of services, with the
calls that are listed alone, in an empty root, and as an initramfs.

usage: test_boxes.py RUNNER CONFINE PAGE LINKED OLDER --cc COMPILER
                     [--signatures]
LINKED has code that is not copied, OLDER is a bundle of an earlier version.
"""
import argparse
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'structure'))
from common import Tap  # noqa: E402

RULES = (('mdwe',), ('mprotect',), ('mdwe', 'memfd'), ('mprotect', 'memfd'))
NO_RULE = 77
NO_MEMFD = 'refuses executable memory (MemoryDenyWriteExecute) and memfd_create'
NAMESPACES = ['unshare', '--user', '--map-root-user', '--mount', '--pid',
              '--fork']


class Box:
    """The runner, bundles and an input in a folder."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.input = os.path.join(folder, 'x.npy')
        self.out = os.path.join(folder, 'y.bin')
        head = ("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 8), }"
                .ljust(117) + '\n')
        with open(self.input, 'wb') as file:
            file.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) +
                       head.encode() + struct.pack(
                           '<32f', *[(i % 7 - 3) / 4 for i in range(32)]))

    def run(self, bundle, rules=(), more=(), shape=None):
        """The output's bytes, or None, and what was said."""
        if os.path.exists(self.out):
            os.remove(self.out)
        command = [self.options.runner, bundle, '--device', 'CPU', '--in',
                   f'x={shape or self.input}', '--out', f'out={self.out}', *more]
        if rules:
            command = [self.options.confine, *rules, '--', *command]
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=60, check=False)
        if done.returncode:
            return done.returncode, None, done.stderr
        with open(self.out, 'rb') as file:
            return 0, file.read(), done.stderr


def blocks(page, kind):
    """What stands in the page's blocks of that kind."""
    return re.findall(rf'^```{re.escape(kind)}\n(.*?)^```$', page,
                      re.MULTILINE | re.DOTALL)


def check_rules(tap, box):
    want = {b: box.run(b)[1] for b in (box.options.linked, box.options.older)}
    tap.check('both bundles run', [name for name, out in want.items()
                                   if not out])
    for rules in RULES:
        for bundle, out in want.items():
            name = f'{os.path.basename(bundle)}: {" ".join(rules)}'
            code, got, said = box.run(bundle, rules)
            if code == NO_RULE:
                tap.skip(name, said.strip())
            elif bundle == box.options.older and 'memfd' in rules:
                tap.check(f'{name}, is told', [
                    f'{code}: {said}'] * (code == 0 or NO_MEMFD not in said))
            else:
                tap.check(name, [said] * (code != 0) +
                          ['other numbers'] * (code == 0 and got != out))


def key_options(box, bundle):
    """--key, with a key that signs the bundle; nothing where none can be
    made."""
    if not box.options.signatures or not shutil.which('openssl'):
        return ()
    key, public = (os.path.join(box.folder, name) for name in ('key', 'pem'))
    for args in (('genpkey', '-algorithm', 'ed25519', '-out', key),
                 ('pkey', '-in', key, '-pubout', '-out', public),
                 ('pkeyutl', '-sign', '-rawin', '-inkey', key, '-in', bundle,
                  '-out', bundle + '.sig')):
        subprocess.run(['openssl', *args], check=True, capture_output=True)
    return (('--key', public),)


def check_calls(tap, box, page):
    path = os.path.join(box.folder, 'calls')
    names = blocks(page, 'calls')[0].split()
    tap.check('the calls are in order', [
        f'{a} before {b}' for a, b in zip(names, names[1:]) if a >= b])
    with open(path, 'w', encoding='utf-8') as file:
        file.write('\n'.join(names) + '\n')
    code, _, said = box.run(box.options.linked, ('mprotect', path), (), '4x8')
    if code != NO_RULE:
        tap.check('a shape, calls as listed', [f'{code}: {said}'] * (code != 0))
    for bundle in (box.options.linked, box.options.older):
        want = box.run(bundle)[1]
        for more in ((), ('--times', '3'), *key_options(box, bundle)):
            with open(path, 'w', encoding='utf-8') as file:
                file.write('\n'.join(names) + '\n')
            code, got, said = box.run(bundle, ('mprotect', path), more)
            tap.check(f'{os.path.basename(bundle)}, calls as listed '
                      f'{" ".join(more)}', [f'{code}: {said}'] * (code != 0) +
                      ['other numbers'] * (code == 0 and got != want))
    with open(path, 'w', encoding='utf-8') as file:
        file.write('\n'.join(n for n in names if n != 'mmap') + '\n')
    tap.check('a call that is not listed ends it', [
        'it ran'] * (box.run(box.options.linked, (path,))[0] == 0))


def check_serve(tap, box, page):
    """A server, with its calls alone: requests, then the end."""
    path, calls = (os.path.join(box.folder, name) for name in ('sock', 'calls'))
    added = blocks(page, 'calls serve')[0].split()
    tap.check('the calls of a server are in order', [
        f'{a} before {b}' for a, b in zip(added, added[1:]) if a >= b])
    with open(calls, 'w', encoding='utf-8') as file:
        file.write('\n'.join(blocks(page, 'calls')[0].split() + added) + '\n')
    with socket.socket(socket.AF_UNIX) as left:  # one that nobody listens to
        left.bind(path)
    x = struct.pack('<32f', *[(i % 7 - 3) / 4 for i in range(32)])
    want = box.run(box.options.linked)[1]
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(path + '.notify')
    manager.settimeout(60)
    with subprocess.Popen(
            [box.options.confine, 'mprotect', calls, '--', box.options.runner,
             '--serve', path, f'm={box.options.linked}', '--device', 'CPU'],
            env=dict(os.environ, NOTIFY_SOCKET=path + '.notify'),
            stderr=subprocess.PIPE) as process, manager:
        try:
            said = manager.recv(64)
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(60)
                client.connect(path)
                stream = client.makefile('rwb')
                got = []
                for line, data in (('run m x:128', x), ('health', b''),
                                   ('run m x:1', b'1'), ('run m', b'')):
                    stream.write(line.encode() + b'\n' + data)
                    stream.flush()
                    got.append(stream.readline())
                    if got[-1].startswith(b'ok out:'):
                        got.append(stream.read(len(want)))
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
        except OSError as reason:
            said, got = b'', [repr(reason)]
        process.kill()
        told = process.stderr.read().decode()
    tap.check('a server, calls as listed', [
        f'{said} {got}: {process.returncode}: {told}'] * (
            said != b'READY=1' or process.returncode != 0 or
            [got[i] for i in (1, -1)] != [want, want]))


def has_namespaces():
    try:
        return subprocess.run([*NAMESPACES, 'true'], capture_output=True,
                              check=False).returncode == 0
    except OSError:
        return False


def check_root(tap, box):
    """An empty root that is read-only."""
    root = os.path.join(box.folder, 'root')
    os.mkdir(root)
    shutil.copy(box.options.runner, os.path.join(root, 'run'))
    shutil.copy(box.options.linked, os.path.join(root, 'f.bundle'))
    shutil.copy(box.input, os.path.join(root, 'x.npy'))
    args = ['/f.bundle', '--device', 'CPU', '--in', 'x=/x.npy']
    plain = subprocess.run([box.options.runner, box.options.linked, *args[1:3],
                            '--in', f'x={box.input}'], capture_output=True,
                           text=True, timeout=60, check=False)
    done = subprocess.run(
        [*NAMESPACES, 'sh', '-c',
         'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && '
         'exec chroot "$0" /run "$@"', root, *args],
        capture_output=True, text=True, timeout=60, check=False)
    tap.check('an empty, read-only root without /proc', [
        f'{done.returncode}: {done.stderr}'] * (done.returncode != 0) +
        [f'{done.stdout} for {plain.stdout}'] * (
            done.stdout != plain.stdout or 'out float32' not in plain.stdout))


def members(tool, name):
    """The calls of one of systemd's sets."""
    if not name.startswith('@'):
        return {name}
    shown = subprocess.run([tool, 'syscall-filter', name], capture_output=True,
                           text=True, check=False).stdout
    words = [line.strip() for line in shown.splitlines()[1:]]
    return set().union(*(members(tool, word) for word in words
                         if word and not word.startswith('#')))


def check_unit(tap, box, page):
    """As far as systemd checks a unit without running it."""
    tool = shutil.which('systemd-analyze')
    if not tool:
        tap.skip('the unit', 'no systemd-analyze')
        return
    unit = blocks(page, 'ini model.service')[0]
    path = os.path.join(box.folder, 'model.service')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(unit.replace('/usr/bin/doorbell-run', box.options.runner))
    done = subprocess.run([tool, 'verify', '--man=no', path],
                          capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines()
            if 'model.service' in line]
    tap.check('systemd takes the unit', said)
    allowed = set()
    for line in re.findall(r'^SystemCallFilter=(~?)(.*)$', unit, re.MULTILINE):
        names = set().union(*(members(tool, word) for word in line[1].split()))
        allowed = allowed - names if line[0] else allowed | names
    lacks = set(blocks(page, 'calls')[0].split()) - allowed
    tap.check('the unit lets the calls through', [
        f'{lacks}'] * (lacks != {'memfd_create'}))


def check_initramfs(tap, box, page):
    if not shutil.which('cpio'):
        tap.skip('the initramfs', 'no cpio')
        return
    folder = os.path.join(box.folder, 'initramfs')
    os.mkdir(folder)
    with open(os.path.join(folder, 'init.c'), 'w', encoding='utf-8') as file:
        file.write(blocks(page, 'c init.c')[0])
    shutil.copy(box.options.runner, os.path.join(folder, 'doorbell-run'))
    shutil.copy(box.options.linked, os.path.join(folder, 'model.bundle'))
    shutil.copy(box.input, folder)
    recipe = blocks(page, 'sh initramfs')[0].replace(
        'cc -static', f'{box.options.cc} -static')
    made = subprocess.run(['sh', '-ec', recipe], cwd=folder,
                          capture_output=True, text=True, check=False)
    unpacked = os.path.join(folder, 'unpacked')
    os.mkdir(unpacked)
    done = subprocess.run(
        [*NAMESPACES, 'sh', '-ec',
         'gzip -dc ../initramfs.gz | cpio --quiet -i && exec chroot . /init'],
        cwd=unpacked, capture_output=True, text=True, timeout=60, check=False)
    tap.check('the initramfs runs the model as process 1', [made.stderr] * (
        made.returncode != 0) + [done.stdout + done.stderr] * (
            'out float32 (4, 8)' not in done.stdout or
            'the model ended with 0' not in done.stdout))


def main():
    parser = argparse.ArgumentParser()
    for name in ('runner', 'confine', 'page', 'linked', 'older'):
        parser.add_argument(name)
    parser.add_argument('--cc', required=True)
    parser.add_argument('--signatures', action='store_true')
    options = parser.parse_args()
    for name in ('runner', 'confine', 'linked', 'older'):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    with open(options.page, encoding='utf-8') as file:
        page = file.read()
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for name in ('linked', 'older'):  # signatures go beside them
            setattr(options, name, shutil.copy(getattr(options, name), folder))
        box = Box(options, folder)
        check_rules(tap, box)
        if os.uname().machine == 'x86_64':
            check_calls(tap, box, page)
            check_serve(tap, box, page)
        else:
            tap.skip('the calls', 'they are those of x86-64')
        if has_namespaces():
            check_root(tap, box)
            check_initramfs(tap, box, page)
        else:
            tap.skip('an empty root, the initramfs', 'unshare makes none here')
        check_unit(tap, box, page)
    tap.finish()


if __name__ == '__main__':
    main()
