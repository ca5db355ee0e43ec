#!/usr/bin/env python3
"""`doorbell trace`: records programs that talk to files in place of device
nodes, and shows, compares and replays the cassettes.

usage: test_trace.py DOORBELL TRACE_PROGRAM
"""
import json
import os
import sys
import tempfile

from cli import Tap, expect, run

PROGRAM = sys.argv[2]


def make_nodes(folder):
    os.mkdir(os.path.join(folder, 'dev'))
    for name in ('kfd', 'nvidiactl', 'nvidia0'):
        with open(os.path.join(folder, 'dev', name), 'wb') as file:
            file.truncate(0x10000)


def record(folder, name, *args):
    path = os.path.join(folder, name)
    done = run('trace', 'record', '-o', path, '--', *args,
               BELL_RECORD_PREFIX=folder)
    return path, done


def texts(path):
    done = run('trace', 'show', '--json', path)
    complaints = expect(done, 0)
    document = {} if complaints else json.loads(done.stdout)
    return document, [r['text'] for r in document.get('records', [])]


def missing(lines, *wanted):
    return [f'no record with {w}' for w in wanted
            if not any(all(part in line for part in w) for line in lines)]


# Python's ctypes has a handle of its own on the C library.
BY_HANDLE = '''
import ctypes, os
libc = ctypes.CDLL('libc.so.6')
libc.mmap.restype = ctypes.c_void_p
fd = os.open(os.environ['BELL_RECORD_PREFIX'] + '/dev/nvidia0', os.O_RDWR)
args = (ctypes.c_uint32 * 4)()
libc.ioctl(fd, 0xc00446c9, args)
print(libc.mmap(None, ctypes.c_size_t(12288), 3, 1, fd, ctypes.c_long(0)) > 0)
'''


def check_handle(tap, folder):
    path, done = record(folder, 'handle', sys.executable, '-c', BY_HANDLE)
    tap.check("calls past the C library's names", expect(
        done, 0, out='True') + missing(
            texts(path)[1], ('NV_ESC_REGISTER_FD', ''),
            ('mmap', '12288 bytes')))


# A slow machine's program waits more often.
WAITING = '''
import fcntl, os, sys
fd = os.open(os.environ['BELL_RECORD_PREFIX'] + '/dev/kfd', os.O_RDWR)
for request in [0xc0184b0c] * int(sys.argv[1]) + [0x80084b01]:
    try:
        fcntl.ioctl(fd, request, bytearray(24))
    except OSError:
        pass
'''


def check_waits(tap, folder):
    few, done = record(folder, 'few', sys.executable, '-c', WAITING, '1')
    many, again = record(folder, 'many', sys.executable, '-c', WAITING, '40')
    waits = [sum('AMDKFD_IOC_WAIT_EVENTS' in line for line in texts(path)[1])
             for path in (few, many)]
    tap.check('how often a program waits is no difference',
              expect(done, 0) + expect(again, 0) + expect(
                  run('trace', 'diff', few, many), 0, out='0 differences\n') +
              [f'{waits} waits' for _ in [0] if waits != [1, 40]])


def check_whole(tap, folder):
    path, done = record(folder, 'whole', PROGRAM)
    tap.check('the program ends as without the recorder', expect(done, 0))
    document, lines = texts(path)
    tap.check('calls are recorded with their arguments', missing(
        lines, ('open', '/dev/nvidiactl'), ('open', '/dev/nvidia9', '= -2'),
        ('NV_ESC_RM_ALLOC', 'HOPPER_CHANNEL_GPFIFO_A', 'gpFifoEntries=8'),
        ('mmap', '65536 bytes'), ('munmap', '65536 bytes')))
    tap.check('the ring, what it submits and the launch are there', missing(
        lines, ('sample', 'ring@0x200000000+8', 'push@0x200001000+16',
                'descriptor@0x200002000+384', 'control@')))
    records = document.get('records', [])
    n_free = sum('NV_ESC_RM_FREE' in line for line in lines)
    tap.check('every thread and process is there', [
        c for c in ([f'{n_free} frees'] if n_free != 401 else []) +
        (['one process'] if len({r['pid'] for r in records}) < 2 else []) +
        (['few threads'] if len({r['tid'] for r in records}) < 8 else [])])
    words = run('trace', 'show', '--words', path)
    tap.check('words of the submission', expect(words, 0) + [
        f'no {w}' for w in ('200120ad', 'abcd1234') if w not in words.stdout])
    shown = run('trace', 'show', path)
    tap.check('submissions are decoded', expect(shown, 0) + [
        f'no {w}' for w in ('GP_ENTRY GET=0x200001000 LENGTH=4',
                            'SEND_PCAS_A = 02000020 {QMD_ADDRESS=0x200002000}',
                            'QMD 4, 96 words') if w not in shown.stdout])
    brief = run('trace', 'show', '--brief', path)
    tap.check('unless briefly', expect(brief, 0) + [
        c for c in ['decoded'] if 'GP_ENTRY' in brief.stdout])
    same = run('trace', 'diff', path, path)
    tap.check('a cassette is like itself', expect(same, 0))
    other, done = record(folder, 'other', PROGRAM, '--again')
    identity = texts(other)[0].get('identity', '')
    tap.check('the identity has the command with its arguments', [
        c for c in [identity] if f'command={PROGRAM} --again\n' not in c])
    differ = run('trace', 'diff', path, other)
    tap.check('two that differ', expect(done, 0) + expect(differ, 1) + [
        c for c in ['nothing printed'] if 'NV_ESC_RM_ALLOC'
        not in differ.stdout])
    replay = run('trace', 'replay', other)
    tap.check('replays on itself', expect(replay, 0) + [
        c for c in [replay.stdout] if ' 0 differences' not in c])


