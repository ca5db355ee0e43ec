#!/usr/bin/env python3
"""`doorbell fuzz`: finds nothing on the CPU, repeats itself, and its programs
are C that compiles and says the same.

usage: test_fuzz.py DOORBELL [--few] [--sim] [--compile COMMAND...]
       test_fuzz.py DOORBELL --device DEVICE PROGRAMS SEED
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from cli import Tap, expect, expect_json_error, run


def check_runs(tap, programs):
    done = run('fuzz', 'CPU', '--programs', str(programs), '--seed', '7')
    tap.check(f'{programs} programs', expect(
        done, 0, out=f'{programs} programs (') + (
            [] if done.stdout.rstrip().endswith(': 0 mismatches')
            else [done.stdout]))
    # a kernel that needs its last buffer no more, and a number behind that
    done = run('fuzz', 'CPU', '--programs', '1', '--seed', '131', '--index',
               '142', '--jit')
    tap.check('captured, a buffer that is not read', expect(
        done, 0, out=': 0 mismatches'))
    done = run('fuzz', 'CPU', '--programs', '600', '--grad', '--json')
    complaints = expect(done, 0)
    if not complaints:
        result = json.loads(done.stdout)
        if result['mismatches'] != 0 or result['programs'] != 600 or \
                result['differentiable'] < 140 or \
                result['differentiable_checked'] != result['differentiable']:
            complaints.append(f'{result}')
    tap.check('the gradient of every differentiable call', complaints)
    results = []
    for _ in range(2):
        done = run('fuzz', 'CPU', '--programs', '10', '--seed', '3', '--json')
        result = json.loads(done.stdout)
        result.pop('time_s')
        results.append(result)
    tap.check('the same again', [] if results[0] == results[1] else [
        f'{results}'])


def check_symbols(tap, device, programs):
    """Sizes of symbols: one plan, the reference's results, the same bits."""
    done = run('fuzz', device, '--programs', str(programs), '--symbols',
               '--seed', '11', '--json')
    complaints = expect(done, 0)
    if not complaints:
        result = json.loads(done.stdout)
        if result['mismatches'] != 0 or result['programs'] != programs or \
                result['sized'] < 1 or \
                (programs >= 20 and # of few programs there may be one
                 (result['sized'] < programs / 2 or
                  result['to_the_bit'] < programs / 5)) or \
                result['unplanned'] > programs / 10:
            complaints += [f'{result}', done.stderr]
    tap.check(f'{programs} programs with symbols on {device}', complaints)


def check_each(tap, few):
    """Every function of the table, alone: odd sizes, empty ones, broadcast."""
    done = run('fuzz', 'CPU', '--each', '--json',
               *(('--programs', '40', '--index', '180') if few else ()))
    complaints = expect(done, 0)
    if not complaints:
        result = json.loads(done.stdout)
        calls = 40 if few else 271
        if result['mismatches'] != 0 or result['programs'] < calls or \
                result['odd'] < 0.85 * calls or \
                result['empty'] < 0.85 * calls or result['broadcast'] < 1:
            complaints.append(f'{result}')
        if 'fewer than three' in done.stderr:
            complaints.append(done.stderr)
        if not few and (result['calls_differ'] != 0 or
                        result['defined'] < 169 or
                        result['undefined'] > 120 or
                        result['points'] < 1000000):
            complaints.append(f'{result}')
    tap.check('every function, with shapes of every kind, and those that have '
              'a definition as it says', complaints)


def check_memory(tap, few):
    """What a call says when an allocation of it fails: of every function where
    leaks are seen, in builds with sanitizers."""
    done = run('fuzz', 'CPU', '--each', '--failing-memory',
               *(() if few else ('--function', 'layer_norm')))
    tap.check('every function while memory runs out', expect(
        done, 0, out=': 0 calls differ'))
    tap.check('--failing-memory alone', expect(
        run('fuzz', 'CPU', '--failing-memory'), 2, err='needs --each'))
    tap.check('--failing-memory with --dump', expect(
        run('fuzz', 'CPU', '--each', '--failing-memory', '--dump',
            '/dev/null'), 2, err='no results'))


