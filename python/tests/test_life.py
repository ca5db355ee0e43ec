"""Contexts, the ends of tensors, threads."""
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import weakref

import doorbell as bell


def resident_kb():
    with open('/proc/self/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGESIZE') // 1024


class Contexts(unittest.TestCase):
    def test_default(self):
        self.assertIs(bell.zeros(1).context, bell.current_context())
        self.assertEqual(bell.zeros(1).device, bell.current_context().device)

    def test_with(self):
        outer = bell.current_context()
        with bell.device('CPU') as cpu:
            self.assertIs(bell.current_context(), cpu)
            self.assertIs(bell.zeros(1).context, cpu)
            with bell.Context('CPU') as other:
                self.assertIs(bell.ones(1).context, other)
                self.assertIs((bell.zeros(1) + 1).context, other)
            self.assertIs(bell.current_context(), cpu)
        self.assertIs(bell.current_context(), outer)
        self.assertIs(bell.device('CPU'), cpu)
        with self.assertRaises(bell.errors.StateError):
            cpu.__exit__()

    def test_two(self):
        with bell.Context('CPU') as a:
            x = bell.tensor([1., 2.])
        with bell.Context('CPU') as b:
            y = bell.tensor([3., 4.])
        with self.assertRaises(bell.errors.ContextError):
            x + y  # noqa: B018
        with self.assertRaises(bell.errors.ContextError):
            bell.cat([x, y])
        self.assertEqual((x.to(b) + y).tolist(), [4, 6])
        self.assertEqual((a.info()['tensors'], b.info()['tensors']), (1, 1))

    def test_close(self):
        c = bell.Context('CPU')
        with c:
            x = bell.tensor([1., 2.])
        y = x + 1
        c.close()
        c.close()
        for call in (x.tolist, lambda: x + x, lambda: x.shape, lambda: x[0],
                     lambda: x.softmax(0), lambda: c.device):
            with self.assertRaises(bell.errors.StateError):
                call()
        del x, y
        self.assertIn('closed', repr(c))

    def test_ends_with_its_last_tensor(self):
        with bell.Context('CPU') as c:
            x = bell.tensor([1., 2.])
        seen = weakref.ref(x)
        del c
        self.assertEqual(x.tolist(), [1, 2])
        del x
        self.assertIsNone(seen())


class Leaks(unittest.TestCase):
    def test_handles_and_memory(self):
        x = bell.tensor([[1., 2.], [3., 4.]])

        def work(n):
            for i in range(n):
                y = (x + i).relu()[0, 1:]
                z = y.softmax(-1).max(0)
                w = bell.cat([y, y]).reshape(2, 1)
                if i % 100 == 0:
                    w.tolist()
                if i % 50 == 0:
                    try:
                        w.reshape(7)
                    except ValueError:
                        pass
                del y, z, w

        work(2000)
        gc.collect()
        before, n = resident_kb(), x.context.info()['tensors']
        work(20000)  # more than 10^5 tensors
        gc.collect()
        self.assertEqual(x.context.info()['tensors'], n)
        self.assertLess(resident_kb() - before, 4096)

    def test_objects(self):
        x = bell.tensor([1., 2.])
        n = sys.getrefcount(x.context), sys.getrefcount(x.dtype)
        for _ in range(1000):
            y = x + 1.5
            y.dtype, y.context, y.shape, y.grad  # noqa: B018
            memoryview(y).release()
        del y
        self.assertLess(abs(sys.getrefcount(x.context) - n[0]), 5)
        self.assertLess(abs(sys.getrefcount(x.dtype) - n[1]), 5)


class Threads(unittest.TestCase):
    def test_one_context(self):
        """Threads take turns; tensors may end in any of them."""
        x = bell.tensor([float(i) for i in range(64)])
        wrong, shared = [], []

        def work(k):
            for i in range(60):
                y = x * k + i
                shared.append(y)
                if len(shared) > 8:
                    shared.pop(0)
                got = y.sum().item()
                if got != 2016 * k + 64 * i:
                    wrong.append((k, i, got))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        shared.clear()
        self.assertEqual(wrong, [])

    def test_contexts_of_their_own(self):
        found = {}

        def work(k):
            with bell.Context('CPU'):
                found[k] = (bell.arange(10) * k).sum().item()

        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(found, {0: 0, 1: 45, 2: 90})

    def test_others_run_meanwhile(self):
        """A computation lets go of the interpreter, which is not taken away
        here."""
        ticks, stop = [], threading.Event()

        def count():
            while not stop.is_set():
                ticks.append(1)
                time.sleep(0.001)

        t = threading.Thread(target=count)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        try:
            t.start()
            x = bell.rand(256, 256).realize()
            for _ in range(1000):
                before = len(ticks)
                (x @ x).sum().item()
                if len(ticks) > before:
                    break
            self.assertGreater(len(ticks), before)
        finally:
            sys.setswitchinterval(interval)
            stop.set()
            t.join()

    def test_interrupt(self):
        """Ctrl-C ends a loop of computations, and nothing is lost."""
        x = bell.rand(64, 64).realize()
        before = x.tolist()
        t = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        t.start()
        with self.assertRaises(KeyboardInterrupt):
            while True:
                (x @ x).sum().item()
        t.join()
        self.assertEqual(x.tolist(), before)
        self.assertEqual((x - x).sum().item(), 0)


class Processes(unittest.TestCase):
    def run_python(self, text):
        return subprocess.run([sys.executable, '-W', 'ignore', '-c', text], text=True,
                              capture_output=True, timeout=60, check=False)

    def test_end_of_the_interpreter(self):
        done = self.run_python(
            'import doorbell as bell, threading\n'
            'x = bell.tensor([1., 2.]); y = (x + 1).realize()\n'
            'keep = [x, bell.Context("CPU")]; keep.append(keep)\n'
            'print(y.tolist())')
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, '[2.0, 3.0]\n', ''))

    def test_fork(self):
        done = self.run_python(
            'import doorbell as bell, os, sys\n'
            'x = bell.tensor([1., 2.])\n'
            'pid = os.fork()\n'
            'if not pid:\n'
            '    try:\n'
            '        x.tolist()\n'
            '    except bell.errors.ProcessError:\n'
            '        os._exit(7)\n'
            '    os._exit(1)\n'
            'print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), x.tolist())')
        self.assertEqual((done.stdout, done.stderr), ('7 [1.0, 2.0]\n', ''))


if __name__ == '__main__':
    unittest.main()
