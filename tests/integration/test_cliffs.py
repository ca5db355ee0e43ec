#!/usr/bin/env python3
"""Convolutions of channels that matrix instructions do not divide, by the model
of simulated cards: they take little longer than the next whole step's.

usage: test_cliffs.py DOORBELL DEVICE...
"""
import json
import sys

from cli import Tap, expect, run

STEP = 16
MOST = 1.15  # times the next step's time


def time_us(device, channels):
    done = run('kernel', 'conv2d(x, w, padding=1)', '--in',
               f'x=64x{channels}x56x56:float16', '--in',
               f'w={channels}x{channels}x3x3:float16', '--device', device,
               '--stats', '--groups', '2', '--json')
    complaints = expect(done, 0)
    if complaints:
        return 0, complaints
    return sum(kernel['predicted_us']
               for kernel in json.loads(done.stdout)['kernels']), []


def main():
    tap = Tap()
    for device in sys.argv[2:]:
        wholes = {}
        for channels in (17, 20, 31, 33):
            whole = (channels + STEP - 1) // STEP * STEP
            if whole not in wholes:
                wholes[whole] = time_us(device, whole)
            at, complaints = time_us(device, channels)
            least, more = wholes[whole]
            tap.check(f'{channels} channels on {device}', complaints + more + [
                f'{at:.1f} us, {whole} channels {least:.1f}'] * (
                    at > MOST * least))
    tap.finish()


if __name__ == '__main__':
    main()
