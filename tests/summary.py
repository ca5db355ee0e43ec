#!/usr/bin/env python3
"""Counts individual tests in meson's testlog.json files.

A program that prints TAP (all cmocka programs here do) counts with each of
its tests; any other counts as one. A program that dies counts as one more
failure, for what it did not get to.

usage: summary.py [--brief] [--failed-builds N] TESTLOG...
Prints what failed and what was skipped, then `N passed, N failed, N skipped`.
Exits with 1 if anything failed or nothing passed. --brief: no last line.
"""
import argparse
import json
import re
import sys

TAP_LINE = re.compile(r'^(ok|not ok)\b\s*\d*\s*-?\s*(.*)$')
TAP_SKIP = re.compile(r'#\s*skip\b[:\s]*(.*)', re.IGNORECASE)
PLAN_SKIP = re.compile(r'^1\.\.0\s*#\s*skip\b[:\s]*(.*)', re.IGNORECASE)


class Tally:
    def __init__(self):
        self.n_passed = 0
        self.failed = []
        self.skipped = []


def read_program(result, tally):
    """Adds one program's tests to the tally."""
    name = result['name']
    lines = (result.get('stdout') or '').splitlines()
    state = result['result']
    n_tests = n_failed = 0
    note = ''
    for line in lines:
        plan_skip = PLAN_SKIP.match(line)
        match = TAP_LINE.match(line)
        if plan_skip:
            n_tests += 1
            tally.skipped.append((name, plan_skip.group(1)))
        elif match:
            n_tests += 1
            verdict, text = match.groups()
            skip = TAP_SKIP.search(text)
            if verdict == 'not ok' and not skip:
                n_failed += 1
                tally.failed.append((f'{name}: {text}', state))
            elif skip:
                reason = skip.group(1) or 'no reason given'
                # cmocka gives the test's name; the test said why just before.
                if note:
                    reason = f'{reason}: {note}'
                tally.skipped.append((name, reason))
            else:
                tally.n_passed += 1
            note = ''
        elif line.strip() and not line.startswith('1..'):
            note = line.strip().lstrip('# ')
    if state == 'SKIP' and n_tests == 0:
        reason = next((l for l in reversed(lines) if l.strip()), '')
        tally.skipped.append((name, reason or 'no reason given'))
    elif state in ('OK', 'EXPECTEDFAIL') and n_tests == 0:
        tally.n_passed += 1
    elif state not in ('OK', 'EXPECTEDFAIL', 'SKIP') and n_failed == 0:
        tally.failed.append((name, state))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--brief', action='store_true')
    parser.add_argument('--failed-builds', type=int, default=0)
    parser.add_argument('logs', nargs='*')
    args = parser.parse_args()

    tally = Tally()
    for path in args.logs:
        before = len(tally.failed)
        outputs = []
        with open(path, encoding='utf-8', errors='replace') as log:
            for line in log:
                result = json.loads(line)
                n_before = len(tally.failed)
                read_program(result, tally)
                if len(tally.failed) > n_before:
                    outputs.append(result)
        for what, state in tally.failed[before:]:
            print(f'FAILED   {what} ({state}) [{path.split("/")[-3]}]')
        if args.brief:
            for result in outputs:
                text = (result.get('stdout') or '') + (
                    result.get('stderr') or '')
                print(f'--- {result["name"]}')
                lines = [line for line in text.splitlines()
                         if not line.startswith('ok ')]
                print('\n'.join(lines[-80:]))
    if args.brief:
        return 0
    for name, reason in sorted(set(tally.skipped)):
        print(f'SKIPPED  {name}: {reason}')
    n_failed = len(tally.failed) + args.failed_builds
    print(f'{tally.n_passed} passed, {n_failed} failed, '
          f'{len(tally.skipped)} skipped')
    return 1 if n_failed or not tally.n_passed else 0


if __name__ == '__main__':
    sys.exit(main())
