#!/usr/bin/env python3
"""Writes docs/benchmarks/*.md from the documents in docs/benchmarks/data.

usage: benchmark_pages.py [--check] SOURCE_ROOT

A file is named PAGE.WHAT.json. It is what `doorbell bench --save` wrote, of
which a page may have several runs, or a list of observations: tables that
people took down where no such document was kept. --check writes nothing and
fails where a page is not what the documents give.
"""
import glob
import itertools
import json
import os
import sys
import textwrap

WIDTH = 100
UNITS = {'gb_s': 'GB/s', 'gflops': 'GFLOP/s', 'thousands_s': 'k/s'}


def wrap(text):
    return textwrap.fill(text, WIDTH, break_long_words=False,
                         break_on_hyphens=False)


def table(columns, rows):
    lines = [columns, ['---'] * len(columns), *rows]
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def value(row, kind):
    """The number `kind` (median, low, high) of a row, whatever its unit."""
    return next((row[key] for key in row if key.startswith(kind + '_') and
                 key not in ('low_percent', 'high_percent')), None)


def number(x):
    if x is None:
        return ''
    return f'{x:.4g}' if x < 1000 else f'{x:,.0f}'


def holds(one, other):
    """Is each median in the other's interval?"""
    return (value(one, 'low') <= value(other, 'median') <= value(one, 'high')
            and value(other, 'low') <= value(one, 'median')
            <= value(other, 'high'))


def bench_sections(runs):
    """The sections of a page for saved runs of `doorbell bench`."""
    first = runs[0]
    if any(run['simulated'] for run in runs):
        raise SystemExit(f'{first["device"]}: a simulated device has no page')
    yield wrap(f'`doorbell bench` on {first["model"]} ({first["arch"]}), '
               f'{first["n_threads"]} threads, Linux {first["kernel"]}, '
               f'{first["passes"]} passes of {first["seconds_per_row"]} s a row.')
    yield table(['run', 'date', 'commit', 'load at its start'],
                [[str(i), run['date'], run['commit'], f'{run["load"]:.2f}']
                 for i, run in enumerate(runs, 1)])
    by_name = [{row['name']: row for row in run['rows']
                if value(row, 'low') is not None} for run in runs]
    names = [row['name'] for row in first['rows']
             if all(row['name'] in rows for rows in by_name)]
    pairs = [(a[name], b[name]) for name in names
             for a, b in itertools.combinations(by_name, 2)]
    if pairs:
        n = sum(holds(a, b) for a, b in pairs)
        yield wrap(f'Each median lies in the other run\'s interval for {n} of '
                   f'{len(pairs)} pairs, {100 * n / len(pairs):.1f} %.')
    columns = ['row', 'what', 'unit', 'median', 'interval of 95 %']
    columns += [f'median of run {i}' for i in range(2, len(runs) + 1)]
    rows = []
    for name in names:
        row = by_name[0][name]
        unit = UNITS.get(row['unit'], row['unit'])
        rows.append([f'`{name}`', row['what'], unit,
                     number(value(row, 'median')),
                     f'{number(value(row, "low"))} to '
                     f'{number(value(row, "high"))}',
                     *(number(value(rows[name], 'median'))
                       for rows in by_name[1:])])
    yield table(columns, rows)


def observed_sections(document):
    for text in document['text']:
        yield wrap(text)
    for part in document['tables']:
        yield '## ' + part['title']
        about = ', '.join(part[key] for key in ('date', 'unit') if key in part)
        if about:
            yield about + '.'
        for text in part.get('text', []):
            yield wrap(text)
        yield table(part['columns'], part['rows'])


def page(name, documents):
    """The text of docs/benchmarks/NAME.md."""
    runs = [d for d in documents if 'doorbell_bench' in d]
    observed = [d for d in documents if 'doorbell_bench' not in d]
    title = observed[0]['page'] if observed else runs[0]['model'] + ' (' + \
        name + ')'
    parts = ['# ' + title,
             wrap('For people who compare devices or builds: what was measured'
                  ' here. A script writes this page from the documents in '
                  '[data](data); [bench](../reference/bench.md) says how rows '
                  'are measured.')]
    for document in observed:
        parts += observed_sections(document)
    if runs:
        parts += bench_sections(runs)
    return '\n\n'.join(parts) + '\n'


def main():
    arguments = [a for a in sys.argv[1:] if a != '--check']
    folder = os.path.join(arguments[0], 'docs', 'benchmarks')
    pages = {}
    for path in sorted(glob.glob(os.path.join(folder, 'data', '*.json'))):
        with open(path, encoding='utf-8') as file:
            name = os.path.basename(path).split('.')[0]
            pages.setdefault(name, []).append(json.load(file))
    stale = set(glob.glob(os.path.join(folder, '*.md')))
    failed = False
    for name, documents in pages.items():
        path = os.path.join(folder, name + '.md')
        stale.discard(path)
        text = page(name, documents)
        if '--check' in sys.argv:
            old = ''
            if os.path.exists(path):
                with open(path, encoding='utf-8') as file:
                    old = file.read()
            if old != text:
                print(f'{path} is not what its documents give: run '
                      f'tools/benchmark_pages.py {arguments[0]}')
                failed = True
        else:
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
    for path in sorted(stale):
        print(f'{path} has no document in data')
        failed = True
    sys.exit(failed)


if __name__ == '__main__':
    main()
