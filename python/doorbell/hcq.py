"""Hardware queues: devices, memory, queues and packets, below tensors.

For who brings up a card, writes kernels by hand or looks at what a driver
sends. Names are those of hcq/hcq.h. Devices are opened by name: 'CPU',
'NV:0', the simulated 'NV@sim:sm_90', 'AMD@sim:gfx1100', 'QCOM@sim:a740', and
'NV@null:h100', which runs nothing.

>>> from doorbell import hcq
>>> with hcq.Device('NV@sim:sm_90') as dev:
...     q, x = dev.queue(), dev.buffer(8, host_visible=True)
...     with q.begin() as cs:
...         _ = cs.write(x, 42)
...     q.wait()
...     x.read()[0]
42

What is dropped is destroyed once work that was submitted until then is done.
Addresses that are ints keep nothing alive.
"""
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from doorbell import _hcq
from doorbell._hcq import (Buffer, Commands, Device, DeviceInfo, Fault,
                           GraphInfo, Link, LinkBytes, Program, Queue, Signal,
                           Stop, Stream, enumerate)

__all__ = ['Argument', 'Buffer', 'Commands', 'Device', 'DeviceInfo', 'Fault',
           'Graph', 'GraphInfo', 'Link', 'LinkBytes', 'Program', 'Queue',
           'Signal', 'Step', 'StepResult', 'Stop', 'Stream', 'enumerate',
           'log', 'reads', 'record', 'replay', 'selftest', 'update', 'writes']

_READ, _WRITE = 1, 2


# ---- graphs ----

class Argument(NamedTuple):
    """What a command of a graph uses: memory and how, or a word."""
    access: int
    slot: int
    value: 'int | Buffer'
    n_bytes: int
    keep: object


class Slot(NamedTuple):
    """Memory, or a word, that may differ from one submission to the next."""
    number: int
    n_bytes: int


def _memory(access: int, memory: 'Buffer | Slot', n_bytes: 'int | None',
            offset: int) -> Argument:
    if isinstance(memory, Slot):
        size = memory.n_bytes - offset if n_bytes is None else n_bytes
        return Argument(access, memory.number, offset, size, None)
    size = len(memory) - offset if n_bytes is None else n_bytes
    return Argument(access, -1, memory.va + offset, size, memory)


def reads(memory: 'Buffer | Slot', n_bytes: 'int | None' = None,
          offset: int = 0) -> Argument:
    """Memory that a command of a graph reads: a buffer's or a slot's."""
    return _memory(_READ, memory, n_bytes, offset)


def writes(memory: 'Buffer | Slot', n_bytes: 'int | None' = None,
           offset: int = 0) -> Argument:
    """Memory that a command of a graph writes."""
    return _memory(_WRITE, memory, n_bytes, offset)


def update(memory: 'Buffer | Slot', n_bytes: 'int | None' = None,
           offset: int = 0) -> Argument:
    """Memory that a command of a graph reads and writes."""
    return _memory(_READ | _WRITE, memory, n_bytes, offset)


def _argument(value: 'Argument | Slot | int') -> Argument:
    if isinstance(value, Argument):
        return value
    if isinstance(value, Slot):  # a word
        return Argument(0, value.number, 0, 0, None)
    return Argument(0, -1, value, 0, None)


class Graph(_hcq.GraphBase):
    """Kernels, copies and fills that are submitted as one, again and again.
    Which waits for which is found from the memory that they use. Queues: the
    first is a compute queue.

    >>> with hcq.Device('CPU') as dev:
    ...     x, y = dev.buffer(64), dev.buffer(64)
    ...     g = hcq.Graph([dev.queue()])
    ...     _ = g.fill(hcq.writes(x), 7, 64).copy(hcq.writes(y), hcq.reads(x), 64)
    ...     _ = g.end()
    ...     _ = g.submit()
    ...     g.wait()
    ...     y.read()[:4]
    b'\\x07\\x00\\x00\\x00'
    """

    def slot(self, name: str, n_bytes: int = 0,
             device: 'Device | None' = None) -> Slot:
        """A slot for memory of that size; of size 0, for a word. With a
        device other devices may have views of it."""
        return Slot(self._slot(name, n_bytes, device), n_bytes)

    def view(self, slot: Slot, device: Device) -> Slot:
        """The memory of a slot as another device sees it."""
        return Slot(self._view(slot.number, device), slot.n_bytes)

    def exec(self, program: Program, args: 'Sequence[Argument | Slot | int]',
             grid: 'int | Sequence[int]',
             local: 'int | Sequence[int] | None' = None) -> 'Graph':
        """Runs a kernel."""
        self._exec(program, [_argument(a) for a in args], grid, local)
        return self

    def copy(self, dst: Argument, src: Argument, n_bytes: int,
             device: 'Device | None' = None) -> 'Graph':
        """Copies, by a device; None: the first queue's."""
        self._copy(device, dst, src, n_bytes)
        return self

    def move(self, dst_device: Device, dst: Argument, src_device: Device,
             src: Argument, n_bytes: int) -> 'Graph':
        """Copies from memory of one device to another's."""
        self._move(dst_device, dst, src_device, src, n_bytes)
        return self

    def fill(self, dst: Argument, pattern: int, n_bytes: int,
             device: 'Device | None' = None) -> 'Graph':
        """Repeats a pattern of 32 bits."""
        self._fill(device, dst, pattern, n_bytes)
        return self

    def set(self, slot: 'Slot | str', value: 'int | Buffer',
            offset: int = 0) -> None:
        """Gives a slot its value for submissions from now on."""
        self._set(slot.number if isinstance(slot, Slot) else slot, value,
                  offset)