def check_dump(tap):
    """The oracle's calls, for other programs that judge them."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'calls.jsonl')
        complaints = expect(run('fuzz', 'CPU', '--each', '--function', 'div',
                                '--dump', path), 0)
        with open(path, encoding='utf-8') as file:
            calls = [json.loads(line) for line in file]
        trunc = [call for call in calls
                 if call['args'].get('rounding_mode') == 'trunc' and
                 call['leaves'][0]['dtype'] == 'float32']
        if len(calls) < 40 or len(trunc) != 1:
            complaints.append(f'{len(calls)} calls, {len(trunc)} of trunc')
        else:
            call, n = trunc[0], trunc[0]['leaves'][0]['shape'][0]
            x, y = (t['bytes'] for t in call['leaves'])
            # an infinity by 2: 0x7f800000 and 0x40000000, lowest byte first
            k = [k for k in range(n) if x[8 * k:8 * k + 8] == '0000807f' and
                 y[8 * k:8 * k + 8] == '00000040'][0]
            if call['function'] != 'div' or \
                    call['args']['input'] != {'leaf': 0} or \
                    call['results'][0]['bytes'][8 * k:8 * k + 8] != \
                    '0000807f' or call['gradients'][0]['of'] != [0, 1] or \
                    call['gradients'][0]['values'][1]['shape'] != [n]:
                complaints.append(str(call)[:1000])
        tap.check('--dump', complaints)
        tap.check('--dump to a folder', expect(
            run('fuzz', 'CPU', '--each', '--dump', folder), 1, err=folder))
    tap.check('--dump without --each', expect(
        run('fuzz', 'CPU', '--dump', 'x'), 2, err='--each'))


def check_device(tap, device, programs, seed):
    done = run('fuzz', device, '--programs', str(programs), '--seed',
               str(seed))
    tap.check(f'{programs} programs on {device}', expect(
        done, 0, out=f'{programs} programs (') + (
            [] if done.stdout.rstrip().endswith(': 0 mismatches')
            else [done.stdout]))


def check_simulated(tap, few):
    """Programs on simulated cards agree with the reference."""
    for device, programs, seed in (('NV@sim:sm_90', 300, 1),
                                   ('NV@sim:sm_80', 60, 2),
                                   ('NV@sim:sm_120', 60, 3),
                                   ('NV@sim:sm_89', 40, 9),
                                   ('AMD@sim:gfx1100', 60, 4),
                                   ('AMD@sim:gfx942', 60, 5),
                                   ('AMD@sim:gfx90a', 40, 6),
                                   ('AMD@sim:gfx1030', 40, 7),
                                   ('AMD@sim:gfx1201', 40, 8),
                                   ('QCOM@sim:a740', 40, 10),
                                   ('QCOM@sim:a750-msm', 40, 11)):
        check_device(tap, device, 20 if few else programs, seed)
    for name in ('fft', 'rfft', 'irfft', 'stft'):
        done = run('fuzz', 'QCOM@sim:a740', '--each', '--function', name)
        tap.check(f'{name} without float64', expect(
            done, 0, out='(0 refused)') + expect(
                done, 0, out=': 0 calls differ'))


FLOATS = {'float16': (10, 5), 'bfloat16': (7, 8), 'float32': (23, 8),
          'float64': (52, 11)}  # bits of fraction, of exponent


def check_leaves(tap):
    """One leaf of floats in six has numbers at which arithmetic is fragile."""
    n_all = 0
    n_with = dict.fromkeys(('-0', 'subnormal', 'smallest', 'largest'), 0)
    for index in range(100):
        done = run('fuzz', 'CPU', '--print', '--seed', '4', '--index',
                   str(index))
        for dtype, words in re.findall(r' d\d+\[\] = \{ /\* (\w+) \*/(.*?)\}',
                                       done.stdout, re.DOTALL):
            if dtype not in FLOATS:
                continue
            fraction, exponent = FLOATS[dtype]
            numbers = [int(word, 16) for word in re.findall(r'0x\w+', words)]
            if len(numbers) < 40:
                continue
            sign = 1 << (fraction + exponent)
            sizes = {number & (sign - 1) for number in numbers}
            infinity = ((1 << exponent) - 1) << fraction
            n_all += 1
            n_with['-0'] += sign in numbers
            n_with['subnormal'] += any(0 < size < 1 << fraction
                                       for size in sizes)
            n_with['smallest'] += 1 in sizes or 1 << fraction in sizes
            n_with['largest'] += infinity - 1 in sizes
    tap.check('leaves of zeros, subnormals and borders', [] if n_all and all(
        n > n_all / 12 for n in n_with.values()) else [f'{n_with} of {n_all}'])


def check_refusals(tap):
    tap.check('no such device', expect(run('fuzz', 'NV:9'), 3, err='NV'))
    tap.check('no such device, --json', expect_json_error(
        run('fuzz', 'NV:9', '--json'), 3, 'NV'))
    tap.check('--programs 0', expect(
        run('fuzz', 'CPU', '--programs', '0'), 2, err='--programs'))
    tap.check('--max-ops 99', expect(
        run('fuzz', 'CPU', '--max-ops', '99'), 2, err='--max-ops'))


def check_programs_in_c(tap, compiler):
    """Compiles what --print prints and runs it. The compiler may be several
    words (a cache and a compiler), up to the first option."""
    at = next(i for i, word in enumerate(compiler) if word.startswith('-'))
    with tempfile.TemporaryDirectory() as folder:
        for index in range(0, 40, 2):
            more = ('--symbols',) if index % 8 == 4 else ()
            name = ' '.join((f'program {index} as C', *more))
            done = run('fuzz', 'CPU', '--print', '--index', str(index), *more)
            complaints = expect(done, 0, out='int\nmain(void)')
            source = os.path.join(folder, f'p{index}.c')
            program = source[:-2]
            with open(source, 'w', encoding='utf-8') as file:
                file.write(done.stdout)
            if not complaints:
                built = subprocess.run(
                    [*compiler[:at], source, *compiler[at:], '-lm', '-o',
                     program], capture_output=True, text=True, check=False)
                complaints += built.stderr.splitlines()[:20]
            if not complaints:
                ran = subprocess.run([program], capture_output=True, text=True,
                                     check=False)
                if ran.returncode != 0 or 'device' not in ran.stdout:
                    complaints += [ran.stdout, ran.stderr]
            tap.check(name, complaints)


def main():
    tap = Tap()
    args = sys.argv[2:]
    if args[:1] == ['--device']:
        check_device(tap, *args[1:])
        tap.finish()
        return
    check_runs(tap, 40 if '--few' in args else 300)
    check_symbols(tap, 'CPU', 20 if '--few' in args else 100)
    check_each(tap, '--few' in args)
    check_memory(tap, '--few' in args)
    check_leaves(tap)
    check_refusals(tap)
    check_dump(tap)
    if '--sim' in args:
        check_simulated(tap, '--few' in args)
        for device in ('NV@sim:sm_90', 'AMD@sim:gfx1100', 'AMD@sim:gfx942',
                       'QCOM@sim:a740'):
            check_symbols(tap, device, 5 if '--few' in args else 20)
    else:
        tap.skip('simulated cards', 'built without them')
    if '--compile' in args:
        check_programs_in_c(tap, args[args.index('--compile') + 1:])
    else:
        tap.skip('programs as C', 'built with sanitizers')
    tap.finish()


if __name__ == '__main__':
    main()
