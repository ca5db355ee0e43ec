#!/usr/bin/env python3
"""The dump form of simulated AMD cards: folders, and what is in them.

usage: test_dump.py DOORBELL DUMP_REPLAY
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

from cli import Tap, expect, run, schema_complaints

REPLAY = sys.argv[2]
UNITS = {'pm4': 4, 'sdma': 1, 'aql': 64}


def read(path, offset, size):
    with open(path, 'rb') as file:
        file.seek(offset)
        return file.read(size)


def load(folder):
    with open(os.path.join(folder, 'image.json'), encoding='utf-8') as file:
        return json.load(file)


def numbers(entry, *names):
    return [f'{name} is {entry.get(name)!r}' for name in names
            if type(entry.get(name)) is not int or entry[name] < 0]


def check_shape(folder, chip):
    """Complaints about one folder's image.json and the files' sizes."""
    image = load(folder)
    bad = [] if image['gfx'] == chip else [f'gfx {image["gfx"]}']
    offset, va = 0, 0
    for segment in image['segments']:
        bad += numbers(segment, 'va', 'size', 'offset')
        if segment['kind'] not in ('vram', 'gtt', 'doorbell'):
            bad.append(f'kind {segment["kind"]}')
        if segment['offset'] != offset or segment['va'] < va:
            bad.append(f'a segment out of order: {segment}')
        offset += segment['size']
        va = segment['va'] + segment['size']
    for name in ('image.bin', 'after.bin'):
        if os.path.getsize(os.path.join(folder, name)) != offset:
            bad.append(f'{name} has not {offset} bytes')
    for entry in image['ignore']:
        bad += numbers(entry, 'va', 'size')
    if len(image['queues']) != 1:
        bad.append('queues')
    for queue in image['queues']:
        bad += numbers(queue, 'base', 'size', 'rptr', 'wptr')
        if queue['kind'] not in UNITS or queue['rptr'] > queue['wptr']:
            bad.append(f'queue {queue}')
    return [f'{folder}: {text}' for text in bad]


def offset_of(image, va):
    for segment in image['segments']:
        if segment['va'] <= va < segment['va'] + segment['size']:
            return segment['offset'] + va - segment['va']
    return None


def ring(folder):
    """The bytes from rptr to wptr, as they were before."""
    image = load(folder)
    queue = image['queues'][0]
    unit, base = UNITS[queue['kind']], offset_of(image, queue['base'])
    path = os.path.join(folder, 'image.bin')
    data = read(path, base, queue['size'])
    first, last = queue['rptr'] * unit, queue['wptr'] * unit
    if last - first > queue['size']:
        return b''
    return bytes(data[i % queue['size']] for i in range(first, last))


def check_decode(folder, chip):
    kind = load(folder)['queues'][0]['kind']
    with tempfile.NamedTemporaryFile(suffix='.bin') as file:
        data = ring(folder)
        if not data:
            return [f'{folder}: nothing was submitted']
        file.write(data)
        file.flush()
        return expect(run('decode', '--format', kind, '--arch', chip,
                          file.name), 0)


def check_replay(folder, chip):
    image = load(folder)
    lines = [f'segment {s["va"]} {s["size"]} {s["offset"]}\n'
             for s in image['segments']]
    lines += [f'ignore {s["va"]} {s["size"]}\n' for s in image['ignore']]
    lines += [f'queue {q["kind"]} {q["base"]} {q["size"]} {q["rptr"]} '
              f'{q["wptr"]}\n' for q in image['queues']]
    done = subprocess.run([REPLAY, chip, folder], input=''.join(lines),
                          capture_output=True, text=True, timeout=120,
                          check=False)
    return [f'{folder}: {text}' for text in expect(done, 0)]


def changed(folder):
    """Addresses of the pages that differ, and whether any byte does."""
    image, pages = load(folder), set()
    for segment in image['segments']:
        before, after = (read(os.path.join(folder, name), segment['offset'],
                              segment['size'])
                         for name in ('image.bin', 'after.bin'))
        if before == after:
            continue
        pages |= {segment['va'] + at for at in range(0, len(before), 4096)
                  if before[at:at + 4096] != after[at:at + 4096]}
    return pages


def folders(path):
    return [os.path.join(path, name) for name in sorted(os.listdir(path))]


def check_all(tap, name, path, chip):
    """Everything that holds of every folder; returns them."""
    found = folders(path)
    tap.check(f'{name}: numbered from 0', [
        f for i, f in enumerate(found) if os.path.basename(f) != f'{i:06}'] + (
            [] if found else ['no folder']))
    tap.check(f'{name}: the form', sum(
        (check_shape(f, chip) for f in found), []))
    tap.check(f'{name}: rings decode', sum(
        (check_decode(f, chip) for f in found), []))
    alone = [f for f in found if 'waited' not in load(f)]
    done = run('decode', path, '--json')
    complaints = expect(done, 0) or schema_complaints('decode', done.stdout)
    if not complaints:
        lines = json.loads(done.stdout)['lines']
        rings = [line for line in lines if ' ring at ' in line]
        launches = [line for line in lines if 'DISPATCH' in line]
        if len(rings) != len(found) or not launches:
            complaints.append(f'{len(rings)} rings, {len(launches)} launches')
    tap.check(f'{name}: decode follows what rings point to', complaints)
    tap.check(f'{name}: {len(alone)} of {len(found)} run again, with the same '
              'result', sum((check_replay(f, chip) for f in alone
                             if 'fault' not in load(f)), []) + (
                                 [] if alone else ['all have waited']))
    tap.check(f'{name}: little changes', [
        f'{f}: {len(changed(f))} pages' for f in found
        if not 0 < len(changed(f)) < 256])
    return found


def check_eval(tap, folder, chip):
    path = os.path.join(folder, 'eval of ' + chip)
    device = f'AMD@sim:{chip},dump={path}'
    done = run('eval', 'sum(arange(1000) * 2.0)', '--device', device)
    tap.check(f'{chip}: eval', expect(done, 0, out='999000'))
    first = check_all(tap, f'{chip}, eval', path, chip)
    done = run('eval', 'sum(arange(1000) * 2.0)', '--device', device)
    tap.check(f'{chip}: numbers go on', expect(done, 0, out='999000') + [
        f'{len(folders(path))} folders, then {len(first)}'
        for _ in [0] if len(folders(path)) != 2 * len(first)])


def check_fuzz(tap, folder, chip):
    path = os.path.join(folder, 'fuzz' + chip)
    done = run('fuzz', f'AMD@sim:{chip},dump={path}', '--programs', '3',
               '--seed', '1')
    tap.check(f'{chip}: fuzz', expect(done, 0, out='0 mismatches'))
    check_all(tap, f'{chip}, fuzz', path, chip)


def check_cards(tap, folder):
    path = os.path.join(folder, 'two')
    done = run('eval', '1 + arange(3)', '--device',
               f'AMD:1@sim:gfx942*2,kfd=1.14,dump={path}')
    tap.check('two cards', expect(done, 0) + sum(
        (check_shape(f, 'gfx942') for f in folders(path)), []))


def check_bad_folders(tap, folder, good):
    """What is no dump, or no whole one, is told by its file's name."""
    document = load(good)
    document['queues'][0]['base'] = 64
    for name, image, size, part in (
            ('nothing', None, 0, 'no image.json'),
            ('no JSON', '{', 0, 'image.json: no JSON'),
            ('no dump', '[]', 0, 'no dump of a chip'),
            ('no chip', '{"gfx": "gfx1", "segments": [], "queues": []}', 0,
             'no dump of a chip'),
            ('a ring elsewhere', json.dumps(document), 0,
             'its ring is not in the image'),
            ('a short image', json.dumps(load(good)), 8, 'image.bin: ends')):
        path = os.path.join(folder, name)
        os.mkdir(path)
        if image is not None:
            with open(path + '/image.json', 'w', encoding='utf-8') as file:
                file.write(image)
            with open(path + '/image.bin', 'wb') as file:
                file.write(bytes(size))
        tap.check(f'decode: {name}', expect(run('decode', path), 1, err=part))
    n = 1 << 14  # words, the same ones again and again
    for name, words, n_queues, code, out, err in (
            ('a buffer that names itself',
             struct.pack('<4I', 0xc0023f00, 0x10000, 0, n) * (n // 4), 1,
             0, '0x10000: as above', ''),
            ('too many words', struct.pack('<I', 0xc0001000 | n - 2 << 16) +
             bytes(4 * n - 4), 300, 1, '', 'more than 4194304 words')):
        path = os.path.join(folder, name)
        os.mkdir(path)
        with open(path + '/image.bin', 'wb') as file:
            file.write(words)
        with open(path + '/image.json', 'w', encoding='utf-8') as file:
            json.dump({'gfx': 'gfx1100',
                       'segments': [{'va': 0x10000, 'size': 4 * n, 'offset': 0,
                                     'kind': 'gtt'}],
                       'queues': [{'kind': 'pm4', 'base': 0x10000,
                                   'size': 4 * n, 'rptr': 0, 'wptr': n}] *
                       n_queues}, file)
        tap.check(f'decode: {name}', expect(run('decode', path), code, out=out,
                                            err=err))
    tap.check('decode: options of a file', expect(
        run('decode', good, '--format', 'pm4'), 2, err='says itself'))


def check_errors(tap, folder):
    def refused(path, part):
        done = run('eval', '1 + arange(3)', '--device',
                   f'AMD@sim:gfx1100,dump={path}')
        return expect(done, done.returncode or 1, err=part)

    tap.check('nothing above it', refused(
        os.path.join(folder, 'no', 'such'), "no/such': No such file"))
    file = os.path.join(folder, 'file')
    with open(file, 'w', encoding='utf-8'):
        pass
    tap.check('a file in its place', refused(file, f"'{file}'"))
    tap.check('no directory', refused('', 'dump='))
    tap.check('two directories', refused('a,dump=b', 'dump='))
    tap.check('too long a name', refused(
        os.path.join(folder, 'x' * 300), 'too long'))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for chip in ('gfx90a', 'gfx942', 'gfx1030', 'gfx1100', 'gfx1201'):
            check_eval(tap, folder, chip)
        for chip in ('gfx1100', 'gfx942'):
            check_fuzz(tap, folder, chip)
        check_cards(tap, folder)
        check_bad_folders(tap, folder, os.path.join(
            folder, next(n for n in sorted(os.listdir(folder))
                         if os.path.isdir(os.path.join(folder, n, '000000'))),
            '000000'))
        check_errors(tap, folder)
    tap.finish()


if __name__ == '__main__':
    main()
