#!/usr/bin/env python3
"""Bundles that stay loaded and answer requests, over stdin and stdout and over
a socket; bad requests, clients that leave, signals, systemd's messages.

usage: test_serve.py PROGRAM PAGE COMPILER [--sim]
PROGRAM is doorbell or doorbell-run; PAGE is docs/how-to/serving.md, whose clients and
unit are tried; --sim: a run that is given up, on a
simulated card.
"""
import concurrent.futures
import contextlib
import ctypes
import os
import platform
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'structure'))
from common import Tap  # noqa: E402

PROGRAM, PAGE, COMPILER = sys.argv[1:4]
VERB = ['run'] if os.path.basename(PROGRAM) == 'doorbell' else []
X = struct.pack('<2f', 1.5, -2.0)
FIRST = struct.pack('<2f', 7.0, 8.0)
LONG = 60  # seconds that nothing takes
BIG = 2**20  # elements: more than a socket holds
GRID = (1024, 256, 256)  # what a simulated card needs hours for


def checksum(data):
    mask, odd = 2**64 - 1, 0x9e3779b97f4a7c15
    lanes, total = [1, 2, 3, 4], len(data)
    for i in range(0, len(data), 32):
        words = struct.unpack('<4Q', data[i:i + 32].ljust(32, b'\0'))
        for k, word in enumerate(words):
            lanes[k] = (lanes[k] ^ word) * odd & mask
            lanes[k] ^= lanes[k] >> 32
    for lane in lanes:
        total = (total ^ lane) * odd & mask
        total ^= total >> 32
    return total


def seal(data, sections):
    """The file with its checksums; sections: (offset, bytes) of each."""
    data = bytearray(data)
    for number, (at, size) in enumerate(sections):
        struct.pack_into('<3Q', data, 32 + 24 * number, at, size,
                         checksum(bytes(data[at:at + size])))
    head = 32 + 24 * len(sections)
    struct.pack_into('<Q', data, 24, 0)
    struct.pack_into('<Q', data, 24, checksum(bytes(data[:head])))
    return bytes(data)


def delay_bundle(backend, machine, n_elems=2, out='y'):
    """y = what x was at the run before: a state holds it. n is a symbol that
    nothing asks for. docs/reference/bundle-format.md, version 3; no kernels."""
    names, n_bytes = b'\0', 4 * n_elems

    def name(text):
        nonlocal names
        names += text.encode() + b'\0'
        return len(names) - len(text) - 1

    none = 2**64 - 1
    values = b''
    for text, kind, dtype, shape, size, place in (
            ('x', 0, 12, (n_elems,), n_bytes, none),
            (out, 1, 12, (n_elems,), n_bytes, none),
            ('last', 2, 12, (n_elems,), n_bytes, 0), ('n', 4, 8, (), 8, none)):
        sizes = shape + (0,) * (8 - len(shape)) if kind != 4 else (
            1, 9, 0, 0, 0, 0, 0, 0)
        values += struct.pack('<4I8Q2Q', name(text), kind, dtype, len(shape),
                              *sizes, size, place)
    target = struct.pack('<10IQ', name(backend), name(machine), 0,
                         name('a test'), 0, 0, 0, 0, 2, 0, 0)
    commands = struct.pack('<8I', 1, 0, 0, 0, 0, 0, 0, 2)
    commands += struct.pack('<8I', 1, 0, 0, 0, 0, 0, 2, 2)
    args = b''.join(struct.pack('<3Ii2Q', 2, value, access, 0, 0, n_bytes)
                    for value, access in ((1, 2), (2, 1), (2, 2), (0, 1)))
    parts = (target, values, b'', commands, args, names, b'',
             FIRST.ljust(n_bytes, b'\0'), b'\0')
    data, sections = bytearray(248), []
    for number, part in enumerate(parts):
        align = 4096 if number in (6, 7) else 64
        data += bytes(-len(data) % align)
        sections.append((len(data), len(part)))
        data += part
    struct.pack_into('<8s2IQ', data, 0, b'\x93BELL\r\n\x1a', 3, 9, len(data))
    return seal(data, sections)


