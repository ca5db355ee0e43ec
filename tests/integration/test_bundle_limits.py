#!/usr/bin/env python3
"""Bundles whose grids are larger than the device takes, or than a simulated card
gets through, and a run that is given up: `doorbell run` ends soon.

usage: test_bundle_limits.py DOORBELL
"""
import os
import struct
import tempfile
import time

from cli import Tap, expect, run

DEVICES = ('CPU', 'NV@sim:sm_90', 'AMD@sim:gfx1100', 'QCOM@sim:a630')
KERNELS, COMMANDS = 2, 3  # numbers of sections
STEPS = 5  # version of bundles whose kernels say how many steps they take
# What `doorbell run` may take for a run of a second that is given up. What is
# waited for once more would take 30 s.
SOON = 20
HUGE = ((1024, 256, 256), (262145, 1, 31361), (16777217, 42, 5),
        (2**31 - 1, 65535, 65535))


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


def section(data, number):
    return struct.unpack_from('<2Q', data, 32 + 24 * number)


def seal(data):
    """Makes the checksums right again."""
    n_sections = struct.unpack_from('<I', data, 12)[0]
    for number in range(n_sections):
        at, size = section(data, number)
        struct.pack_into('<Q', data, 32 + 24 * number + 16,
                         checksum(bytes(data[at:at + size])))
    struct.pack_into('<Q', data, 24, 0)
    struct.pack_into('<Q', data, 24,
                     checksum(bytes(data[:32 + 24 * n_sections])))
    return bytes(data)


def with_steps(bundle, steps, version):
    """The bundle, of that version, whose first kernel says so many steps."""
    data = bytearray(bundle)
    struct.pack_into('<I', data, 8, version)
    struct.pack_into('<H', data, section(data, KERNELS)[0] + 10, steps)
    return seal(data)


def with_grid(bundle, grid, n_commands=1):
    """The bundle, whose first command is there so often, with that grid. It has
    one command."""
    data = bytearray(bundle)
    at, size = section(data, COMMANDS)
    command = bytearray(data[at:at + 32])
    assert size == 32 and n_commands <= 2
    struct.pack_into('<3I', command, 8, *grid)
    data[at:at + 32 * n_commands] = command * n_commands
    struct.pack_into('<Q', data, 32 + 24 * COMMANDS + 8, 32 * n_commands)
    targets = section(data, 0)[0]
    struct.pack_into('<I', data, targets + 32, n_commands)
    return seal(data)


def check_steps(tap, folder):
    """Kernels that say a number of steps, on the processor."""
    path, x = f'{folder}/s.bundle', f'x={folder}/one.npy'
    done = run('eval', 'x + 1.5', '--in', x, '--device', 'CPU', '--save', path)
    tap.check('steps: a bundle', expect(done, 0))
    with open(path, 'rb') as file:
        bundle = file.read()
    version, = struct.unpack_from('<I', bundle, 8)
    tap.check('steps: its version', [] if version == STEPS else [str(version)])
    for steps, version, code, text in (
            (1, STEPS, 0, None), (256, STEPS, 0, None), (65535, STEPS, 0, None),
            (0, STEPS, 0, None), (0, STEPS - 1, 0, None),
            (7, STEPS - 1, 1, "'E' says 7 steps, in a bundle of version 4"),
            (7, STEPS + 1, 6, 'version 6; 1 to 5 are read')):
        with open(path, 'wb') as file:
            file.write(with_steps(bundle, steps, version))
        done = run('run', path, '--device', 'CPU', '--in', x)
        tap.check(f'steps: {steps}, version {version}', expect(
            done, code, **({'err': text} if text else {'out': '2'})))


def check_device(tap, folder, device):
    path, x = f'{folder}/f.bundle', f'x={folder}/x.npy'
    done = run('eval', 'x + 1.5', '--in', x, '--device', device, '--save', path)
    if done.returncode:
        tap.check(f'{device}: a bundle', expect(done, 0))
        return
    with open(path, 'rb') as file:
        bundle = file.read()

    def run_with(grid, *options, n_commands=1, **environment):
        with open(path, 'wb') as file:
            file.write(with_grid(bundle, grid, n_commands))
        start = time.monotonic()
        done = run('run', path, '--device', device, '--in', x, *options,
                   **environment)
        complaints = [f'{time.monotonic() - start:.0f} s'
                      ] if time.monotonic() - start > SOON else []
        return done, complaints

    done, late = run_with((1, 1, 1))
    tap.check(f'{device}: its own grid', late + expect(
        done, 0, out='1.5 2 2.5'))
    done, late = run_with((1024, 2, 1))
    tap.check(f'{device}: a grid that ends', late + expect(
        done, 0, out='1.5 2 2.5'))
    done, late = run_with((1, 1, 2**32 - 1))
    tap.check(f'{device}: an axis', late + expect(
        done, 6, err='on axis 2'))
    if device == 'CPU':
        return
    for grid in HUGE:
        done, late = run_with(grid)
        tap.check(f'{device}: {grid}', late + expect(
            done, 6, err=f'command 0: \'E_4\' with a grid of {grid[0]}x'))
    done, late = run_with((1024, 2, 1), BELL_SIM_ITEMS='65535')
    tap.check(f'{device}: a lower limit', late + expect(
        done, 6, err='65536 work-items in a run so far'))
    done, late = run_with((1024, 2, 1), BELL_SIM_ITEMS='65536')
    tap.check(f'{device}: just that limit', late + expect(done, 0))
    done, late = run_with((1024, 2, 1), n_commands=2, BELL_SIM_ITEMS='65536')
    tap.check(f'{device}: commands together', late + expect(
        done, 6, err="command 1: 'E_4' with a grid of 1024x2x1: 131072"))
    for text in ('', '0', '-1', 'x', '1x', '99999999999999999999'):
        done, late = run_with((1, 1, 1), BELL_SIM_ITEMS=text)
        tap.check(f"{device}: BELL_SIM_ITEMS='{text}'", late + expect(
            done, 1, err='must be a number'))
    done, late = run_with((1024, 256, 256), '--timeout', '1',
                          BELL_SIM_ITEMS=str(2**40))
    tap.check(f'{device}: a run that is given up', late + expect(
        done, 5, err='waited 1'))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
        header = header.ljust(117) + '\n'
        with open(os.path.join(folder, 'x.npy'), 'wb') as file:
            file.write(b'\x93NUMPY\1\0' + struct.pack('<H', len(header)) +
                       header.encode() + struct.pack('<4f', 0, .5, 1, 1.5))
        header = header.replace('(4,)', '(1,)')
        with open(os.path.join(folder, 'one.npy'), 'wb') as file:
            file.write(b'\x93NUMPY\1\0' + struct.pack('<H', len(header)) +
                       header.encode() + struct.pack('<f', .5))
        check_steps(tap, folder)
        for device in DEVICES:
            check_device(tap, folder, device)
    tap.finish()


if __name__ == '__main__':
    main()
