"""Hardware queues: commands, packets, faults, graphs, steps, misuse, ends."""
import array
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import doorbell as bell
from doorbell import errors, hcq

CARDS = ('AMD@sim:gfx1100', 'NV@sim:sm_90', 'QCOM@sim:a740')


def resident_kb():
    with open('/proc/self/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGESIZE') // 1024


class Commands(unittest.TestCase):
    def test_every_device(self):
        for name in ('CPU', *CARDS):
            with self.subTest(name), hcq.Device(name) as dev:
                q = dev.queue()
                x, y = dev.buffer(64), dev.buffer(64)
                s = dev.signal()
                x.write(bytes(range(64)))
                with q.begin() as cs:
                    cs.copy(y, x, 64).barrier().fill(y, 0x01010101, 8)
                    cs.write(y.va + 16, 0xdeadbeef, 32).write(y.va + 24, 5)
                    cs.timestamp(s).signal(s, 9)
                    lines = cs.decode()
                self.assertEqual(lines[0][:13], 'copy 64 bytes')
                self.assertEqual(len(lines), 7)
                q.wait(timeout=20)
                s.wait(9, timeout=20)
                want = bytearray(range(64))
                want[:8] = b'\1' * 8
                want[16:20] = (0xdeadbeef).to_bytes(4, 'little')
                want[24:32] = (5).to_bytes(8, 'little')
                self.assertEqual(y.read(), bytes(want))
                self.assertEqual(y.read(4, offset=16).hex(), 'efbeadde')
                self.assertEqual((q.submitted, q.timeline.value, q.idle),
                                 (1, 1, True))
                self.assertGreater(s.timestamp, 0)
                self.assertGreater(dev.ns(s.timestamp), 0)

    def test_waits_between_queues(self):
        with hcq.Device('AMD@sim:gfx1100') as dev:
            a, b, s = dev.queue(), dev.queue('copy'), dev.signal()
            x = dev.buffer(8)
            with b.begin() as cs:
                cs.wait(s, 1).write(x, 2)
            self.assertFalse(b.idle)
            with a.begin() as cs:
                cs.write(x, 1).signal(s, 1)
            dev.synchronize(timeout=20)
            self.assertEqual(x.read()[0], 2)
            self.assertIsInstance(a.name, str)

    def test_poll_and_host(self):
        with hcq.Device('CPU') as dev:
            q, flag = dev.queue(), dev.buffer(4, host_visible=True)
            view = memoryview(flag)
            view[:] = bytes(4)
            out = dev.buffer(8)
            out.write(bytes(8))
            with q.begin() as cs:
                cs.poll(flag, 7).write(out, 3)
            with self.assertRaises(TimeoutError) as caught:
                q.wait(timeout=0.02)
            self.assertIn('poll', str(caught.exception))
            view[:] = (7).to_bytes(4, 'little')
            q.wait(timeout=20)
            self.assertEqual(out.read()[0], 3)
            view.release()

    def test_bound_stream(self):
        for name in ('CPU', 'AMD@sim:gfx1100', 'NV@sim:sm_90'):
            with self.subTest(name), hcq.Device(name) as dev:
                q = dev.queue()
                a, b = dev.buffer(8), dev.buffer(8)
                st = q.stream('step')
                to, what = st.patch_point('to'), st.patch_point('what')
                st.write(a, 1).patch('addr', to).patch('value', what, 100)
                self.assertEqual(len(st.decode()), 1)
                st.end()
                for buf, value in ((a, 5), (b, 6)):
                    st.set(to, buf)
                    st.set('what', value)
                    st.submit()
                    q.wait(timeout=20)
                    self.assertFalse(st.busy)
                    self.assertEqual(buf.read()[0], 100 + value)
                with self.assertRaises(errors.NameError):
                    st.set('nothing', 1)
                with self.assertRaises(errors.NameError):
                    q.stream('x').write(a, 1).patch('arg128', 0)
                with self.assertRaises(errors.StateError):
                    st.write(a, 1)

    def test_pinned_and_shared(self):
        with hcq.Device('CPU') as dev:
            q, mine = dev.queue(), bytearray(4096)
            p = dev.pin(mine)
            with q.begin() as cs:
                cs.fill(p, 0x41414141, 4096)
            q.wait(timeout=20)
            self.assertEqual(bytes(mine), b'A' * 4096)
            with self.assertRaises(BufferError):
                mine.append(1)  # it is pinned
            with self.assertRaises(BufferError):
                dev.pin(b'constant')
            s = dev.buffer(4096, shareable=True)
            s.write(b'z' * 4096)
            fd = s.export_fd()
            other = dev.import_fd(fd, 4096)
            os.close(fd)
            self.assertEqual(other.read(), b'z' * 4096)