def arch():
    """Of any such processor."""
    return 'x86-64-v1' if platform.machine() == 'x86_64' else 'armv8-a'


def with_grid(bundle, grid):
    """The bundle of one command, whose grid is that."""
    data = bytearray(bundle)
    sections = [struct.unpack_from('<2Q', data, 32 + 24 * i)
                for i in range(8)]
    struct.pack_into('<3I', data, sections[3][0] + 8, *grid)
    return seal(data, sections)


class Peer:
    """A client of a socket or pipe."""

    def __init__(self, write, read):
        self.write, self.read = write, read

    def send(self, line, data=b''):
        self.write.write(line.encode() + b'\n' + data)
        self.write.flush()

    def answer(self):
        """The line, and the bytes behind it."""
        line = self.read.readline()
        if not line.endswith(b'\n'):
            return 'gone', b''
        text = line.decode()[:-1]
        n_bytes = sum(int(word.rsplit(':', 1)[1]) for word in text.split(' ')
                      if text.startswith('ok') and ':' in word)
        return text, self.read.read(n_bytes)

    def ask(self, line, data=b''):
        self.send(line, data)
        return self.answer()


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(LONG)
    s.connect(path)
    return Peer(s.makefile('wb'), s.makefile('rb')), s


@contextlib.contextmanager
def server(where, *args, **environment):
    """The process, when it listens (or is to talk over its pipes)."""
    with subprocess.Popen(
            [PROGRAM, *VERB, '--serve', where, *args], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, **environment)) as process:
        limit = time.monotonic() + LONG
        while where != '-' and process.poll() is None and (
                time.monotonic() < limit):
            with contextlib.suppress(OSError):
                connect(where)[1].close()
                break
            time.sleep(0.01)
        try:
            yield process
        finally:
            process.kill()


def ends(process, code=0, err=''):
    """Complaints unless it ends so."""
    try:
        process.wait(timeout=LONG)
    except subprocess.TimeoutExpired:
        return ['it does not end']
    said = process.stderr.read().decode()
    return [f'{process.returncode}: {said}'] * (
        process.returncode != code or err not in said)