def check_cut(tap, folder, path):
    """Files whose end is missing, and some with more than an end."""
    with open(path, 'rb') as file:
        data = file.read()
    for n in len(data) // 2, len(data) - 1:
        cut = os.path.join(folder, 'cut')
        with open(cut, 'wb') as file:
            file.write(data[:n])
        message = f'{cut} is truncated: '
        for verb in ['replay', cut], ['diff', cut, cut], ['diff', path, cut]:
            done, as_json = (run('trace', *verb, *more)
                             for more in ((), ('--json',)))
            tap.check(f'{verb[0]} says that {n} bytes are not all', expect(
                done, done.returncode, err=message) + expect(
                    as_json, done.returncode, out='"truncated": true'))
    more = os.path.join(folder, 'more')
    with open(more, 'wb') as file:
        file.write(data + b'x')
    for verb in ['show', more], ['replay', more], ['diff', path, more]:
        tap.check(f'{verb[0]}: bytes behind the end', expect(
            run('trace', *verb), 1, err='bytes behind the end'))
    tap.check('what is whole is not called truncated', expect(
        run('trace', 'replay', path, '--json'), 0, out='"truncated": false'))


def check_against(tap, path):
    for other, code, message in (
            ('CPU', 2, 'neither a cassette nor a device'),
            ('AMD@sim:gfx1100', 2, 'the recorded calls are those of NV@'),
            ('NV@sim:none', 3, 'none')):
        done = run('trace', 'replay', path, '--against', other)
        tap.check(f'replay against {other}', expect(
            done, code, err=message) + [
                done.stdout for _ in [0] if done.stdout])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        make_nodes(folder)
        check_whole(tap, folder)
        path, done = record(folder, 'plain', PROGRAM, '--plain')
        tap.check('a program that opens nothing', expect(done, 0) + [
            f'has {line}' for line in texts(path)[1]])
        path, done = record(folder, 'crash', PROGRAM, '--crash')
        tap.check('one that dies keeps what it did', expect(done, 1) + missing(
            texts(path)[1], ('sample', 'push@0x200001000+16')))
        check_handle(tap, folder)
        check_cut(tap, folder, os.path.join(folder, 'other'))
        check_against(tap, os.path.join(folder, 'handle'))
        check_waits(tap, folder)
        path, done = record(folder, 'close', PROGRAM, '--close')
        tap.check('one that closes all files', expect(done, 0) + missing(
            texts(path)[1], ('open', '/dev/nvidiactl')))
        path, done = record(folder, 'shell', '/bin/sh', '-c',
                            'echo hello; ls / >/dev/null; exit 3')
        tap.check('a shell with children', expect(done, 1) + [
            c for c in [done.stdout] if c != 'hello\n'])
        done = run('trace', 'record', '-o', path)
        tap.check('no program named', expect(done, 2))
        done = run('trace', 'show', os.path.join(folder, 'absent'))
        tap.check('no such cassette', expect(done, 1))
        done = run('trace', 'show', PROGRAM)
        tap.check('what is no cassette', expect(done, 1))
        done = run('trace', 'shwo')
        tap.check('no such part', expect(done, 2))
    tap.finish()


if __name__ == '__main__':
    main()
