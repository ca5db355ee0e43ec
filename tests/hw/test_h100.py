#!/usr/bin/env python3
"""The recordings of an H100: everything in them is named, each is its own
replay, and the simulated cards answer as the real one did, but for what
differs.txt lists: no more, and no less.

usage: test_h100.py DOORBELL FOLDER [--sanitized]

FOLDER/differs.txt has two kinds of lines, besides comments:
    unnamed COMMAND                       a control that no public source names
    CHIPS CASSETTES CALL: FIELD | REASON  what CHIPS answer otherwise
Words in lists are joined by "+"; the index in FIELD is left out.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'structure'))
from common import Tap  # noqa: E402  pylint: disable=wrong-import-position

DOORBELL, FOLDER = sys.argv[1:3]
SANITIZED = '--sanitized' in sys.argv
CHIPS = ('h100', 'sm_90')
BRANCH = '580'
# A word, packet or method that the decoder does not know starts so.
UNKNOWN = re.compile(r'^\s*(?:[0-9a-f]+:\s+)?\?')
UNNAMED = re.compile(r'NV_ESC_RM_CONTROL\([^|]*\bcmd=(0x[0-9a-f]+)[^|]*'
                     r'\| bytes: ')
DIFFERENCE = re.compile(r'\s*\d+ (?:ioctl )?(.+?): recorded ')


def run(*words):
    return subprocess.run([DOORBELL, 'trace', *words], capture_output=True,
                          text=True, check=False)


def listed():
    """{(chip, cassette): {call and field}}, {command} and complaints."""
    found, unnamed, complaints = {}, set(), []
    path = os.path.join(FOLDER, 'differs.txt')
    with open(path, encoding='utf-8') as file:
        lines = [line.strip() for line in file]
    for line in lines:
        words = line.split(' ', 2)
        if not line or line[0] == '#':
            continue
        if words[0] == 'unnamed' and len(words) == 2:
            unnamed.add(words[1])
            continue
        what, bar, reason = line.partition(' | ')
        if not bar or not reason or len(words) < 3:
            complaints.append(f'{line}: no CHIPS CASSETTES FIELD | REASON')
            continue
        for chip in words[0].split('+'):
            for cassette in words[1].split('+'):
                found.setdefault((chip, cassette), set()).add(
                    what.split(' ', 2)[2])
    return found, unnamed, complaints


def differences(text):
    """Calls and fields, without indices; the rest of the lines."""
    found, other = set(), []
    for line in text.splitlines():
        match = DIFFERENCE.match(line)
        if match:
            found.add(re.sub(r'\[\d+\]', '[]', match.group(1)))
        elif not re.fullmatch(r'\d+ calls, \d+ differences', line):
            other.append(line)
    return found, other


def check_show(tap, name, path, unnamed):
    done = run('show', path)
    lines = done.stdout.splitlines()
    tap.check(f'{name}: all that was submitted is decoded',
              [line for line in lines if UNKNOWN.match(line)] +
              ([f'exit status {done.returncode}: {done.stderr}']
               if done.returncode else []))
    commands = {match.group(1) for match in map(UNNAMED.search, lines)
                if match}
    tap.check(f'{name}: controls have names',
              [f'{command} has none' for command in commands - unnamed])
    return commands


def check_own(tap, name, path):
    done = run('replay', path)
    last = done.stdout.splitlines()[-1:]
    tap.check(f'{name}: is its own replay',
              [] if last and last[0].endswith(' calls, 0 differences')
              else [done.stdout + done.stderr])


def check_against(tap, name, path, chip, expected):
    done = run('replay', path, '--against', f'NV@sim:{chip},branch={BRANCH}')
    found, other = differences(done.stdout)
    tap.check(f'{name}: {chip} answers as the card did',
              [f'{what}: is not listed' for what in sorted(found - expected)] +
              [f'{what}: is listed, and no longer differs'
               for what in sorted(expected - found)] + other +
              ([done.stderr] if done.stderr else []))


def main():
    tap = Tap()
    expected, unnamed, complaints = listed()
    tap.check('differs.txt has lines of its two kinds', complaints)
    commands = set()
    names = sorted(file[:-4] for file in os.listdir(FOLDER)
                   if file.endswith('.cas'))
    for name in names:
        path = os.path.join(FOLDER, name + '.cas')
        commands |= check_show(tap, name, path, unnamed)
        check_own(tap, name, path)
        for chip in CHIPS:
            # Its shadow lies where the recorded program's memory did.
            if SANITIZED and name == 'cuda':
                tap.skip(f'{name}: {chip} answers as the card did',
                         'a sanitizer has the addresses that UVM needs')
                continue
            check_against(tap, name, path, chip,
                          expected.pop((chip, name), set()))
    tap.check('unnamed controls are still unnamed',
              [f'{command}: has a name, or is gone'
               for command in unnamed - commands])
    tap.check('chips and cassettes that are listed are there', [
        f'{chip} {name}' for chip, name in expected if not SANITIZED])
    tap.finish()


if __name__ == '__main__':
    main()
