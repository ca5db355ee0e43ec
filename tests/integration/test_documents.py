#!/usr/bin/env python3
"""Every verb's document: as docs/schemas says, and the same as its text, on the
CPU and on simulated cards; what is wrong with a device has a code of its own.
(bench, burn, profile, devices, doctor, top and step have tests of their own.)

usage: test_documents.py DOORBELL [--sim]
"""
import json
import os
import re
import struct
import sys
import tempfile

from cli import Tap, expect, run, schema_complaints

DEVICES = ['CPU'] + ['NV@sim:sm_90', 'AMD@sim:gfx1100'] * ('--sim' in sys.argv)
PRODUCT = ('(x @ x).sum()', '--in', 'x=32x32')


def write_input(folder):
    path = os.path.join(folder, 'x.npy')
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }"
    with open(path, 'wb') as file:
        file.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', 118) +
                   (head.ljust(117) + '\n').encode() +
                   struct.pack('<8f', *range(8)))
    return path


def document(schema, *args, code=0, **environment):
    """(its content, complaints)"""
    done = run(*args, '--json', **environment)
    complaints = expect(done, code) + schema_complaints(schema, done.stdout)
    return (json.loads(done.stdout) if not complaints else {}), complaints


def text_has(parts, *args, code=0):
    """Complaints where a run's text lacks what its document has."""
    done = run(*args)
    return expect(done, code) + [
        f'text lacks {part!r}: {done.stdout[:300]}' for part in parts
        if str(part) not in done.stdout]


def check_device(tap, device, folder):
    x = write_input(folder)
    where = ('--device', device)
    got, complaints = document('eval', 'eval', 'x * 2 + 1', '--in', f'x={x}',
                               *where)
    complaints += [f'{got}' for _ in [0] if not complaints and got['values'] !=
                   [1, 3, 5, 7, 9, 11, 13, 15]]
    complaints += text_has(['1', '15'], 'eval', 'x * 2 + 1', '--in', f'x={x}',
                           *where)
    tap.check(f'eval on {device}', complaints)

    got, complaints = document('kernel', 'kernel', *PRODUCT, '--runs', '2',
                               *where)
    if not complaints:
        complaints += text_has(
            [f'{got["n_kernels_compiled"]} kernels in {got["n_launches"]} '
             f'launches'], 'kernel', *PRODUCT, '--runs', '2', *where)
    tap.check(f'kernel on {device}', complaints)

    fuzz = ('fuzz', device, '--programs', '2', '--seed', '3')
    got, complaints = document('fuzz', *fuzz)
    if not complaints:
        complaints += text_has(
            [f'{got["mismatches"]} mismatches'], *fuzz)
    tap.check(f'fuzz on {device}', complaints)

    bundle = os.path.join(folder, 'b.bundle')
    complaints = expect(run('eval', 'x * 2 + 1', '--in', f'x={x}', '--save',
                            bundle, *where), 0)
    got, more = document('run', 'run', bundle, '--in', f'x={x}', *where)
    tap.check(f'run on {device}', complaints + more + [
        f'{got}' for _ in [0] if got and [v['name'] for v in got['values']
                                          if v['kind'] == 'input'] != ['x']])

    got, complaints = document('run', 'run', bundle, '--list')
    if not complaints:
        backend = device.split('@', maxsplit=1)[0].split(':')[0]
        complaints += text_has(
            [f'version {got["version"]}, {got["file_bytes"]} bytes',
             f'target  {backend} {got["targets"][0]["arch"]}',
             'input   x float32 (', 'output  out float32 ('],
            'run', bundle, '--list') + expect(
                run('run', bundle, '--list', *where), 2, err='--list takes no')
    with open(bundle, 'rb') as file:
        whole = file.read()
    for n in 0, 100, len(whole) - 1:
        with open(bundle + '.cut', 'wb') as file:
            file.write(whole[:n])
        complaints += expect(run('run', bundle + '.cut', '--list'), 1,
                             err='b.bundle.cut: ')
    tap.check(f'run --list of a bundle for {device}', complaints)

    selftest = ('selftest', device, '--only', 'copy-4k')
    got, complaints = document('selftest', *selftest)
    if not complaints:
        complaints += text_has(
            [f'{got["n_passed"]} passed, {got["n_failed"]} failed, '
             f'{got["n_skipped"]} skipped'], *selftest)
    tap.check(f'selftest on {device}', complaints)

    got, complaints = document('tune', 'tune', *PRODUCT, '--seconds', '0.1',
                               *where, BELL_CACHE=folder)
    tap.check(f'tune on {device}', complaints + [
        f'{got}' for _ in [0] if got and not got['kernels']])

    got, complaints = document('demo', 'demo', 'mnist', '--steps', '1',
                               '--batch', '16', *where)
    tap.check(f'demo on {device}', complaints + [
        f'{got}' for _ in [0] if got and got['n_steps'] != 1])


