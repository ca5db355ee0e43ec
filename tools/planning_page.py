#!/usr/bin/env python3
"""Writes the last section of docs/explanation/planning.md: what `doorbell bench
--model` predicts beside the published figures of tools/plan/figures.json.

usage: planning_page.py [--check] DOORBELL SOURCE_ROOT

--check writes nothing and fails where the page is not what the tool says.
Numbers may differ by 1 %, or 0.2 where they are percentages: compilers contract
sums differently.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap

HEADING = '## Predictions beside published figures\n'
UNITS = {'step_s': 's', 'tokens_per_s': 'tokens/s', 'model_tflops': 'TFLOP/s',
         'busbw_gb_s': 'GB/s'}
NUMBER = re.compile(r'[+-]?\d[\d,]*(?:\.\d+)?')


def wrap(text, first='', rest=''):
    return textwrap.fill(text, 100, break_long_words=False,
                         break_on_hyphens=False, initial_indent=first,
                         subsequent_indent=rest)


def predict(doorbell, args, unit):
    done = subprocess.run([doorbell, 'bench', *shlex.split(args), '--json'],
                          stdout=subprocess.PIPE, check=False)
    document = json.loads(done.stdout)
    if 'error' in document:
        sys.exit(f'bench {args}: {document["error"]["message"]}')
    return document.get('predictions', [document])[0][unit]


def number(x):
    return f'{x:.3g}' if x < 1000 else f'{x:,.0f}'


def summary(name, errors):
    if not errors:
        return None
    sizes = [abs(e) for e in errors]
    return [name, str(len(errors)), f'{sum(sizes) / len(sizes):.1f} %',
            f'{sum(errors) / len(errors):+.1f} %', f'{max(sizes):.1f} %']


def table(columns, rows):
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in [
        columns, ['---'] * len(columns), *rows]) + '\n'


def section(doorbell, groups):
    """The section's text. An error above 0 is a prediction that is too fast."""
    parts, errors = [], {'steps': ([], [], []), 'collectives': ([], [], [])}
    for group in groups:
        lines = []
        for row in group['rows']:
            unit = next(key for key in UNITS if key in row)
            got, want = predict(doorbell, row['args'], unit), row[unit]
            error = 100 * (want / got if unit == 'step_s' else got / want) - 100
            place = 0 if row.get('calibrates') else 2 if row.get('blind') else 1
            kind = 'collectives' if unit == 'busbw_gb_s' else 'steps'
            errors[kind][place].append(error)
            lines.append([row['what'] + (' *' if place == 0 else ''),
                          f'{number(want)} {UNITS[unit]}', number(got),
                          f'{error:+.1f} %'])
        parts.append(f'### {group["title"]}\n')
        if 'text' in group:
            parts.append(wrap(group['text']) + '\n')
        parts.append(table(['what', 'published', 'predicted', 'error'], lines))
        parts.append('Sources:\n\n' + '\n'.join(
            wrap(source, '- ', '  ') for source in group['sources']) + '\n')
    rows = [summary(f'{kind}, {what}', values[i])
            for kind, values in errors.items()
            for i, what in enumerate(('calibrated (*)', 'others', 'blind'))]
    return '\n'.join([HEADING, wrap(
        'A script writes this section from the tool\'s output '
        '(`tools/planning_page.py`). An error above 0 is a prediction that is '
        'too fast. Rows with a star gave the machines\' shares of the peak. Those '
        'of DGX Cloud are blind: they were looked up after the last number had '
        'been chosen.') +
        '\n', table(['rows', 'number', 'mean size of error', 'mean error',
                     'largest'], [row for row in rows if row]), *parts])


def same(old, new):
    """Whether the texts are equal but for what compilers may change."""
    if NUMBER.sub('#', old) != NUMBER.sub('#', new):
        return False
    for a, b in zip(NUMBER.findall(old), NUMBER.findall(new)):
        x, y = (float(n.replace(',', '')) for n in (a, b))
        if abs(x - y) > max(0.01 * abs(x), 0.2):
            return False
    return True


def main():
    arguments = [a for a in sys.argv[1:] if a != '--check']
    root = arguments[1]
    path = os.path.join(root, 'docs', 'explanation', 'planning.md')
    with open(os.path.join(root, 'tools', 'plan', 'figures.json'),
              encoding='utf-8') as file:
        groups = json.load(file)
    with open(path, encoding='utf-8') as file:
        text = file.read()
    head, old = text.split(HEADING)
    new = section(arguments[0], groups)
    if '--check' in sys.argv:
        if not same(HEADING + old, new):
            sys.exit(f'{path} is not what the tool predicts: run '
                     'tools/planning_page.py')
        return
    with open(path, 'w', encoding='utf-8') as file:
        file.write(head + new)


if __name__ == '__main__':
    main()
