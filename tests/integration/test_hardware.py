#!/usr/bin/env python3
"""docs/reference/hardware.md has every chip and product of base/chip.c, once, and
claims
no more than the tests show.

usage: test_hardware.py DOORBELL
"""
import json
import pathlib
import re

from cli import Tap, expect, run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BACKENDS = {'s': 'NV', 'g': 'AMD', 'a': 'QCOM', 'x': 'QCOM'}


def rows():
    """Chip, products, state, the last column."""
    text = (ROOT / 'docs' / 'reference' / 'hardware.md').read_text(encoding='utf-8')
    for line in text.split('\n'):
        cells = [c.strip() for c in line.strip('|').split('|')]
        if re.fullmatch(r'`[\w-]+`', cells[0]) and len(cells) == 5:
            yield (cells[0].strip('`'), re.findall(r'`([\w-]+)`', cells[1]),
                   cells[3], cells[4])


def check_names(tap, table, simulated):
    listed = [name for chip, products, state, _ in table
              if state != 'refused' for name in [chip] + products]
    there = [name.split(':')[1] for name in simulated]
    tap.check('each chip and product has a row', [
        f'{name} has none' for name in there if name not in listed] + [
        f'{name} has two' for name in set(listed) if listed.count(name) > 1] + [
        f'{name} is not in the code' for name in listed if name not in there])


def check_chips(tap, table):
    """Products are in the row of their chip."""
    complaints = []
    for chip, products, state, _ in table:
        for name in products if state != 'refused' else []:
            done = run('devices', f'{BACKENDS[chip[0]]}@sim:{name}', '--json')
            arch = json.loads(done.stdout)['devices'][0]['arch']
            if arch != chip:
                complaints.append(f'{name} is in the row of {chip}, not {arch}')
    tap.check('products are where their chips are', complaints)


def check_claims(tap, table):
    text = (ROOT / 'tests' / 'cts' / 'meson.build').read_text(encoding='utf-8')
    suites = set(re.findall(r"'\w+@sim:([a-z_0-9]+)", text))
    complaints = []
    for chip, products, state, by in table:
        card = any((ROOT / 'tests' / 'hw' / p).is_dir() for p in products)
        want = ('card' if card else 'suites' if chip in suites else 'smoke')
        if state not in ('refused', want):
            complaints.append(f'{chip}: {state}, but there is {want}')
        if bool(by) != (state in ('card', 'refused')):
            complaints.append(f'{chip}: {state} by "{by}"')
    tap.check('what was seen is what tests run', complaints)


def check_refused(tap, table):
    tap.check('what is refused says why', [
        c for chip, _, state, _ in table if state == 'refused'
        for c in expect(run('devices', f'{BACKENDS[chip[0]]}@null:{chip}'), 6,
                        err=chip.replace('a8xx', '8xx'))])


def main():
    table = list(rows())
    simulated = json.loads(run('devices', '--json').stdout)['simulated']
    tap = Tap()
    check_names(tap, table, simulated)
    check_chips(tap, table)
    check_claims(tap, table)
    check_refused(tap, table)
    tap.finish()


if __name__ == '__main__':
    main()
