#!/usr/bin/env python3
"""Runs libFuzzer targets one after the other and keeps what they find.

usage: campaign.py BUILD MINUTES [--only NAME,NAME...] [--jobs N] [--corpus DIR]

BUILD has the programs NAME_libfuzzer. The corpus of each target is DIR/NAME,
inputs that crash or hang go to DIR/NAME-found, and the seeds of tests/fuzz are
read beside it. The table at the end is Markdown, as docs/how-to/fuzzing.md has
it. Exits with 1 if a target crashed, or one input took more than 30 s.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SLOWEST_S = 30
MEMORY_MIB = 4096
# Targets whose seeds are another's.
SEEDS = {'kernel_nv': 'kernel', 'kernel_amd': 'kernel', 'kernel_qcom': 'kernel'}
# What libFuzzer prints at the end (-print_final_stats=1).
STATS = {'executions': 'number_of_executed_units',
         'slowest': 'slowest_unit_time_sec'}


def default_corpus():
    cache = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    return os.path.join(cache, 'doorbell-fuzz')


def targets(build):
    """Name -> program."""
    found = {}
    for path in glob.glob(os.path.join(build, 'tests', 'fuzz',
                                       'fuzz_*_libfuzzer')):
        name = os.path.basename(path)[len('fuzz_'):-len('_libfuzzer')]
        found[name] = path
    return dict(sorted(found.items()))


def run(name, program, seconds, corpus):
    """One target's row; its output is in the corpus's folder."""
    mine = os.path.join(corpus, name)
    artifacts = os.path.join(corpus, name + '-found')
    os.makedirs(mine, exist_ok=True)
    os.makedirs(artifacts, exist_ok=True)
    seeds = os.path.join(HERE, SEEDS.get(name, name))
    known, found = set(os.listdir(mine)), set(os.listdir(artifacts))
    log = os.path.join(corpus, name + '.log')
    start = time.monotonic()
    with open(log, 'wb') as out:
        code = subprocess.run(
            [program, f'-max_total_time={seconds:.0f}', f'-timeout={SLOWEST_S}',
             f'-rss_limit_mb={MEMORY_MIB}', '-print_final_stats=1',
             f'-artifact_prefix={artifacts}/', mine, seeds],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=out,
            env=dict(os.environ, BELL_CACHE='off'), check=False).returncode
    took = time.monotonic() - start
    with open(log, encoding='utf-8', errors='replace') as file:
        text = file.read()
    row = {'name': name, 'code': code, 'seconds': took, 'log': log}
    for key, stat in STATS.items():
        match = re.search(rf'stat::{stat}:\s*(\d+)', text)
        row[key] = int(match.group(1)) if match else 0
    row['new'] = len(set(os.listdir(mine)) - known)
    row['found'] = [os.path.join(artifacts, f) for f in sorted(
        set(os.listdir(artifacts)) - found)]
    row['crashes'] = sum(not os.path.basename(f).startswith('slow-unit')
                         for f in row['found']) or int(code != 0)
    return row


def line(row):
    rate = row['executions'] / max(row['seconds'], 1e-9)
    return (f"| {row['name']} | {row['executions']} | {rate:.0f} | {row['new']} "
            f"| {row['crashes']} | {row['slowest']} | {row['seconds'] / 3600:.2f}"
            ' |')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('build')
    parser.add_argument('minutes', type=float)
    parser.add_argument('--only', default='', metavar='NAME,NAME')
    parser.add_argument('--jobs', type=int, default=1)
    parser.add_argument('--corpus', default=default_corpus())
    options = parser.parse_args()
    known = targets(options.build)
    names = options.only.split(',') if options.only else list(known)
    for name in names:
        if name not in known:
            sys.exit(f"no target '{name}'; there are {', '.join(known)}")
    if not names:
        sys.exit(f'{options.build} has no fuzz targets')
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(run, name, known[name], options.minutes * 60,
                            options.corpus) for name in names]
        for job in concurrent.futures.as_completed(jobs):
            rows.append(job.result())
            print(line(rows[-1]), flush=True)
    print('\n| target | executions | a second | new inputs | crashes '
          '| slowest, s | hours |\n|---|---|---|---|---|---|---|')
    for row in sorted(rows, key=lambda row: row['name']):
        print(line(row))
    bad = [row for row in rows
           if row['crashes'] or row['slowest'] > SLOWEST_S]
    for row in bad:
        print(f"{row['name']}: exit code {row['code']}, {row['log']}",
              *row['found'], sep='\n    ')
    print(f'corpus: {options.corpus}')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