def check_requests(tap, where, peer):
    """x goes in and comes out a run later; what is refused changes nothing."""
    def ask(name, line, data, want, out=b''):
        got = peer.ask(line, data)
        good = got[0].startswith(want) if want.startswith('error') else (
            got[0] == want)
        tap.check(f'{where}: {name}', [f'{got}'] * (not good or got[1] != out))

    ask('not set', 'run d', b'', "error bundle: input 'x' was not set")
    ask('a run', 'run d x:8', X, 'ok y:8', FIRST)
    ask('its state', 'read d last', b'', 'ok last:8', X)
    ask('inputs stay', 'run d', b'', 'ok y:8', X)
    ask('a state', 'run d last:8 x:8', FIRST + X, 'ok y:8', FIRST)
    ask('another bundle', 'run e x:8', X, 'ok y:8', FIRST)
    ask('a symbol', 'run d n=4', b'', 'ok y:8', X)
    ask('a symbol out of bounds', 'run d n=10 x:8', bytes(8),
        "error bundle: 'n' = 10; it goes from 1 to 9")
    for line, data, want in (
            ('', b'', "error the request: it is not 'health'"),
            (' run d', b'', 'error the request: it is not'),
            ('health d', b'', 'error the request: it is not'),
            ('stop', b'', 'error the request: it is not'),
            ('run', b'', "error no bundle ''"),
            ('run f x:8', X, "error no bundle 'f'"),
            ('run d:8', X, "error no bundle 'd'"),
            ('run d y:8', X, "error the bundle has no input or state 'y'"),
            ('run d z:3', b'abc', 'error the bundle has no input or state'),
            ('run d x:7', X[:7], "error 'x' has 7 bytes, expected 8"),
            ('run d x:4294967304:', b'', 'error the request: behind'),
            ('run d x:100000', bytes(100000), "error 'x' has 100000 bytes"),
            ('run d x:8 x:8', X + X, "error 'x' is there twice"),
            ('run d x', b'', "error 'x' is not name:BYTES"),
            ('run d  x:8', X, "error '' is not name:BYTES"),
            ('run d x:', b'', "error the request: behind ':' or '='"),
            ('run d x:-8', b'', "error the request: behind ':' or '='"),
            ('run d x:8x', b'', "error the request: behind ':' or '='"),
            ('run d n=', b'', "error the request: behind ':' or '='"),
            ('run d n=99999999999999999999', b'', 'error the request: behind'),
            ('run d m=1', b'', "error the bundle has no symbol 'm'"),
            ('run d x=1', b'', "error the bundle has no symbol 'x'"),
            ('read d', b'', "error the bundle has no value ''"),
            ('read d n', b'', "error the bundle has no value 'n'"),
            ('read d x y', b'', "error the bundle has no value ''"),
            ('read d x:8', X, "error the request: 'read' takes no bytes"),
            ('x' * 9000, b'', 'error the request: its line is too long'),
            ('run d' + ' x' * 200, b'', 'error the request: it has too many'),
            ('\0\1\377', b'', 'error the request: it is not')):
        ask(f'refuses {line[:20]!r}', line, data, want)
    ask('as if nothing had been', 'run d', b'', 'ok y:8', X)
    line, out = peer.ask('health')
    tap.check(f'{where}: health', [line] * (
        line != 'ok bundles=2 runs=8 failed=2' or out != b''))


def check_garbage(tap, where, peer):
    """Lines of parts of requests: each gets one answer. Bytes behind them are
    as many as they say."""
    rng, parts = random.Random(1), (
        'run', 'read', 'health', 'd', 'e', 'x:8', 'n=3', 'last:8', 'y:8', ':',
        '=', '', 'x:0', 'x:9', 'n=-1', '\t', '\u00e9', 'x=8', 'n:8')
    complaints = []
    for _ in range(300):
        words = [rng.choice(parts) for _ in range(rng.randint(1, 5))]
        n_bytes = sum(int(word.split(':')[1]) for word in words[1:]
                      if word[1:] and ':' in word)
        line, _ = peer.ask(' '.join(words), bytes(n_bytes))
        if not line.startswith(('ok', 'error ')):
            complaints.append(f'{words}: {line}')
            break
    line, _ = peer.ask('health')
    tap.check(f'{where}: garbage', complaints + [line] * (
        not line.startswith('ok bundles=2')))