# ---- looking ----

@contextlib.contextmanager
def log(topics: str = 'fault') -> 'Iterator[list[str]]':
    """Keeps debug lines of the driver in a list, which has them when the
    block ends: 'push' for what queues are given, 'fault' for what simulated
    cards refuse. One at a time, of the whole process.

    >>> with hcq.Device('AMD@sim:gfx1100') as dev, hcq.log('push') as lines:
    ...     q = dev.queue()
    ...     with q.begin() as cs:
    ...         _ = cs.barrier()
    ...     q.wait()
    >>> any('ACQUIRE_MEM' in line for line in lines)
    True
    """
    lines: list[str] = []
    _hcq._log_take()
    _hcq._log_topics(topics)
    try:
        yield lines
    finally:
        _hcq._log_topics(None)
        lines += _hcq._log_take()


class Step(_hcq.StepBase):
    """Holds simulated cards before what they do next: stops are 'submit',
    'packet', 'kernel', 'wave', 'instruction'.

    >>> with hcq.Device('AMD@sim:gfx1100') as dev:
    ...     q, x = dev.queue(), dev.buffer(8)
    ...     with hcq.Step(dev) as step:
    ...         with q.begin() as cs:
    ...             _ = cs.packet('WRITE_DATA', 7, DST_SEL='MEMORY', ADDRESS=x)
    ...         lines = [q.decode(stop.words)[0].split()[2]
    ...                  for stop in step.until(q) if stop.format == 'pm4']
    >>> 'WRITE_DATA' in lines
    True
    """

    def until(self, queue: Queue) -> 'Iterator[Stop]':
        """Stops of cards until all is done that the queue was given."""
        while True:
            stop = self.next(timeout=0.01)
            if stop is not None:
                yield stop
            elif queue.idle:
                return


def record(name: str, path: str) -> Device:
    """Opens a device and records its calls to the kernel, memory and launches
    to a file, which is whole when the device is closed.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + '/x.cassette'
    >>> def run(dev):
    ...     with dev:
    ...         q, x = dev.queue(), dev.buffer(4)
    ...         with q.begin() as cs:
    ...             _ = cs.fill(x, 5, 4)
    ...         q.wait()
    ...         return x.read()
    >>> run(hcq.record('AMD@sim:gfx1100', path))
    b'\\x05\\x00\\x00\\x00'
    >>> run(hcq.replay('AMD', path))
    b'\\x05\\x00\\x00\\x00'
    """
    backend, at, rest = name.partition('@')
    return Device(f'{backend}@record:{path}{at}{rest}')


def replay(backend: str, path: str) -> Device:
    """Opens what `record` wrote, 'NV' or 'AMD': it answers as the device did,
    and refuses the first call that differs."""
    return Device(f'{backend}@replay:{path}')


# ---- selftest ----

class StepResult(NamedTuple):
    """A step of the selftest: 'passed', 'failed' or 'skipped'."""
    name: str
    verdict: str
    proves: str
    facts: 'dict[str, Any]'


def selftest(device: str, only: 'str | None' = None,
             keep_going: bool = False) -> 'Iterator[StepResult]':
    """Steps from opening a device to random programs, each in a process of its
    own as it is asked for; ends behind the first that fails. It runs the
    program `doorbell`.

    >>> [r.verdict for r in hcq.selftest('CPU', only='fill')]
    ['passed']
    """
    import json
    import subprocess

    from doorbell._tool import find_tool
    tool = find_tool()
    listed = json.loads(subprocess.run(
        [tool, 'selftest', '--list', '--json'], check=True,
        stdout=subprocess.PIPE).stdout)
    for step in listed['steps']:
        if only is not None and step['name'] != only:
            continue
        done = subprocess.run(
            [tool, 'selftest', device, '--only', step['name'], '--json'],
            check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        text = done.stdout.decode()
        rows = json.loads(text).get('steps', []) if text else []
        if not rows:  # not a step of this device
            continue
        row = rows[0]
        yield StepResult(row['name'], row['verdict'], step['proves'], row)
        if row['verdict'] == 'failed' and not keep_going:
            return
