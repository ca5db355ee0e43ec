#!/usr/bin/env python3
"""`doorbell viz`: the document, and the page in a browser: a click through a
product's rewrites, a graph of 10,000 nodes.

usage: test_viz.py DOORBELL [--keep FOLDER]
"""
import json
import os
import sys
import tempfile

import browser
from cli import DOORBELL, Tap, expect, run, schema_complaints

PRODUCT = ('relu(x @ w)', '--in', 'x=64x128', '--in', 'w=128x32')
STAGES = ['scheduled', 'optimised', 'expanded', 'decomposed', 'indexed',
          'program']
LOOKS = ((390, 844, False), (1300, 900, False), (1300, 900, True))
TABS = ('graph', 'schedule', 'timeline', 'memory', 'kernels')
WIDTHS = '[document.documentElement.scrollWidth, window.innerWidth]'
FRAMES = 'new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))'


def check_document(tap, device, folder):
    done = run('viz', *PRODUCT, '--device', device, '--json', '--out',
               folder + '/x.html')
    complaints = expect(done, 0) or schema_complaints('viz', done.stdout)
    if complaints:
        tap.check(f'{device}: a document', complaints)
        return
    kernels = json.loads(done.stdout)['kernels']
    product = next((k for k in kernels if '128' in k['name'] and
                    k['name'][0] == 'r'), None)
    if not product:
        complaints.append(f'no product among {[k["name"] for k in kernels]}')
    else:
        names = [s['name'] for s in product['stages']]
        if names != STAGES:
            complaints.append(f'stages: {names}')
        complaints += [f'{s["name"]} is no IR' for s in product['stages']
                       if not s['text'] or '%' not in s['text']]
        if not product['rewrites'] or any(
                r['stage'] >= len(STAGES) for r in product['rewrites']):
            complaints.append('no rewrites')
        if not product['source'] or not product['choices']:
            complaints.append('no source, or no choices')
    tap.check(f'{device}: a document', complaints)


def check_use(tap, folder):
    for name, args, code, text in (
            ('nothing', (), 2, 'which EXPR'),
            ('two', ('x', 'y'), 2, 'one EXPR'),
            ('options of a program', ('--device', 'CPU', '--', 'true'), 2,
             'go with an EXPR'),
            ('a mistake', ('softmaxx(x)', '--in', 'x=4'), 1,
             "did you mean 'softmax'"),
            ('no such program', ('--', '/nonexistent'), 1, ''),
            ('a program without kernels', ('--', 'true'), 1,
             'made no kernel'),
            ('no such folder', ('exp(x)', '--in', 'x=4', '--device', 'CPU',
                                '--out', folder + '/no/x.html'), 1, 'no/')):
        done = run('viz', *args)
        complaints = [] if done.returncode == code and text in done.stderr \
            else [f'exit code {done.returncode}: {done.stderr}']
        tap.check(f'viz, {name}', complaints)


def steps_complaints(page):
    """Through the product's steps by the button, to the end."""
    page.value("[...document.querySelectorAll('ol.kernels button')].find("
               "b => /r_64_32_128/.test(b.textContent)).click()")
    seen, stages, n = [], [], 0
    while n < 1000:
        n += 1
        seen.append(page.value("document.querySelector('#step h2').innerText"))
        if page.value("!!document.querySelector('.rewrite')"):
            before, after = (page.value(
                f"document.querySelector('.rewrite .{c}').innerText")
                for c in ('before', 'after'))
            if not before or not after or before == after:
                return [f'{seen[-1]}: {before} -> {after}']
        else:
            stages.append(seen[-1])
            if page.value("document.querySelectorAll('#step pre div').length"
                          ) < 5:
                return [f'{seen[-1]} is empty']
        if page.value("document.getElementById('next').disabled"):
            break
        page.value("document.getElementById('next').click()")
    wanted = STAGES + ['source', 'machine code']
    return ([] if stages == wanted else [f'stages {stages}']) + (
        [] if any(s.startswith('rule ') for s in seen) else ['no rule'])


def check_page(tap, program, path, keep):
    with browser.Browser(program) as page:
        for width, height, dark in LOOKS:
            page.complaints.clear()
            page.open(path, width, height, dark)
            complaints = []
            for tab in TABS:
                page.value(f"document.getElementById('{tab}').click()")
                widths = page.value(WIDTHS)
                if widths[0] > widths[1]:
                    complaints.append(f'{tab}: wider than the window: {widths}')
                if page.value("document.getElementById('main').innerText"
                              ".length") < 20:
                    complaints.append(f'{tab}: empty')
                if keep:
                    page.screenshot(os.path.join(
                        keep, f'{tab}-{width}{"-dark" if dark else ""}.png'))
            complaints += steps_complaints(page)
            tap.check(f'the page, {width} wide{", dark" if dark else ""}',
                      complaints + page.complaints)
        page.open(path, 1300, 900)
        page.value("document.getElementById('graph').click()")
        page.call('Runtime.evaluate', expression=FRAMES, awaitPromise=True)
        complaints = [] if page.value('graph.drawn') > 3 else ['nothing drawn']
        page.value('''(() => { const c = document.querySelector('canvas');
            for (const type of ['pointerdown', 'pointerup'])
                c.dispatchEvent(new PointerEvent(type, {pointerId: 1,
                    clientX: c.getBoundingClientRect().left + 40,
                    clientY: c.getBoundingClientRect().top + 40}));
            return 0; })()''')
        if '%' not in page.value("document.getElementById('node').innerText"):
            complaints.append('a click says nothing')
        tap.check('the graph, drawn', complaints + page.complaints)


def check_large(tap, program, folder):
    path = folder + '/large.html'
    expression = ' + '.join(f'relu(x + {i}.5)' for i in range(2500))
    done = run('viz', expression, '--in', 'x=64x8', '--device', 'CPU', '--out',
               path)
    complaints = expect(done, 0)
    if not complaints and program:
        with browser.Browser(program) as page:
            page.open(path, 1300, 900)
            n = page.value("(document.getElementById('graph').click(), "
                           "graph.nodes.length)")
            page.call('Runtime.evaluate', expression=FRAMES, awaitPromise=True)
            complaints += page.complaints
            if n < 10000:
                complaints.append(f'{n} nodes')
            if not 3 < page.value('graph.drawn') < 1000:
                complaints.append(f'{page.value("graph.drawn")} drawn')
    tap.check('10,000 nodes', complaints)


def main():
    keep = sys.argv[3] if len(sys.argv) > 3 else None
    tap = Tap()
    program = browser.find()
    with tempfile.TemporaryDirectory() as folder:
        for device in ('CPU', 'NV@sim:sm_90', 'AMD@sim:gfx1100',
                       'QCOM@sim:a740'):
            if run('devices', device).returncode:
                tap.skip(f'{device}: a document', 'it cannot be opened')
            else:
                check_document(tap, device, folder)
        check_use(tap, folder)
        page = folder + '/page.html'
        tap.check('a page', expect(run(
            'viz', *PRODUCT, '--device', 'CPU', '--out', page), 0))
        tap.check('a page of a program', expect(run(
            'viz', '--out', folder + '/mnist.html', '--', DOORBELL, 'demo',
            'mnist', '--steps', '1', '--device', 'CPU'), 0))
        if program:
            check_page(tap, program, page, keep)
        else:
            tap.skip('the page', 'no Chromium')
        check_large(tap, program, folder)
    tap.finish()


if __name__ == '__main__':
    main()
