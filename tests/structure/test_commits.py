#!/usr/bin/env python3
"""Commits say what they do, and why, as CONTRIBUTING.md asks.

usage: test_commits.py SOURCE_ROOT

Looks at the commits since FIRST. Skips without a history: in a tarball, or a
clone that does not reach back so far.
"""
import re
import shutil
import subprocess
import sys

from common import Tap

FIRST = '4c197aa87e018efe5623459cf53ec42d2ec3fa84'
LONGEST = 72
# Verbs that end as participles do.
VERBS = {'bring', 'embed', 'exceed', 'feed', 'need', 'proceed', 'ring', 'seed',
         'shed', 'speed', 'spring', 'string', 'succeed', 'swing', 'wed', 'weed'}


def git(root, *args):
    return subprocess.run(['git', '-C', root, *args], capture_output=True,
                          text=True, check=False)


def message_complaints(subject, body):
    if len(subject) > LONGEST:
        yield f'the subject has {len(subject)} characters, at most {LONGEST}'
    match = re.match(r'[\w./+-]+(?:, [\w./+-]+)*: (\S+)', subject)
    if not match:
        yield 'the subject is not "part: do this"'
    elif re.search('(?:ed|ing)$', match[1]) and match[1] not in VERBS:
        yield f'"{match[1]}" is not an imperative'
    if subject.endswith('.'):
        yield 'the subject ends with a full stop'
    if not body.strip():
        yield 'there is no body that says why'


def check_itself(tap):
    good = ('hcq/nv, docs: bring the ring closer', 'Because.')
    bad = ('hcq: ' + 'x' * 68, 'Ring closer', 'hcq: moved it', 'hcq: moving',
           'hcq: move it.')
    tap.check('the rules', [
        *message_complaints(*good),
        *(f'"{subject}" passes' for subject in bad
          if not list(message_complaints(subject, 'Because.'))),
        *(['a commit without a body passes']
          if not list(message_complaints(good[0], '\n')) else [])])


def main():
    root = sys.argv[1]
    tap = Tap()
    check_itself(tap)
    if shutil.which('git') is None:
        tap.skip('commits', 'no git')
        tap.finish()
    log = git(root, 'log', '--no-merges', '--format=%h%x00%s%x00%b%x1e',
              f'{FIRST}..HEAD')
    if log.returncode:
        tap.skip('commits', 'no history that reaches back far enough')
        tap.finish()
    complaints = []
    for record in log.stdout.split('\x1e'):
        if record.strip():
            commit, subject, body = record.strip('\n').split('\0')
            complaints += [f'{commit} {subject[:40]}: {c}'
                           for c in message_complaints(subject, body)]
    tap.check('commits', complaints)
    tap.finish()


if __name__ == '__main__':
    main()
