#!/usr/bin/env python3
"""The pages of `doorbell bench --html` in a browser: no error, no plot without
marks, nothing wider than the window; on a phone, a desk, in the dark, on paper.

usage: test_report.py DOORBELL [--keep FOLDER]
"""
import os
import sys
import tempfile

import browser
from cli import Tap, expect, run

PLOTS = '''[...document.querySelectorAll('svg')].map(svg => ({
    title: svg.getAttribute('aria-label'),
    marks: svg.querySelectorAll('.mark').length,
    bad: [...svg.querySelectorAll('*')].filter(node => [...node.attributes].some(
        a => /NaN|Infinity|undefined/.test(a.value))).length,
    width: svg.getBoundingClientRect().width,
    height: svg.getBoundingClientRect().height}))'''
WIDTHS = '''[document.documentElement.scrollWidth, window.innerWidth,
    Math.max(...[...document.body.querySelectorAll(':not(.wide *)')].filter(
        n => !n.closest('svg') && !n.closest('script')).map(
        n => n.getBoundingClientRect().right))]'''
LOOKS = ((390, 844, False), (1400, 900, False), (390, 844, True),
         (1400, 900, True))


def check_page(tap, program, name, path, wanted, keep):
    with browser.Browser(program) as page:
        for width, height, dark in LOOKS:
            page.complaints.clear()
            page.open(path, width, height, dark)
            plots, widths = page.value(PLOTS), page.value(WIDTHS)
            complaints = list(page.complaints) + [
                f'{p}' for p in plots if p['marks'] < 1 or p['bad'] or
                p['width'] < 200 or p['height'] < 40]
            titles = {p['title'] for p in plots}
            complaints += [f'no plot "{w}"' for w in wanted - titles]
            if widths[0] > widths[1] or widths[2] > widths[1] + 1:
                complaints.append(f'wider than the window: {widths}')
            tap.check(f'{name}, {width} wide{", dark" if dark else ""}',
                      complaints)
            if keep:
                page.screenshot(os.path.join(
                    keep, f'{name}-{width}{"-dark" if dark else ""}.png'))
        paper = page.print_pages()
        tap.check(f'{name}, on paper', [
            'no PDF' for _ in [0] if not paper.startswith(b'%PDF')])
        if keep:
            with open(os.path.join(keep, name + '.pdf'), 'wb') as file:
                file.write(paper)


def main():
    tap = Tap()
    program = browser.find()
    keep = sys.argv[sys.argv.index('--keep') + 1] if (
        '--keep' in sys.argv) else None
    if not program:
        tap.skip('the report in a browser', 'no chromium here')
        tap.finish()
        return
    with tempfile.TemporaryDirectory() as folder:
        saved, page = folder + '/run.json', folder + '/page.html'
        done = [run('bench', 'CPU', 'launch', 'copy', 'mem', 'flops', 'gemm',
                    'ops', '--quick', '--seconds', '0.01', '--html', page,
                    '--save', saved)]
        tap.check('a page', expect(done[0], 0))
        check_page(tap, program, 'all', page, {
            'roofline', 'Copies by size', 'Memory by size', 'launch_wait'},
            keep)
        done = run('bench', 'CPU', 'launch', '--quick', '--seconds', '0.01',
                   '--html', page, '--against', saved)
        tap.check('a page of two runs', expect(done, 0))
        check_page(tap, program, 'two', page, {'comparison', 'submit_wait'},
                   keep)
    tap.finish()


if __name__ == '__main__':
    main()
