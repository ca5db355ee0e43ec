#!/usr/bin/env python3
"""Barriers between the host's accesses and a device's, in machine code.

usage: test_order.py OBJDUMP ARCHIVE
- what rings a doorbell, and what sees a signal, has the barriers that its
  processor wants (hcq/hcq_order.h)
"""
import re
import subprocess
import sys

from common import Tap

# Of each function: barriers, at least so many. x86 keeps the order of loads.
# Each costs a submission: of those that ring, no more than that.
WANTED = {
    'x86-64': {
        'amd_channel_ring': ('sfence', 1),
        'nv_channel_ring': ('sfence', 2),
        'feed_run': ('sfence', 1),
        'nv_buffer_write': ('sfence', 1),
    },
    'aarch64': {
        'amd_channel_ring': (r'(dsb\s+st|dmb\s+oshst)', 2),
        'nv_channel_ring': (r'dsb\s+st', 2),
        'feed_run': (r'dsb\s+st', 1),
        'nv_buffer_write': (r'dsb\s+st', 1),
        'hcq_signal_value': (r'dmb\s+oshld', 1),
        'hcq_signal_set': (r'dmb\s+oshst', 1),
    },
}


def functions(objdump, archive):
    """Their machine code, those of one name together, also as parts of it
    (feed_run.isra.0) that the compiler made."""
    text = subprocess.run([objdump, '-d', '--no-show-raw-insn', archive],
                          capture_output=True, text=True, check=True).stdout
    code = {}
    for found in re.finditer(r'^[0-9a-f]+ <([^>]+)>:\n((?:.+\n)*)', text, re.M):
        name = found[1].split('.')[0]
        code[name] = code.get(name, '') + found[2]
    return text, code


def main():
    text, code = functions(*sys.argv[1:])
    machine = 'aarch64' if 'elf64-littleaarch64' in text else 'x86-64'
    tap = Tap()
    for name, (barrier, n) in WANTED[machine].items():
        if name not in code:  # it became part of who calls it
            tap.skip(f'{machine}: {name}', 'not a function of its own')
            continue
        found = len(re.findall(barrier, code[name]))
        many = found > n and name.endswith('_ring')
        tap.check(f'{machine}: {name} has {n} of {barrier}',
                  [f'{found}'] if found < n or many else [])
    tap.finish()


if __name__ == '__main__':
    main()