def check_others(tap, folder):
    words = os.path.join(folder, 'words')
    with open(words, 'w', encoding='utf-8') as file:
        file.write('20012000 cbc0 200120b0 a\n')
    decode = ('decode', '--format', 'nv', words)
    got, complaints = document('decode', *decode)
    if not complaints and run(*decode).stdout.splitlines() != got['lines']:
        complaints.append('text has other lines')
    tap.check('decode', complaints)
    for what in ('show', 'clear', 'show'):
        got, complaints = document('cache', 'cache', what,
                                   BELL_CACHE=os.path.join(folder, 'c'))
        tap.check(f'cache {what}', complaints)
    tap.check('cache that is off', document('cache', 'cache', 'show')[1])
    tap.check('eval --list', document('eval', 'eval', '--list')[1])
    got, complaints = document('eval', 'eval', '1 + 1', '--save',
                               os.path.join(folder, 'sum.bundle'))
    tap.check('eval --save', complaints + [
        f'{got}' for _ in [0] if got and not os.path.exists(got['saved'])])
    tap.check('selftest --list', document('selftest', 'selftest', 'CPU',
                                          '--list')[1])
    if '--sim' not in sys.argv:
        return
    tap.check('kernel --stats', document(
        'kernel', 'kernel', *PRODUCT, '--stats', '--device',
        'NV@sim:sm_90')[1])
    tap.check('kernel for a product', document(
        'kernel', 'kernel', *PRODUCT, '--device', 'NV@null:h100')[1])
    check_traces(tap, folder)


def check_traces(tap, folder):
    paths = [os.path.join(folder, name) for name in ('a.cas', 'b.cas')]
    complaints = []
    for path, chip in zip(paths, ('sm_90', 'sm_80')):
        complaints += expect(run('eval', 'x + 1', '--in',
                                 f'x={write_input(folder)}', '--device',
                                 f'NV@record:{path}@sim:{chip}'), 0)
    got, more = document('trace', 'trace', 'show', paths[0])
    if not more:
        text = run('trace', 'show', paths[0]).stdout
        more += [f'text lacks {r["text"]}' for r in got['records']
                 if r['text'] not in text]
        more += [f'text lacks {line}' for r in got['records']
                 for line in r['decoded'] if line not in text]
        more += [f'text lacks {w}' for w in (
            f'objects: {len(got["objects"])}\n',
            f'mappings: {len(got["mappings"])}\n',
            *(f'0x{o["id"]:x} {o["what"]}' for o in got['objects']),
            *(f'0x{m["address"]:x}, {m["bytes"]} bytes'
              for m in got['mappings'])) if w not in text]
        more += [f'{thing} stayed' for thing in
                 got['objects'] + got['mappings'] if thing['gone'] is None]
        more += [f'no {w}' for w in ('HOPPER_CHANNEL_GPFIFO_A',
                                     'HOPPER_COMPUTE_A', 'HOPPER_USERMODE_A')
                 if w not in [o['what'] for o in got['objects']]]
        more += ['no bytes were submitted' for _ in [0] if not any(
            region['kind'] == 'push' and region['bytes']
            for r in got['records'] for region in r['regions'])]
    tap.check('trace show', complaints + more)
    got, more = document('trace', 'trace', 'diff', *paths, code=1)
    if not more:
        done = run('trace', 'diff', *paths)
        more += expect(done, 1) + [
            'text has other lines' for _ in [0]
            if done.stdout.splitlines() != got['differences'] + [
                f'{got["n_differences"]} differences']]
    tap.check('trace diff', more)
    got, more = document('trace', 'trace', 'diff', paths[0], paths[0])
    tap.check('trace diff of one', more + [
        f'{got}' for _ in [0] if got and got['n_differences']])
    tap.check('trace replay', document('trace', 'trace', 'replay',
                                       paths[0])[1])


def check_errors(tap):
    """A device that is not plugged in, one that nobody knows, and one whose
    node may not be opened."""
    takes_device = (('eval', '1', '--device'), ('kernel', '1', '--device'),
                    ('fuzz',), ('selftest',), ('bench',), ('burn',), ('top',),
                    ('devices',), ('demo', 'mnist', '--device'),
                    ('tune', '1', '--device'))
    devices = [('NV:77', 'nv', 3), ('XY:0', "'XY'", 3),
               ('NV@sim:sm_7', 'sm_7', 3), ('CPU:9', 'CPU', 3)]
    if '--sim' in sys.argv:
        devices += [
            ('NV@fault:open=EACCES@sim:sm_90', '/dev/nvidiactl', 4),
            ('AMD@fault:open=EACCES@sim:gfx1100', '/dev/kfd', 4)]
    for device, part, code in devices:
        complaints = []
        for args in takes_device:
            once = ('--once',) if args == ('top',) else ()
            done = run(*args, device, *once, '--json')
            found = expect(done, code) + schema_complaints('error',
                                                           done.stdout)
            if not found:
                error = json.loads(done.stdout)['error']
                found += [f'{error}' for _ in [0]
                          if error['exit_code'] != code or
                          part.lower() not in error['message'].lower()]
            complaints += [f'{args[0]}: {c}' for c in found]
        tap.check(f'{device}: its code and a sentence', complaints)
    for args, code in ((('eval', 'y'), 1), (('eval', '1', '--in', 'x'), 2),
                       (('run', '/none'), 1), (('trace', 'show', '/none'), 1),
                       (('nothing',), 2), (('step', 'CPU', 'x'), 6),
                       (('profile', '/none'), 1)):
        n = 2 if args[0] == 'trace' else 1
        done = run(*args[:n], '--json', *args[n:])
        tap.check(f'{" ".join(args)}: an error', expect(done, code) +
                  schema_complaints('error', done.stdout))
    missing = [
        verb for verb in re.findall(r'^  (\S+)', run('-h').stdout,
                                    re.MULTILINE)
        if not os.path.exists(os.path.join(
            os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs',
            'schemas', verb + '.json'))]
    tap.check('each verb has a schema', [
        verb for verb in missing if verb != 'sim'])  # whose program prints


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for device in DEVICES:
            check_device(tap, device, folder)
        check_others(tap, folder)
    check_errors(tap)
    tap.finish()


if __name__ == '__main__':
    main()
