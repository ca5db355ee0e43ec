#!/usr/bin/env python3
"""Labels of a program (doorbell/label.h) on its kernels: in a profile, as
`doorbell profile` shows it, in debug output, on the page of `doorbell viz`.
They change no kernel.

usage: test_labels.py DOORBELL LABELS_PROGRAM [--sim]
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from cli import Tap, expect, run, schema_complaints

PROGRAM = sys.argv[2]
# What kernels of two blocks compute, forward and backward; a quote is no part of
# a label.
WANTED = [
    'mlp/block 1 ?a?: matmul, relu',
    'mlp/block 1 ?a?: gradient of matmul',
    'mlp/block 2: gradient of matmul',
]
# On a card both gradients are one launch.
WANTED_OF_CARDS = [WANTED[0], 'mlp: gradient of matmul']
FOUND = [r'mlp/block 2: .*softmax', 'gradient of softmax', 'gradient of relu',
         'sum$']


def wanted(device):
    return WANTED_OF_CARDS if '@' in device else WANTED


def program(how, **environment):
    return subprocess.run(
        [PROGRAM, how], capture_output=True, text=True, check=False,
        env=dict(os.environ, **environment), timeout=280)


def profile(folder, how, device, **environment):
    """The finished program, and the labels of its kernels' spans."""
    path = os.path.join(folder, f'{how or "mlp"}.json')
    done = program(how, BELL_PROFILE=path, BELL_DEVICE=device, **environment)
    if done.returncode:
        return done, path, []
    with open(path, encoding='utf-8') as file:
        events = json.load(file)['traceEvents']
    return done, path, [e['args'].get('label', '') for e in events
                        if e.get('cat') == 'kernel']


def missing(labels, device='CPU'):
    return [f'no "{text}" among {sorted(set(labels))}'
            for text in wanted(device) if text not in labels] + [
        f'no {pattern} among {sorted(set(labels))}' for pattern in FOUND
        if not any(re.search(pattern, label) for label in labels)]


def check_profile(tap, folder, device):
    done, path, labels = profile(folder, '', device, BELL_DEBUG='kernels,exec')
    tap.check(f'{device}: a trace', expect(done, 0) +
              missing(labels, device))
    shown = run('profile', path, '--json')
    complaints = expect(shown, 0) + schema_complaints('profile', shown.stdout)
    if not complaints:
        sums = json.loads(shown.stdout)['sums']
        complaints = missing([s['label'] or '' for s in sums], device)
        complaints += [f'{s} has a label' for s in sums
                       if s['kind'] != 'kernel' and s['label']]
    text = run('profile', path)
    complaints += [f'{w} is not in the table' for w in wanted(device)
                   if w not in text.stdout]
    tap.check(f'{device}: doorbell profile', complaints)
    for topic in 'kernels', 'exec':
        lines = [line for line in done.stderr.splitlines()
                 if line.startswith(f'{topic}: ')]
        tap.check(f'{device}: BELL_DEBUG={topic}', [
            f'{w}: no line' for w in wanted(device)
            if not any(line.endswith(': ' + w) for line in lines)])


def check_same(tap, folder):
    """Labels change neither plans nor code; without a reader they are none."""
    cache = os.path.join(folder, 'cache')
    runs = {how: program(how, BELL_DEVICE='CPU', BELL_CACHE=cache,
                         BELL_DEBUG='exec') for how in ('plain', 'other', '')}
    lines = {how: [line.split(': ')[1] for line in done.stderr.splitlines()
                   if ' grid ' in line] for how, done in runs.items()}
    compiled = {how: done.stderr.splitlines()[-1]
                for how, done in runs.items()}
    complaints = [c for done in runs.values() for c in expect(done, 0)]
    if not lines[''] or len({tuple(list) for list in lines.values()}) != 1:
        complaints.append(f'kernels differ: {lines}')
    if ' 0 kernels compiled' in compiled['plain'] or not all(
            ' 0 kernels compiled' in compiled[how] for how in ('other', '')):
        complaints.append(f'{compiled}')
    if len({text.split(',')[0] for text in compiled.values()}) != 1:
        complaints.append(f'{compiled}')
    tap.check('the same kernels, whatever the labels are', complaints)
    done, _, labels = profile(folder, 'plain', 'CPU')
    tap.check('functions alone', expect(done, 0) + [
        f'{labels}' for _ in [0] if 'matmul, relu' not in labels or
        any('block' in label for label in labels)])
    tap.check('nobody looks', expect(program('', BELL_DEVICE='CPU'), 0))


def check_sharing(tap, folder):
    done, _, labels = profile(folder, 'apart', 'CPU')
    first, second = 'block 1 ?a?: matmul, relu', 'block 2: matmul, relu'
    # three for the uniform numbers, and the sum
    plans = re.search(r'(\d+) plans', done.stderr)
    tap.check('one plan, two labels', expect(done, 0) + [
        f'{done.stderr} {labels}' for _ in [0] if labels.count(first) != 1 or
        labels.count(second) != 1 or int(plans[1]) != 3])
    done, _, labels = profile(folder, 'jit', 'CPU')
    tap.check('replays have the labels of the capture', expect(done, 0) +
              missing(labels) + [
                  f'{labels.count(w)} of {w}' for w in WANTED
                  if labels.count(w) != 4] + [
                  'a label of no capture' for _ in [0]
                  if any('no capture' in label for label in labels)])


def check_module(tap, folder):
    done, _, labels = profile(folder, 'module', 'CPU')
    tap.check('layers by their names in a module', expect(done, 0) + [
        f'no {part} among {labels}' for part in (
            'step/net.block.attn.wq: nn_linear', 'step/net.block.attn: ',
            'step/net.block.linear2: nn_linear', 'step/net.block.norm2: ')
        if not any(label.startswith(part) for label in labels)])


def check_viz(tap, folder):
    page = os.path.join(folder, 'page.html')
    done = run('viz', '--json', '--out', page, '--', PROGRAM, BELL_DEVICE='CPU')
    complaints = expect(done, 0) + schema_complaints('viz', done.stdout)
    if not complaints:
        document = json.loads(done.stdout)
        complaints = missing([label for kernel in document['kernels']
                              for label in kernel['labels']])
        of_nodes = [node['label'] for node in document['labels']]
        complaints += [f'no node is {w}' for w in (
            'mlp/block 1 ?a?: matmul', 'mlp/block 2: softmax',
            'mlp/block 2: gradient of matmul') if w not in of_nodes]
        complaints += [f'{node}' for node in document['labels']
                       if node['graph'] >= len(document['graphs']) or
                       f'%{node["last"]} = ' not in
                       document['graphs'][node['graph']]]
    tap.check('the document of doorbell viz', complaints)
    done = run('viz', '--out', page, '--', PROGRAM, BELL_DEVICE='CPU')
    complaints = expect(done, 0)
    if not complaints:
        with open(page, encoding='utf-8') as file:
            text = file.read()
        complaints = [f'{w} is not on the page' for w in WANTED
                      if w not in text]
    tap.check('the page of doorbell viz', complaints)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for device in ('CPU', 'NV@sim:sm_90', 'AMD@sim:gfx1100'):
            if '@' not in device or '--sim' in sys.argv:
                check_profile(tap, folder, device)
        check_same(tap, folder)
        check_sharing(tap, folder)
        check_module(tap, folder)
        check_viz(tap, folder)
    tap.finish()


if __name__ == '__main__':
    main()
