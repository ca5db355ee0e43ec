#!/usr/bin/env python3
"""Kernels kept on disk, by whole programs: the second one compiles nothing.

usage: test_cache.py DOORBELL [--sim] [--kept]
    --sim: there are simulated cards   --kept: built with sqlite3
ROUNDS=N in the environment: so many rounds of programs that are killed.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

from cli import DOORBELL, Tap, expect, expect_json_error, run

DEVICES = ['CPU'] + (['NV@sim:sm_90', 'AMD@sim:gfx942']
                     if '--sim' in sys.argv else [])
X = 'sin(arange(0, 2500, 1).float() / 100).reshape(50, 50)'
EXPRESSIONS = [f.format(x=X) for f in (
    'relu({x} @ {x})', 'softmax({x}, 1)', '{x}.sum() / 3', 'cos({x}) + {x}.T',
    '{x} @ {x} @ {x}', '{x}.amax(1) - {x}', '({x} * {x}).mean(0)')]


def ask(verb, cache):
    done = run('cache', verb, '--json', BELL_CACHE=cache)
    return json.loads(done.stdout), expect(done, 0)


def train(cache, device, **environment):
    done = run('demo', 'mnist', '--json', '--steps', '2', '--batch', '16',
               '--device', device, BELL_CACHE=cache, **environment)
    complaints = expect(done, 0)
    return ({} if complaints else json.loads(done.stdout)), complaints


def check_demo(tap, cache, device):
    first, complaints = train(cache, device)
    if not complaints and first['n_kernels_found']:
        complaints.append(f'{first["n_kernels_found"]} found in nothing')
    again, more = train(cache, device)
    complaints += more
    if not complaints:
        if again['n_kernels_compiled'] or again['lower_ms']:
            complaints.append(f'{again["n_kernels_compiled"]} compiled again')
        if again['n_kernels_found'] != first['n_kernels_compiled']:
            complaints.append(f'{again["n_kernels_found"]} found of '
                              f'{first["n_kernels_compiled"]}')
        for key in ('loss', 'test_accuracy', 'n_launches'):
            if again[key] != first[key]:
                complaints.append(f'{key}: {again[key]}, not {first[key]}')
    tap.check(f'the second demo on {device} compiles nothing', complaints)
    # what code follows from is part of the key
    other, complaints = train(cache, device, **(
        {'BELL_NOOPT': '1'} if device == 'CPU' else {'BELL_MATH': 'approx'}))
    if not complaints and other['n_kernels_found']:
        complaints.append('kernels are found that were made otherwise')
    tap.check(f'{device}: others are compiled otherwise', complaints)


def loads_llvm(cache):
    done = run('eval', EXPRESSIONS[0], '--device', 'CPU', BELL_CACHE=cache,
               LD_DEBUG='files')
    return 'libLLVM' in done.stderr, expect(done, 0)


def check_library(tap, cache):
    loads_llvm(cache)
    loads, complaints = loads_llvm(cache)
    if loads:
        complaints.append('LLVM is loaded for kernels that are there')
    tap.check('what is found needs no LLVM', complaints)


def check_verb(tap, cache):
    shown, complaints = ask('show', cache)
    if not complaints:
        if not shown['is_on'] or shown['folder'] != os.path.realpath(cache):
            complaints.append(f'{shown}')
        if not 0 < shown['size_bytes'] <= shown['file_bytes'] < 2**23:
            complaints.append(f'{shown["size_bytes"]} of '
                              f'{shown["file_bytes"]} bytes')
        if sum(t['n'] for t in shown['targets']) != shown['n']:
            complaints.append('targets do not add up')
    tap.check('show', complaints)
    tap.check('show, as text', expect(
        run('cache', 'show', BELL_CACHE=cache), 0, out='values'))
    cleared, complaints = ask('clear', cache)
    if not complaints and not (cleared['cleared'] and
                               cleared['n'] == shown['n']):
        complaints.append(f'{cleared}')
    empty, more = ask('show', cache)
    if not more and empty['n']:
        more.append(f'{empty["n"]} left')
    tap.check('clear', complaints + more)
    off, complaints = ask('show', 'off')
    if not complaints and (off['is_on'] or 'BELL_CACHE' not in off['why_off']):
        complaints.append(f'{off}')
    tap.check('off', complaints)
    tap.check('no such thing', expect_json_error(
        run('cache', 'list', '--json'), 2, 'show, or clear'))


def check_debug(tap, cache):
    """Who asks to see a kernel being compiled sees it."""
    complaints = []
    for _ in range(2):
        done = run('eval', 'arange(0, 7, 1) + 1', '--device', 'CPU',
                   BELL_CACHE=cache, BELL_DEBUG='opt')
        complaints += expect(done, 0, err='opt: E_7:')
    tap.check('BELL_DEBUG=opt compiles again', complaints)
    run('kernel', 'x + 1', '--in', 'x=9', BELL_CACHE=cache + '/other')
    tap.check('the verb kernel keeps nothing', [] if not os.path.exists(
        cache + '/other') else ['it made a folder'])


def damage(path):
    """Turns bits over, all through the file."""
    with open(path, 'r+b') as file:
        data = bytearray(file.read())
        for at in range(0, len(data), 97):
            data[at] ^= 1 << at % 8
        file.seek(0)
        file.write(data)


def check_damage(tap, cache):
    first, complaints = train(cache, 'CPU')
    damage(cache + '/kernels-1.db')
    done = run('demo', 'mnist', '--steps', '2', '--batch', '16', '--json',
               '--device', 'CPU', BELL_CACHE=cache)
    complaints += expect(done, 0, err='damaged')
    if done.stderr.count('cache:') != 1:
        complaints.append(f'told {done.stderr.count("cache:")} times')
    if not complaints and json.loads(done.stdout)['loss'] != first['loss']:
        complaints.append('another result')
    tap.check('a damaged file is told once, and made anew', complaints)
    train(cache, 'CPU')
    again, complaints = train(cache, 'CPU')
    if not complaints and again['n_kernels_compiled']:
        complaints.append(f'{again["n_kernels_compiled"]} compiled')
    tap.check('then it is whole again', complaints)


def read_all(file):
    with file:
        file.seek(0)
        return file.read()


def check_killed(tap, cache):
    """20 programs at once on one cache; each is killed or gets to its end. In
    each fourth round one of them clears it, so that all is written again."""
    rounds = int(os.environ.get('ROUNDS', '3'))
    rng = random.Random(1)
    complaints, n_ended = [], 0
    command = [DOORBELL, 'eval', '--json', '--device', 'CPU']
    expected = {}
    for expression in EXPRESSIONS:
        done = subprocess.run(command + [expression], capture_output=True,
                              check=False, env=dict(os.environ,
                                                    BELL_CACHE='off'))
        if done.returncode:
            complaints += [expression] + done.stderr.decode().splitlines()
        expected[expression] = done.stdout
    environment = dict(os.environ, BELL_CACHE=cache)
    for number in range(rounds if not complaints else 0):
        asked = [rng.choice(EXPRESSIONS) for _ in range(20)]
        if number % 4 == 3:
            asked[rng.randrange(20)] = 'clear'
        programs = []
        for what in asked:
            seconds = rng.choice([rng.uniform(0, 0.3), 300])
            # files: nobody reads a pipe while a program runs
            files = tempfile.TemporaryFile(), tempfile.TemporaryFile()
            programs.append((seconds, time.monotonic(), what, files,
                             subprocess.Popen(
                                 [DOORBELL, 'cache', 'clear']
                                 if what == 'clear' else command + [what],
                                 env=environment, stdout=files[0],
                                 stderr=files[1])))
        for seconds, start, what, files, program in sorted(
                programs, key=lambda p: p[:2]):
            try:
                program.wait(max(0, start + seconds - time.monotonic()))
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()
            out, err = (read_all(file) for file in files)
            if program.returncode == -9:
                if seconds == 300:
                    complaints.append(f'{what}: not done in {seconds} s')
                continue
            n_ended += 1
            if program.returncode or err or out != expected.get(what, out):
                complaints += [f'{what}: {program.returncode}',
                               err.decode()[:300]]
    print(f'# {rounds} rounds of 20 programs: {n_ended} ended by themselves')
    for expression in EXPRESSIONS if not complaints else []:
        done = subprocess.run(command + [expression], capture_output=True,
                              env=environment, check=False)
        if done.stdout != expected[expression] or done.stderr:
            complaints += [f'then {expression}: {done.returncode}',
                           done.stderr.decode()[:300]]
    tap.check('programs that are killed leave nothing wrong', complaints)


def main():
    tap = Tap()
    if '--kept' not in sys.argv:
        done = run('cache', 'show')
        tap.check('a build without it says so', expect(
            done, 0, out='off: built without sqlite3'))
        tap.skip('kernels kept on disk', 'built without sqlite3')
        tap.finish()
    with tempfile.TemporaryDirectory() as root:
        for device in DEVICES:
            check_demo(tap, f'{root}/demo', device)
        check_library(tap, f'{root}/demo')
        check_verb(tap, f'{root}/demo')
        check_debug(tap, f'{root}/debug')
        check_damage(tap, f'{root}/damage')
        check_killed(tap, f'{root}/killed')
    tap.finish()


if __name__ == '__main__':
    main()