class Programs(unittest.TestCase):
    SOURCE = """
    void add(const unsigned long *args, const unsigned *grid,
             unsigned long first, unsigned long last)
    {
        float *y = (float *)args[0];
        const float *x = (const float *)args[1];
        long n = (long)args[2];

        for (unsigned long g = first; g < last; g++)
            y[g] = x[g] + (float)n;
    }
    void spin(const unsigned long *args, const unsigned *grid,
              unsigned long first, unsigned long last)
    {
        while (!*(volatile unsigned *)args[0])
            ;
        ((volatile unsigned *)args[0])[1] = 5;
    }
    """

    @classmethod
    def setUpClass(cls):
        """An object for the CPU; skips where nothing compiles."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                subprocess.run(
                    ['cc', '-O1', '-c', '-fPIC', '-fno-stack-protector', '-w',
                     '-fcf-protection=none', '-fno-asynchronous-unwind-tables',
                     '-xc', '-', '-o', f'{folder}/add.o'],
                    input=cls.SOURCE, text=True, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise unittest.SkipTest(str(error))
            with open(f'{folder}/add.o', 'rb') as file:
                cls.binary = file.read()

    def test_exec(self):
        with hcq.Device('CPU') as dev:
            q = dev.queue()
            add = dev.program(self.binary, 'add', n_bufs=2, n_vals=1)
            self.assertEqual((add.name, add.local), ('add', (0, 0, 0)))
            self.assertGreater(add.facts()['code_bytes'], 0)
            x, y = dev.buffer(256), dev.buffer(256)
            x.write(array.array('f', range(64)))
            with q.begin() as cs:
                cs.exec(add, [y, x, -3], 64)
                self.assertIn('add', cs.decode()[0])
            q.wait(timeout=20)
            self.assertEqual(array.array('f', y.read()).tolist(),
                             [i - 3. for i in range(64)])
            g = hcq.Graph([q])
            n = g.slot('n')
            g.exec(add, [hcq.writes(x), hcq.reads(y), n], 64).end()
            g.set(n, 10)
            g.submit()
            g.wait(timeout=20)
            self.assertEqual(array.array('f', x.read()).tolist(),
                             [i + 7. for i in range(64)])
            for error, args, grid in (
                    (errors.ValueError, [y, x], 64),
                    (errors.ValueError, [y, x, 1], 0),
                    (ValueError, [y, x, 1], (1, 1, 1, 1)),
                    (ValueError, [y] * 129, 1), (TypeError, [y, x, 1.5], 1),
                    (TypeError, ['y', x, 1], 1)):
                cs = q.begin()
                with self.assertRaises(error):
                    cs.exec(add, args, grid)
                cs.discard()

    def test_fault(self):
        with hcq.Device('CPU') as dev:
            q = dev.queue()
            add = dev.program(self.binary, 'add', n_bufs=2, n_vals=1)
            x = dev.buffer(256)
            with q.begin() as cs:
                cs.exec(add, [0x10, x, 1], 64)
            with self.assertRaises(errors.LostError) as caught:
                q.wait(timeout=20)
            fault = caught.exception.fault
            self.assertEqual((fault.kind, fault.program), ('memory', 'add'))
            self.assertLess(fault.va, 0x1000)
            dev.recover()

    def test_long_kernel(self):
        """Ctrl-C leaves a kernel that runs, which can be waited for again."""
        with hcq.Device('CPU') as dev:
            q, x = dev.queue(), dev.buffer(64, host_visible=True)
            spin = dev.program(self.binary, 'spin', n_bufs=1)
            x.write(bytes(64))
            with q.begin() as cs:
                cs.exec(spin, [x], 1)
            for _ in range(5):
                t = threading.Timer(0.02, os.kill,
                                    (os.getpid(), signal.SIGINT))
                with self.assertRaises(KeyboardInterrupt):
                    t.start()
                    q.wait()
                    time.sleep(10)
                t.join()
                self.assertFalse(q.idle)
            with memoryview(x) as view:
                view[0] = 1
            q.wait(timeout=20)
            self.assertEqual(x.read()[4], 5)

    def test_misfit(self):
        with hcq.Device('CPU') as dev:
            with self.assertRaises(bell.Error) as caught:
                dev.program(b'\x7fELF no object', 'x', n_bufs=1)
            self.assertIn("'x'", str(caught.exception))
            with self.assertRaises(bell.Error):
                dev.program(self.binary, 'nothing', n_bufs=2)
            with self.assertRaises(TypeError):
                dev.program(self.binary, 'add')


class Words(unittest.TestCase):
    PACKETS = {
        'AMD@sim:gfx1100': ('WRITE_DATA', (7, 8), {'DST_SEL': 'MEMORY'}),
        'QCOM@sim:a740': ('MEM_WRITE', (7, 8), {}),
    }

    def test_packets(self):
        for name, (packet, words, fields) in self.PACKETS.items():
            with self.subTest(name), hcq.Device(name) as dev:
                q, x = dev.queue(), dev.buffer(64)
                with q.begin() as cs:
                    cs.packet(packet, *words, ADDRESS=x, **fields)
                    lines = cs.decode()
                self.assertIn(packet, lines[1])
                q.wait(timeout=20)
                self.assertEqual(x.read(8), bytes((7, 0, 0, 0, 8, 0, 0, 0)))
                raw = q.pack(packet, *words, ADDRESS=x.va + 8, **fields)
                with q.begin() as cs:
                    cs.words(raw)
                q.wait(timeout=20)
                self.assertEqual(x.read(4, offset=8), bytes((7, 0, 0, 0)))
                self.assertEqual(q.decode(raw)[0].split()[2], packet)

    def test_methods(self):
        with hcq.Device('NV@sim:sm_90') as dev:
            q = dev.queue()
            raw = q.pack('HOST.NOP', HANDLE=0x123)
            self.assertIn('0x123', q.decode(raw)[1])
            with q.begin() as cs:
                cs.words(raw)
            q.wait(timeout=20)
            self.assertIn('QMD_ADDRESS', q.fields('SEND_PCAS_A'))
            block = q.block('LAUNCH', GRID_WIDTH=3)
            self.assertEqual(
                q.block('LAUNCH', data=block, GRID_WIDTH=0),
                bytes(len(block)) if not any(q.block('LAUNCH')) else
                q.block('LAUNCH'))

    def test_every_name(self):
        """What is listed can be asked for, and packed where it is a packet or
        a register."""
        for name in CARDS:
            with hcq.Device(name) as dev:
                for kind in ('compute', 'copy'):
                    q = dev.queue(kind)
                    names = q.names()
                    self.assertGreater(len(set(names)), 10, q.name)
                    for each in names:
                        with self.subTest(q.name, name=each):
                            for facts in q.fields(each).values():
                                self.assertIn(facts['bits'], range(1, 65))

    def test_refusals(self):
        with hcq.Device('AMD@sim:gfx1100') as dev:
            q = dev.queue()
            for call, message in (
                    (lambda: q.pack('WRITE_DATTA'), "'WRITE_DATA'"),
                    (lambda: q.pack('WRITE_DATA', DST=1), 'DST_SEL'),
                    (lambda: q.pack('WRITE_DATA', DST_SEL='X'), 'MEMORY'),
                    (lambda: q.pack('WRITE_DATA', DST_SEL=16), '4 bits'),
                    (lambda: q.pack('COMPUTE_USER_DATA[99]', DATA=1),
                     'elements'),
                    (lambda: q.block('NOTHING'), 'no descriptor')):
                with self.assertRaises(bell.Error) as caught:
                    call()
                self.assertIn(message, str(caught.exception))
            for bad in ([0xc0012800, 1, 2], [0xc0043700, 1]):
                cs = q.begin()
                with self.assertRaises(bell.Error):
                    cs.words(bad)
                cs.discard()
            for bad in ([1 << 32], [-1], b'123', ['x']):
                with q.begin() as cs:
                    with self.assertRaises((ValueError, TypeError,
                                            OverflowError)):
                        cs.words(bad)
            cs = q.begin()
            with self.assertRaises(errors.SizeError):
                cs.words([0] * 257)
            cs.discard()
        with hcq.Device('CPU') as dev, self.assertRaises(
                NotImplementedError):
            dev.queue().pack('NOP')


    def test_keeps(self):
        """Buffers and signals whose addresses a packet has are kept."""
        with hcq.Device('AMD@sim:gfx1100') as dev:
            q, s, x = dev.queue(), dev.signal(), dev.buffer(8)
            before = sys.getrefcount(s), sys.getrefcount(x)
            cs = q.begin()
            cs.packet('WRITE_DATA', 7, DST_SEL='MEMORY', ADDRESS=s)
            cs.packet('WRITE_DATA', 7, DST_SEL='MEMORY', ADDRESS=x)
            self.assertEqual((sys.getrefcount(s), sys.getrefcount(x)),
                             (before[0] + 1, before[1] + 1))
            cs.discard()


class Faults(unittest.TestCase):
    def test_typed(self):
        with hcq.Device('NV@sim:sm_90') as dev:
            q, x = dev.queue(), dev.buffer(64)
            self.assertEqual(dev.fault.kind, 'none')
            with hcq.log('fault') as lines:
                with q.begin() as cs:
                    cs.write(0x5000, 7)
                with self.assertRaises(errors.LostError) as caught:
                    q.wait(timeout=20)
            fault = caught.exception.fault
            self.assertEqual((fault.kind, fault.va), ('memory', 0x5000))
            self.assertEqual(fault, dev.fault)
            self.assertIn(fault.text, str(caught.exception))
            self.assertTrue(lines)
            with self.assertRaises(errors.LostError):
                dev.check()
            with self.assertRaises(errors.LostError):
                q.begin()
            dev.recover()
            self.assertEqual(dev.fault.kind, 'none')
            with q.begin() as cs:
                cs.write(x, 3)
            q.wait(timeout=20)
            self.assertEqual(x.read()[0], 3)

    def test_unchecked(self):
        with hcq.Device('AMD@sim:gfx1100') as dev:
            q = dev.queue()
            with q.begin() as cs:
                cs.words([0xc0012800, 1, 2], unchecked=True)
            with self.assertRaises(errors.LostError) as caught:
                q.wait(timeout=20)
            self.assertEqual(caught.exception.fault.kind, 'stream')
            dev.recover()


class Graphs(unittest.TestCase):
    def test_two_queues(self):
        with hcq.Device('AMD@sim:gfx1100') as dev:
            q, c = dev.queue(), dev.queue('copy')
            x, y, z = (dev.buffer(256) for _ in range(3))
            g = hcq.Graph([q, c], 'two')
            slot = g.slot('out', 256)
            g.fill(hcq.writes(x), 1, 256).fill(hcq.writes(y), 2, 256)
            g.copy(hcq.writes(slot), hcq.reads(x), 256)
            g.copy(hcq.writes(slot, 128, offset=128),
                   hcq.reads(y, 128, offset=0), 128)
            with self.assertRaises(errors.StateError):
                g.submit()
            g.end()
            for _ in range(5):
                g.set('out', z)
                g.submit()
                g.wait(timeout=20)
                self.assertEqual((z.read()[0], z.read()[128]), (1, 2))
            self.assertEqual(g.info.n_commands, 4)
            with self.assertRaises(errors.NameError):
                g.set('nothing', 1)
            with self.assertRaises(errors.StateError):
                g.fill(hcq.writes(x), 1, 256)

    def test_parts(self):
        """A queue counts its parts of graphs."""
        with hcq.Device('AMD@sim:gfx1100') as dev:
            q, c, s, n = dev.queue(), dev.queue('copy'), dev.signal(), 1 << 20
            x, y, z = dev.buffer(n), dev.buffer(n), dev.buffer(n)
            g = hcq.Graph([q, c]).fill(hcq.writes(x), 1, n)
            g.copy(hcq.writes(y), hcq.reads(z), n)
            g.fill(hcq.writes(z), 2, n).end()
            self.assertEqual(g.info.n_queues, 2)
            with c.begin() as cs:
                cs.wait(s, 1)
            g.submit()
            self.assertEqual((c.submitted, c.idle), (2, False))
            s.value = 1
            c.wait(timeout=20)
            self.assertEqual((c.timeline.value, c.idle), (2, True))
            g.wait(timeout=20)

    def test_peers(self):
        with hcq.Device('AMD:0@sim:gfx942*2') as a, \
                hcq.Device('AMD:1@sim:gfx942*2') as b:
            self.assertIn(a.link(b).kind, ('pcie', 'xgmi'))
            x, q = a.buffer(64), b.queue()
            x.write(b'p' * 64)
            seen, y = b.peer(x), b.buffer(64)
            del x  # the view keeps it
            with q.begin() as cs:
                cs.copy(y, seen, 64)
            q.wait(timeout=20)
            self.assertEqual(y.read(), b'p' * 64)
            moved = b.link_bytes(a)
            self.assertEqual(moved.copy_read + moved.kernel_read, 64)


class Steps(unittest.TestCase):
    def test_packets(self):
        for name in ('AMD@sim:gfx1100', 'NV@sim:sm_90'):
            with self.subTest(name), hcq.Device(name) as dev:
                q, x = dev.queue(), dev.buffer(8)
                x.write(bytes(8))
                seen = []
                with hcq.Step(dev, ('submit', 'packet')) as step:
                    with q.begin() as cs:
                        cs.write(x, 0x1122334455667788)
                    for stop in step.until(q):
                        seen.append(stop)
                        self.assertEqual(len(step.read(x, 8)), 8)
                        self.assertIsInstance(step.registers(q), dict)
                        with self.assertRaises(errors.IndexError):
                            step.read(0x10, 8)
                self.assertEqual(seen[0].kind, 'submit')
                self.assertGreater(len(seen), 2)
                self.assertEqual(x.read().hex(), '8877665544332211')
                with self.assertRaises(errors.StateError):
                    step.next()

    def test_one_at_a_time(self):
        with hcq.Device('CPU') as dev, self.assertRaises(NotImplementedError):
            hcq.Step(dev)
        with hcq.Device('AMD@sim:gfx1100') as dev:
            with hcq.Step(dev) as step:
                self.assertIsNone(step.next(timeout=0))
                with self.assertRaises(errors.StateError):
                    hcq.Step(dev)
                with self.assertRaises(errors.StateError):
                    step.registers()
            with self.assertRaises(ValueError):
                hcq.Step(dev, 'moment')
            hcq.Step(dev).close()


    def test_close_meanwhile(self):
        with hcq.Device('AMD@sim:gfx1100') as dev:
            q, x = dev.queue(), dev.buffer(8)
            with hcq.Step(dev) as step:
                with q.begin() as cs:
                    cs.write(x, 5)
                self.assertEqual(step.next().kind, 'packet')
                with self.assertRaisesRegex(errors.StateError, 'stepped'):
                    dev.close()
            q.wait(timeout=20)
            self.assertEqual(x.read()[0], 5)


class Recordings(unittest.TestCase):
    def run_on(self, dev, value):
        with dev:
            q, x = dev.queue(), dev.buffer(8)
            x.write(bytes(8))
            with q.begin() as cs:
                cs.write(x, value)
            q.wait(timeout=20)
            return x.read()[0]

    def test_replay(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + '/x.cassette'
            self.assertEqual(
                self.run_on(hcq.record('AMD@sim:gfx1100', path), 7), 7)
            self.assertEqual(self.run_on(hcq.replay('AMD', path), 7), 7)
            with self.assertRaises(errors.LostError) as caught:
                self.run_on(hcq.replay('AMD', path), 8)
            self.assertEqual(caught.exception.fault.kind, 'interface')


class Misuse(unittest.TestCase):
    def test_closed_device(self):
        dev = hcq.Device('CPU')
        q, x, s = dev.queue(), dev.buffer(8, host_visible=True), dev.signal()
        cs, st = q.begin(), q.stream('s')
        g = hcq.Graph([q])
        timeline = q.timeline
        dev.close()
        dev.close()
        for call in (q.begin, q.wait, x.read, lambda: x.write(b''), s.wait,
                     lambda: s.value, lambda: s.wait(1), lambda: x.va,
                     lambda: memoryview(x), cs.submit, cs.discard, cs.barrier,
                     st.end, st.submit, lambda: timeline.value, dev.signal,
                     lambda: dev.buffer(1), lambda: dev.info, g.end, g.submit,
                     dev.synchronize, dev.recover, lambda: len(x),
                     lambda: q.name, lambda: hcq.Graph([q])):
            with self.assertRaises((errors.StateError, TypeError)):
                call()
        self.assertTrue(dev.closed and x.closed)
        self.assertIn('closed', repr(dev) + repr(x))

    def test_views(self):
        dev = hcq.Device('CPU')
        x = dev.buffer(8, host_visible=True)
        for call in (x.read, x.wrote):
            with self.assertRaises(errors.IndexError):
                call(offset=-2**63)
        view = memoryview(x)
        for close in (x.close, dev.close):
            with self.assertRaises(BufferError):
                close()
        view[0] = 1
        view.release()
        x.close()
        x.close()
        with self.assertRaises(errors.StateError):
            x.read()
        dev.close()
        with hcq.Device('NV@sim:sm_90') as card:
            hidden = card.buffer(8)
            if not hidden.host_visible:
                with self.assertRaises(BufferError):
                    memoryview(hidden)

    def test_arguments(self):
        with hcq.Device('CPU') as dev:
            q, x = dev.queue(), dev.buffer(8)
            for error, call in (
                    (ValueError, lambda: dev.buffer(-1)),
                    (ValueError, lambda: dev.queue('fast')),
                    (IndexError, lambda: x.read(9)),
                    (IndexError, lambda: x.read(4, offset=5)),
                    (IndexError, lambda: x.write(b'123456789')),
                    (IndexError, lambda: x.write(b'1', offset=-1)),
                    (TypeError, lambda: x.write('text')),
                    (ValueError, lambda: q.wait(timeout=-1)),
                    (ValueError, lambda: q.wait(timeout=float('nan'))),
                    (TypeError, lambda: q.wait(timeout='x')),
                    (OverflowError, lambda: dev.signal(-1)),
                    (OverflowError, lambda: dev.signal(1 << 64)),
                    (TypeError, lambda: dev.peer(dev)),
                    (TypeError, lambda: dev.link(x)),
                    (bell.Error, lambda: hcq.Device('XX')),
                    (OSError, lambda: hcq.Device('XX')),
                    (TypeError, hcq.Buffer), (TypeError, hcq.Queue),
                    (TypeError, lambda: hcq.Graph([x])),
                    (ValueError, lambda: hcq.Graph([])),
                    (bell.Error, lambda: dev.import_fd(-1, 8))):
                with self.assertRaises(error):
                    call()
            for error, call in (
                    (TypeError, lambda cs: cs.copy('x', x, 8)),
                    (OverflowError, lambda cs: cs.copy(x, -1, 8)),
                    (OverflowError, lambda cs: cs.copy(x, x, -8)),
                    (ValueError, lambda cs: cs.write(x, 1, 16)),
                    (ValueError, lambda cs: cs.write(x, 1 << 32, 32)),
                    (errors.ValueError, lambda cs: cs.write(x.va + 1, 1)),
                    (ValueError, lambda cs: cs.fill(x, 1 << 32, 8)),
                    (TypeError, lambda cs: cs.wait(x, 1)),
                    (TypeError, lambda cs: cs.exec(x, [], 1)),
                    (errors.UnsupportedError, lambda cs: cs.words([1]))):
                cs = q.begin()
                with self.assertRaises(error):
                    call(cs)
                cs.discard()
            with q.begin() as cs:
                with self.assertRaises(errors.StateError):
                    q.begin()
            with self.assertRaises(errors.StateError):
                cs.barrier()
            with self.assertRaises(ZeroDivisionError):
                with q.begin() as cs:
                    cs.write(x, 1 // 0)
            dropped = q.begin()
            del dropped
            with q.begin() as cs:  # nobody has the other any more
                cs.write(x, 7)
            q.wait()
            self.assertEqual((q.submitted, x.read()[0]), (2, 7))

    def test_fork(self):
        with hcq.Device('CPU') as dev:
            x, s, q = dev.buffer(8, host_visible=True), dev.signal(), dev.queue()
            pid = os.fork()
            if not pid:
                code = 0
                for call in (x.read, lambda: memoryview(x), lambda: s.value,
                             q.begin, q.wait, lambda: dev.buffer(8)):
                    try:
                        call()
                    except errors.ProcessError:
                        code += 1
                os._exit(code)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]),
                             6)
            self.assertEqual(len(x.read()), 8)


class Ends(unittest.TestCase):
    def test_dropped_in_flight(self):
        """Memory that work still uses is not given to others."""
        with hcq.Device('CPU') as dev:
            q, s = dev.queue(), dev.signal()
            for _ in range(50):
                x = dev.buffer(4096)
                with q.begin() as cs:
                    cs.wait(s, 1).fill(x, 0x11111111, 4096)
                break
            del x
            others = [dev.buffer(4096) for _ in range(20)]
            for buf in others:
                buf.write(b'o' * 4096)
            s.value = 1
            q.wait(timeout=20)
            for buf in others:
                self.assertEqual(buf.read(), b'o' * 4096)

    def test_100000(self):
        with hcq.Device('CPU') as dev:
            q = dev.queue()

            def work(n):
                for i in range(n):
                    if i % 50 == 0:  # or what ended piles up behind it
                        q.wait(timeout=60)
                    dev.buffer(64), dev.signal(), q.timeline  # noqa: B018
                    q.begin().barrier().submit()
                    q.stream('s').barrier().end()
                    hcq.Graph([q])
                    dev.info, dev.fault, q.name  # noqa: B018

            work(2000)
            gc.collect()
            q.wait(timeout=60)
            before, live = resident_kb(), dev.memory_usage()
            work(17000)  # six objects of the library each
            q.wait(timeout=60)
            gc.collect()
            dev.buffer(1).close()
            dev.buffer(1).close()
            self.assertLess(resident_kb() - before, 4096)
            self.assertLess(dev.memory_usage()[0] - live[0], 65536)

    def test_queues(self):
        with hcq.Device('CPU') as dev:
            for _ in range(200):
                q = dev.queue()
                q.begin().barrier().submit()
                del q
            self.assertTrue(dev.queue().name)
        for _ in range(20):
            dev = hcq.Device('AMD@sim:gfx1100')
            keep = [dev.queue(), dev.buffer(64)]
            del dev
        self.assertFalse(keep[1].closed)

    def test_interpreter(self):
        done = subprocess.run(
            [sys.executable, '-c',
             'from doorbell import hcq\n'
             'dev = hcq.Device("AMD@sim:gfx1100")\n'
             'q = dev.queue(); x = dev.buffer(64); keep = [dev, q, x]\n'
             'keep.append(keep)\n'
             'cs = q.begin(); cs.write(x, 1); cs.submit(); print(1)'],
            text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, '1\n', ''))


class Threads(unittest.TestCase):
    def test_one_queue(self):
        """Threads take turns; a wait of one keeps nobody."""
        with hcq.Device('CPU') as dev:
            q, wrong, s = dev.queue(), [], dev.signal()

            def work(k):
                x = dev.buffer(8)
                for i in range(200):
                    st = q.stream('s').write(x, k * 1000 + i).end()
                    s.value
                    dev.signal()
                    try:
                        st.submit()
                    except errors.StateError as error:
                        wrong.append(error)
                q.wait(timeout=20)
                if int.from_bytes(x.read(), 'little') != k * 1000 + 199:
                    wrong.append(k)

            threads = [threading.Thread(target=work, args=(k,))
                       for k in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(wrong, [])

    def test_synchronize(self):
        """Queues are dropped while others wait for all of them."""
        with hcq.Device('CPU') as dev:
            x, stop = dev.buffer(1 << 18), []

            def work():
                while not stop:
                    dev.synchronize(timeout=20)

            threads = [threading.Thread(target=work) for _ in range(2)]
            for t in threads:
                t.start()
            try:
                for _ in range(500):
                    try:
                        q = dev.queue()
                    except errors.UnsupportedError:  # many are not done yet
                        continue
                    with q.begin() as cs:
                        cs.fill(x, 1, 1 << 18).fill(x, 2, 1 << 18)
                    del q
            finally:
                stop.append(1)
                for t in threads:
                    t.join()

    def test_close_while_read(self):
        """A buffer is not closed while another thread reads it."""
        with hcq.Device('CPU') as dev:
            for _ in range(10):
                x = dev.buffer(32 << 20)
                t = threading.Thread(target=x.read)
                t.start()
                time.sleep(0.002)
                try:
                    x.close()
                except BufferError:
                    pass
                dev.memory_trim()
                t.join()

    def test_close_meanwhile(self):
        dev = hcq.Device('CPU')
        s = dev.signal()
        t = threading.Thread(target=s.wait, args=(1,))
        t.start()
        while True:
            time.sleep(0.01)
            try:
                dev.close()
                self.fail('closed under a wait')
            except errors.StateError:
                break
        s.value = 1
        t.join()
        dev.close()


class Interrupts(unittest.TestCase):
    def rounds(self, n, wait, check):
        """Ctrl-C at random moments of a wait that does not end."""
        for i in range(n):
            t = threading.Timer(0.005 + 0.001 * (i * 7 % 40), os.kill,
                                (os.getpid(), signal.SIGINT))
            begin = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                t.start()
                wait()
                time.sleep(10)
            t.join()
            self.assertLess(time.monotonic() - begin, 5)
            check()

    def test_hung_card(self):
        """A queue waits for a signal that nobody sets."""
        with hcq.Device('AMD@sim:gfx1100') as dev:
            q, s, x = dev.queue(), dev.signal(), dev.buffer(8)
            x.write(bytes(8))
            with q.begin() as cs:
                cs.wait(s, 1).write(x, 9)
            self.rounds(25, q.wait,
                        lambda: self.assertEqual(x.read()[0], 0))
            self.rounds(25, lambda: s.wait(1, timeout=100), lambda: None)
            self.rounds(10, lambda: dev.synchronize(timeout=100), lambda: None)
            s.value = 1
            q.wait(timeout=20)
            self.assertEqual(x.read()[0], 9)

    def test_graph(self):
        with hcq.Device('CPU') as dev:
            q, c, s, x = dev.queue(), dev.queue('copy'), dev.signal(), \
                dev.buffer(8)
            with q.begin() as cs:
                cs.wait(s, 1)
            g = hcq.Graph([q, c])
            g.fill(hcq.writes(x), 5, 8).end()
            g.submit()
            self.rounds(10, g.wait, lambda: None)
            s.value = 1
            g.wait(timeout=20)
            self.assertEqual(x.read()[0], 5)

    def test_handler(self):
        """A handler that raises nothing ends nothing; its own exception is
        told."""
        calls = []

        class Mine(Exception):
            pass

        def handler(number, frame):
            calls.append(1)
            if len(calls) == 3:
                raise Mine

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with hcq.Device('CPU') as dev:
                s = dev.signal()
                done = threading.Event()

                def send():
                    while not done.wait(0.02):
                        os.kill(os.getpid(), signal.SIGUSR1)

                t = threading.Thread(target=send)
                t.start()
                try:
                    with self.assertRaises(Mine):
                        s.wait(1)
                finally:
                    done.set()
                    t.join()
                self.assertGreaterEqual(len(calls), 3)
                with self.assertRaises(TimeoutError):
                    s.wait(1, timeout=0.01)
        finally:
            signal.signal(signal.SIGUSR1, before)


    def test_same_queue(self):
        """A handler cannot enter a call of its own thread's queue."""
        with hcq.Device('CPU') as dev:
            q, s, x = dev.queue(), dev.signal(), dev.buffer(8)
            with q.begin() as cs:
                cs.wait(s, 1)
            g = hcq.Graph([q])
            g.fill(hcq.writes(x), 5, 8).end()
            g.submit()
            before = signal.signal(signal.SIGALRM, lambda *_: q.begin())
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                with self.assertRaisesRegex(errors.StateError, 'already'):
                    g.wait(timeout=20)
            finally:
                signal.signal(signal.SIGALRM, before)
                s.value = 1
            g.wait(timeout=20)


class Selftest(unittest.TestCase):
    def test_iterates(self):
        got = []
        for row in hcq.selftest('CPU'):
            got.append(row)
            if len(got) == 3:
                break
        self.assertEqual([r.verdict for r in got], ['passed'] * 3)
        self.assertTrue(all(r.name and r.proves for r in got))


if __name__ == '__main__':
    unittest.main()
