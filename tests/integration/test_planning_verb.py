#!/usr/bin/env python3
"""doorbell bench --model: text and documents, what is refused and how.

usage: test_planning_verb.py DOORBELL
"""
import json
import re

from cli import Tap, expect, run, schema_complaints

SMALL = ('--model', 'llama-8b', '--zero', '3', '--checkpoint', 'full')


def document(*args):
    return json.loads(run('bench', *args, '--json').stdout)


def check_forms(tap):
    done = run('bench', *SMALL, '--json')
    tap.check('a document', expect(done, 0) +
              schema_complaints('plan', done.stdout))
    one = json.loads(done.stdout)['predictions'][0]
    tap.check('parts add up', [
        name for name, parts, whole in (
            ('parts', one['parts'], one['step_s']),
            ('memory', one['memory'], one['memory_bytes']))
        if abs(sum(parts.values()) - whole) > 1e-6 * whole])
    text = run('bench', *SMALL).stdout
    rows = dict(re.findall(r'^  (\S[\w ]*?) {2,}([\d.e+-]+) s ', text,
                           re.MULTILINE))
    tap.check('the text has the same parts', [
        name for name, value in one['parts'].items()
        if abs(float(rows.get(name[:-2].replace('_', ' '), 'nan')) - value) >
        1e-3 * value or name[:-2].replace('_', ' ') not in rows])
    explained = run('bench', *SMALL, '--explain')
    tap.check('--explain adds a line to each part', expect(explained, 0) + [
        f'{n} lines' for n in [explained.stdout.count('\n') -
                               text.count('\n')] if n != len(one['parts'])])
    done = run('bench', '--model=llama-70b', '--devices', '256', '--batch',
               '512', '--search', '5', '--json')
    tap.check('a search', expect(done, 0) +
              schema_complaints('plan', done.stdout))
    times = [x['step_s'] for x in json.loads(done.stdout)['predictions']]
    tap.check('best first', [] if times == sorted(times) and len(times) == 5
              else [f'{times}'])
    done = run('bench', '--model', 'all-reduce', '--devices', '16', '--bytes',
               '1048576', '--json')
    tap.check('a collective', expect(done, 0) +
              schema_complaints('plan', done.stdout))
    tap.check('lists', expect(run('bench', '--model', 'x', '--list'), 0) + [
        name for name in ('models', 'machines')
        if not document('--model', 'x', '--list')[name]])


def check_refusals(tap):
    for args, code, part in (
            (('--model', 'llama-8'), 2, "did you mean 'llama-8b'?"),
            (('--model', 'llama-8b', '--machine', 'dgx-h10'), 2,
             "did you mean 'dgx-h100'?"),
            (('--model', 'llama-8b', '--dtype', 'fp4'), 2, 'bf16 or fp8'),
            (('--model', 'llama-8b', '--checkpoint', 'some'), 2,
             'none, selective, half or full'),
            (('--model', 'llama-8b', '--devices', '6', '--tensor', '4'), 2,
             '6 devices are not a multiple of tensor 4 times pipeline 1 '
             'times context 1'),
            (('--model', 'llama-8b', '--devices', '12', '--tensor', '12'), 2,
             'its 32 heads cannot be split over a tensor axis of 12'),
            (('--model', 'llama-70b'), 6, 'GiB more than the 79.6 GiB of h100'),
            (('--model', 'megatron-1t', '--search', '3'), 6,
             'no layout of megatron-1t fits 8 devices of dgx-h100'),
            (('--model', 'all-reduce', '--devices', '1'), 2,
             '--devices 2 or more'),
            (('--model', 'llama-8b', '--machine', 'dgx-a100', '--dtype', 'fp8'),
             6, 'no fp8 products')):
        done = run('bench', *args, '--json')
        tap.check(' '.join(args), expect(done, code) +
                  schema_complaints('error', done.stdout) +
                  [done.stdout for _ in [0] if part not in done.stdout])


def main():
    tap = Tap()
    check_forms(tap)
    check_refusals(tap)
    tap.finish()


if __name__ == '__main__':
    main()
