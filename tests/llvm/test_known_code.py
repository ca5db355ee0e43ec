#!/usr/bin/env python3
"""Code that LLVM made is found again, and is the same; what is damaged is made
anew; a library that is not there is told.

usage: test_known_code.py DOORBELL known_code.so
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'integration'))
from cli import Tap, expect, run  # noqa: E402  pylint: disable=wrong-import-position

KNOWN = os.path.abspath(sys.argv[2])
EXPRESSIONS = ('softmax(x, -1)', 'x @ x + 1')
DEVICES = ('CPU@null:x86-64-v3', 'AMD@null:mi300x', 'AMD@null:gfx1201')


def emit(form, **environment):
    """What the code generator makes: form asm, or, of llvm, the passes."""
    text = ''
    for device in DEVICES:
        for expression in EXPRESSIONS:
            done = run('kernel', expression, '--in', 'x=64x64', '--device',
                       device, '--emit', form, **environment)
            if done.returncode != 0:
                return done.stderr
            text += done.stdout
    return text


def files(folder):
    return {name: open(os.path.join(folder, name), 'rb').read()
            for name in os.listdir(folder)}


def main():
    tap = Tap()
    os.environ.pop('BELL_KNOWN_CODE', None)
    os.environ.pop('BELL_LLVM', None)
    plain = emit('asm')
    passes = emit('llvm')
    tap.check('code', [] if 's_endpgm' in plain and 'ymm' in plain
              else [plain[:500]])
    with tempfile.TemporaryDirectory() as folder:
        known = {'BELL_LLVM': KNOWN, 'BELL_KNOWN_CODE': folder}
        tap.check('IR', [] if emit('llvm', **known) == passes else ['differs'])
        tap.check('code that is not known',
                  [] if emit('asm', **known) == plain else ['differs'])
        kept = files(folder)
        tap.check('a file for each', [] if len(kept) >= 6 else [str(len(kept))])
        tap.check('code that is known',
                  [] if emit('asm', **known) == plain else ['differs'])
        tap.check('no file more', [] if files(folder) == kept else ['others'])
        # what is found is what is given
        for name, data in kept.items():
            with open(os.path.join(folder, name), 'wb') as file:
                file.write(data[:-1] + b'#')
        tap.check('it is read', [] if emit('asm', **known) != plain
                  else ['LLVM was asked'])
        # another key under this name, and files that are cut off
        for i, (name, data) in enumerate(kept.items()):
            other = bytes([data[8] ^ 1])
            with open(os.path.join(folder, name), 'wb') as file:
                file.write(data[:8] + other + data[9:] if i % 2 else data[:9])
        tap.check('damaged files', [] if emit('asm', **known) == plain
                  else ['differs'])
        tap.check('they are made anew',
                  [] if files(folder) == kept else ['others'])
        known['BELL_KNOWN_CODE'] = folder + '/none'
        tap.check('no folder', [] if emit('asm', **known) == plain
                  else ['differs'])
    tap.check('no such library', expect(
        run('eval', '1 + 1', '--device', 'CPU', BELL_LLVM='/nowhere/LLVM.so'),
        6, err='/nowhere/LLVM.so: cannot open shared object file: No such file '
               'or directory; BELL_LLVM names this file'))
    tap.check('not LLVM', expect(
        run('eval', '1 + 1', '--device', 'CPU', BELL_LLVM=sys.argv[1]),
        1, err='LLVM'))
    if shutil.which('llvm-config-19'):
        where = subprocess.run(['llvm-config-19', '--libdir'],
                               capture_output=True, text=True,
                               check=True).stdout.strip()
        tap.check('the library by its name', expect(
            run('eval', '1 + 1', '--device', 'CPU',
                BELL_LLVM=where + '/libLLVM-19.so'), 0, out='2'))
    tap.finish()


if __name__ == '__main__':
    main()