def check_pipe(tap, bundle):
    both = (f'd={bundle}', f'e={bundle}', '--device', 'CPU')
    with server('-', *both) as process:
        peer = Peer(process.stdin, process.stdout)
        check_requests(tap, 'pipe', peer)
        check_garbage(tap, 'pipe', peer)
        process.stdin.close()
        tap.check('pipe: it ends with its input', ends(process))
    with server('-', *both) as process:
        process.stdin.write(b'run d x:8\nabc')
        process.stdin.close()
        got = process.stdout.read()
        tap.check('pipe: half a request', ends(
            process, 1, 'stdin ends within a request') + [f'{got}'] * (
                got != b'error the request: stdin ends within it\n'))
    with subprocess.Popen(['yes', 'health'], stdout=subprocess.PIPE) as source:
        with subprocess.Popen(
                [PROGRAM, *VERB, '--serve', '-', *both], stdin=source.stdout,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.readline()
            thread = threading.Thread(target=process.stdout.read)
            thread.start()
            process.send_signal(signal.SIGTERM)
            tap.check('pipe: SIGTERM, and no end of requests', ends(process))
            process.kill()
            thread.join()
        source.kill()
    with server('-', *both) as process:
        got = Peer(process.stdin, process.stdout).ask('health')
        process.stdin.write(b'health')
        process.stdin.close()
        tap.check('pipe: half a line', ends(process, 1, 'stdin ends within'))
    with open('/dev/full', 'wb') as full:
        done = subprocess.run(
            [PROGRAM, *VERB, '--serve', '-', *both], input=b'health\n',
            stdout=full, stderr=subprocess.PIPE, check=False, timeout=LONG)
    tap.check('pipe: answers that are lost', [f'{done}'] * (
        done.returncode != 1 or b'cannot write to stdout' not in done.stderr))
    folder = os.open('/', os.O_RDONLY)
    done = subprocess.run(
        [PROGRAM, *VERB, '--serve', '-', *both], check=False, timeout=LONG,
        stdin=folder, capture_output=True)
    os.close(folder)
    tap.check('pipe: stdin is a folder', [f'{done}'] * (
        done.returncode != 1 or b'cannot read stdin' not in done.stderr))
    with server('-', *both) as process:
        Peer(process.stdin, process.stdout).ask('health')
        process.send_signal(signal.SIGTERM)
        tap.check('pipe: SIGTERM', ends(process))


def check_socket(tap, folder, bundle):
    path = os.path.join(folder, 's')
    both = (f'd={bundle}', f'e={bundle}', '--device', 'CPU')
    with server(path, *both) as process:
        peer, one = connect(path)
        check_requests(tap, 'socket', peer)
        other, two = connect(path)
        both_ways = connect(path)
        both_ways[1].sendall(b'health\nread e last\n')
        both_ways[1].shutdown(socket.SHUT_WR)
        got = [both_ways[0].answer()[0] for _ in range(3)]
        tap.check('two requests at once, and no more', [f'{got}'] * (
            got[1:] != ['ok last:8', 'gone']))
        check_garbage(tap, 'socket', other)
        peer.ask('run d x:8', FIRST)
        got = other.ask('run d x:8', X)
        tap.check('clients share the state', [f'{got}'] * (
            got != ('ok y:8', FIRST)))
        peer.send('run d x:8', X)
        other.send('run d x:8', FIRST)
        got = sorted((peer.answer(), other.answer()))
        tap.check('at once: one after the other', [f'{got}'] * (
            [row[1] for row in got] not in ([X, X], [X, FIRST])))
        for name, data in (('half a line', b'run d'), ('nothing', b''),
                           ('half of the bytes', b'run d x:8\nabc'),
                           ('a request, not its answer', b'read d x\n')):
            three = connect(path)[1]
            three.sendall(data)
            three.close()
            line = other.ask('health')[0]
            tap.check(f'a client leaves behind {name}', [line] * (
                not line.startswith('ok ')))
        half = connect(path)[1]
        half.settimeout(LONG)
        half.sendall(b'run d x:8\nabc')
        line = other.ask('health')[0]
        tap.check('a client that stands still is dropped', [line] * (
            not line.startswith('ok ') or half.recv(1) != b''))
        half.close()
        many = [connect(path) for _ in range(40)]
        line = many[-1][0].ask('health')[0]
        tap.check('more clients than there is room for', [line] * (
            not line.startswith('ok ')))
        for peer, s in many:
            s.close()
        with subprocess.Popen([PROGRAM, *VERB, '--serve', path, *both],
                              stderr=subprocess.PIPE) as second:
            tap.check('a second server there', ends(
                second, 1, 'cannot listen: Address'))
        half = connect(path)[1]
        half.sendall(b'run d x:8\nabc')
        process.send_signal(signal.SIGTERM)
        tap.check('SIGTERM, with half a request', ends(process) + [
            'its path is there'] * os.path.exists(path))
        for s in (one, two, half):
            s.close()
    with server(path, *both) as process:
        process.kill()
        process.wait()
        left = os.path.exists(path)
    with server(path, *both) as process:
        line = connect(path)[0].ask('health')[0]
        tap.check('in place of one that was killed', [line] * (
            not left or not line.startswith('ok ')))
        process.send_signal(signal.SIGINT)
        tap.check('SIGINT', ends(process))


class Later:
    """Checks that are printed when others are done."""

    def __init__(self):
        self.rows = []

    def check(self, *row):
        self.rows.append(row)


def trickle(path, stop):
    """A byte of a line now and then, until the server has enough."""
    with contextlib.suppress(OSError), connect(path)[1] as s:
        while not stop.wait(0.1):
            s.sendall(b'h')


def check_slow(tap, folder, big, watchdog):
    """Clients that take their time: others are served, those within the limit
    too, and the manager hears of the server."""
    path = os.path.join(folder, 'slow.socket')
    data = bytes(range(256)) * (BIG // 64)
    stop = threading.Event()
    half = f'run d x:{len(data)}\n'.encode() + data[:-1]
    with contextlib.ExitStack() as stack:
        manager = stack.enter_context(
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        manager.bind(watchdog)
        manager.settimeout(LONG)
        process = stack.enter_context(server(
            path, f'd={big}', '--device', 'CPU', NOTIFY_SOCKET=watchdog,
            WATCHDOG_USEC='100000'))
        thread = threading.Thread(target=trickle, args=(path, stop))
        thread.start()
        stack.callback(thread.join)
        stack.callback(stop.set)
        other, _ = connect(path)
        first, one = connect(path)
        second, _ = connect(path)
        one.sendall(half)
        got = [other.ask('health')[0]]
        second.send(f'run d x:{len(data)}', data)  # and its answer waits
        got.append(other.ask('health')[0])
        told = [manager.recv(64) for _ in range(10)]
        one.sendall(data[-1:])
        answers = [second.answer()[1], first.answer()[1]]
        tap.check('a client that trickles: others are served', [f'{got}'] * (
            [text[:15] for text in got] != ['ok bundles=1 ru'] * 2))
        tap.check('the manager hears of it', [f'{told}'] * (
            told[1:] != [b'WATCHDOG=1'] * 9))
        tap.check('a client that does not read, and one whose request comes in '
                  'parts', ['they were dropped'] * (answers != [
                      FIRST.ljust(len(data), b'\0'), data]))
        thread.join(LONG)
        tap.check('a client that trickles is dropped in the end', [
            'it is not'] * thread.is_alive())
        second.send('run d')
        got = ''
        while 'runs=3' not in got:  # its answer has begun
            got = other.ask('health')[0]
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(OSError):
            while True:  # until it takes no clients
                connect(path)[1].close()
        answer = second.answer()[1]
        tap.check('SIGTERM: an answer that has begun is written', ends(
            process) + [got] * (answer != data))


def obey_modes():
    """A program of root's, too: it is begun without CAP_DAC_OVERRIDE. src:
    capabilities(7), prctl(2): PR_CAPBSET_DROP is 24."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


def check_refused(tap, folder, bundle):
    kept = os.path.join(folder, 'kept')
    with open(kept, 'w', encoding='ascii') as file:
        file.write('text')
    good, locked = f'd={bundle}', os.path.join(folder, 'locked')
    os.mkdir(locked, 0o555)
    for name, args, code, err in (
            ('a file is there', [kept, good], 1, 'cannot listen'),
            ('a file is there: which', [kept, good], 1, 'a file is there'),
            ('a folder is there', [folder, good], 1, 'a folder is there'),
            ('a device is there', ['/dev/full', good], 1, 'is not a socket'),
            ('no permission', [os.path.join(locked, 's'), good], 4,
             'cannot listen: Permission'),
            ('two sockets', ['-', good, '--serve', '-'], 2, 'given twice'),
            ('a long path', [folder + 'x' * 200, good], 1, 'characters'),
            ('no name', ['-', bundle], 1, 'is not name=FILE'),
            ('no file', ['-', 'd='], 1, 'is not name=FILE'),
            ('a blank', ['-', f'a b={bundle}'], 1, 'is not name=FILE'),
            ('two of a name', ['-', good, good], 1, "two bundles 'd'"),
            ('no such bundle', ['-', good, 'e=/nonexistent'], 1, 'nonexist'),
            ('no bundle', ['-'], 2, 'no bundle'),
            ('--list', ['-', good, '--list'], 2, '--serve takes'),
            ('--in', ['-', good, '--in', 'x=y'], 2, '--serve takes')):
        done = subprocess.run(
            [PROGRAM, *VERB, '--serve', *args, '--device', 'CPU'], timeout=LONG,
            capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, preexec_fn=obey_modes)
        tap.check(f'refuses to begin: {name}', [f'{done}'] * (
            done.returncode != code or err not in done.stderr))
    with open(kept, encoding='ascii') as file:
        tap.check('the file stays', ['other'] * (file.read() != 'text'))


def check_notify(tap, folder, bundle):
    path = os.path.join(folder, 'notify')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(LONG)
        with server('-', f'd={bundle}', '--device', 'CPU', NOTIFY_SOCKET=path,
                    WATCHDOG_USEC='100000') as process:
            got = [manager.recv(64) for _ in range(4)]
            process.send_signal(signal.SIGTERM)
            complaints = ends(process)
            manager.settimeout(0)
            with contextlib.suppress(BlockingIOError):
                while got[-1] != b'STOPPING=1':
                    got.append(manager.recv(64))
    tap.check('systemd is told', complaints + [f'{got}'] * (
        got[:4] != [b'READY=1'] + [b'WATCHDOG=1'] * 3 or
        got[-1] != b'STOPPING=1'))


def block(kind):
    """What stands in the page's block of that kind."""
    with open(PAGE, encoding='utf-8') as file:
        return re.search(rf'^```{re.escape(kind)}\n(.*?)^```$', file.read(),
                         re.MULTILINE | re.DOTALL).group(1)


def check_page(tap, folder, bundle):
    """The clients; the unit as far as systemd checks one without running
    it."""
    path, program = (os.path.join(folder, name) for name in ('m', 'client'))
    for name in ('client.py', 'client.c', 'serve.service'):
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
            file.write(block(f'{dict(py="python", c="c").get(name[7:], "ini")} '
                             f'{name}').replace('/usr/bin/doorbell-run',
                                                os.path.abspath(PROGRAM)))
    subprocess.run([*COMPILER.split(), '-D_GNU_SOURCE', '-Wall', '-Werror',
                    program + '.c', '-o', program], check=True)
    with server(path, f'm={bundle}', '--device', 'CPU'):
        for command, out in (
                ([sys.executable, program + '.py'],
                 'ok y:8 7.0 8.0\nok y:8 1.0 2.0\n'),
                ([program], '3 4\n')):
            done = subprocess.run([*command, path], capture_output=True,
                                  text=True, timeout=LONG, check=False)
            tap.check(f'the page: {os.path.basename(command[-1])}', [
                f'{done}'] * (done.returncode != 0 or done.stdout != out))
    with open(bundle + '.out', 'wb') as file:
        file.write(delay_bundle('CPU', arch(), out='out'))
    for name, served, code, out, err in (
            ('an output of another name', f'm={bundle}.out', 0, '7 8\n', ''),
            ('no such model', f'n={bundle}', 1, '', "error no bundle 'm'\n")):
        with server(path + name[0], served, '--device', 'CPU'):
            done = subprocess.run([program, path + name[0]], text=True,
                                  capture_output=True, timeout=LONG,
                                  check=False)
        tap.check(f'the page: client: {name}', [f'{done}'] * (
            (done.returncode, done.stdout, done.stderr) != (code, out, err)))
    tool = shutil.which('systemd-analyze')
    if not tool:
        tap.skip('the unit', 'no systemd-analyze')
        return
    done = subprocess.run([tool, 'verify', '--man=no',
                           os.path.join(folder, 'serve.service')],
                          capture_output=True, text=True, check=False)
    tap.check('systemd takes the unit', [
        line for line in (done.stdout + done.stderr).splitlines()
        if 'serve.service' in line])


def check_given_up(tap, folder):
    """A run that does not end is an error; the device and both bundles work
    again then."""
    slow, delay = (os.path.join(folder, name) for name in ('slow', 'delay'))
    x = os.path.join(folder, 'x.npy')
    subprocess.run([PROGRAM, 'eval', 'zeros([4])', '--device', 'CPU', '--out',
                    x], check=True, capture_output=True)
    subprocess.run([PROGRAM, 'eval', 'x + 1.5', '--in', f'x={x}', '--device',
                    'NV@sim:sm_90', '--save', slow], check=True,
                   capture_output=True)
    with open(slow, 'rb') as file:
        bundle = file.read()
    with open(slow, 'wb') as file:
        file.write(with_grid(bundle, GRID))
    with open(delay, 'wb') as file:
        file.write(delay_bundle('NV', 'sm_90'))
    with server('-', f's={slow}', f'd={delay}', '--device', 'NV@sim:sm_90',
                '--timeout', '1', BELL_SIM_ITEMS=str(2**40)) as process:
        peer = Peer(process.stdin, process.stdout)
        got = [peer.ask('run d x:8', X)]
        for _ in range(2):
            got.append(peer.ask('run s x:16', bytes(16)))
            got.append(peer.ask('run d'))
        got.append(peer.ask('health'))
        process.stdin.close()
        complaints = ends(process)
    tap.check('a run that is given up', complaints + [f'{got}'] * (
        [row[1] for row in got] != [FIRST, b'', X, b'', X, b''] or
        not all('waited 1' in got[i][0] for i in (1, 3)) or
        got[5][0] != 'ok bundles=2 runs=5 failed=2'))


def check_key(tap, folder, bundle):
    if not shutil.which('openssl'):
        tap.skip('--key', 'no openssl')
        return
    key, public = (os.path.join(folder, name) for name in ('key', 'pem'))
    for args in (('genpkey', '-algorithm', 'ed25519', '-out', key),
                 ('pkey', '-in', key, '-pubout', '-out', public)):
        subprocess.run(['openssl', *args], check=True, capture_output=True)
    with server('-', f'd={bundle}', '--key', public) as process:
        complaints = ends(process, 1, ' is not signed: ')
    if process.returncode == 6:
        tap.skip('--key', 'built without libsodium')
        return
    tap.check('--key: not signed', complaints)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        bundle = os.path.join(folder, 'd.bundle')
        with open(bundle, 'wb') as file:
            file.write(delay_bundle('CPU', arch()))
        check_pipe(tap, bundle)
        big = os.path.join(folder, 'big.bundle')
        with open(big, 'wb') as file:
            file.write(delay_bundle('CPU', arch(), BIG))
        # Both wait for the limit of a client that says nothing, 10 s.
        later = Later()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            slow = pool.submit(check_slow, later, folder, big,
                               os.path.join(folder, 'watchdog'))
            check_socket(tap, folder, bundle)
            slow.result()
        for row in later.rows:
            tap.check(*row)
        check_refused(tap, folder, bundle)
        check_notify(tap, folder, bundle)
        check_key(tap, folder, bundle)
        check_page(tap, folder, bundle)
        if '--sim' in sys.argv:
            check_given_up(tap, folder)
    tap.finish()


if __name__ == '__main__':
    main()
