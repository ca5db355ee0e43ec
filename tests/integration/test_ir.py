#!/usr/bin/env python3
"""All that `kernel --emit ir` prints, `kernel --ir` reads: the same kernels, and
the same code for them.

usage: test_ir.py DOORBELL DEVICE[=LANGUAGE]...

Programs of all kinds for each device, and the kernels of random programs on the
CPU.
"""
import os
import sys
import tempfile

from cli import Tap, expect, run

PROGRAMS = (
    ('sort(x)[0]', 'x=4096'),
    ('sort(x, descending=True)[1]', 'x=3x100:int32'),
    ('topk(x, 5)[0]', 'x=1000'),
    ('multinomial(x, 3)', 'x=1000'),
    ('cumsum(x, 0)', 'x=4096'),
    ('x @ x', 'x=128x128'),
    ('gelu(x @ x)', 'x=100x100:float16'),
    ('softmax(x, -1)', 'x=100x300'),
    ('conv2d(x, ones((8, 8, 3, 3)))', 'x=4x8x17x17'),
    ('scaled_dot_product_attention(x, x, x)', 'x=2x4x64x32:float16'),
    ('x.T.contiguous()', 'x=100x130'),
    ('gather(x, 0, i)', 'x=64x64', 'i=8x64:int64'),
    ('std(x, -1)', 'x=3x1000:bfloat16'),
    ('max_pool2d(x, 2)', 'x=1x3x16x16'),
)


SORT = """\
%0 = param.i64 #0
%1 = const.i64 64
%2 = range.i64 #0:loop %1
%3 = range.i64 #1:reduce %1
%4 = param.i64 #1
%5 = load.i64 %4, %3
%6 = sort.i64 #0 %5, %3, %2
%7 = store.void %0, %2, %6
%8 = sink.void %7
roots %8
"""
NOT_SORTS = (
    (SORT.replace('sink.void %7', 'sink.void %7, %9').replace(
        '%8 =', '%9 = store.void %0, %3, %1\n%8 ='), 'is not bound'),
    (SORT.replace('sink.void %7', 'sink.void %7, %9').replace(
        '%8 =', '%9 = store.void %0, %2, %1\n%8 ='),
     "is not what its kernel's only STORE stores"),
    (SORT.replace('%2, %6', '%2, %9').replace(
        '%7 =', '%9 = add.i64 %6, %1\n%7 ='),
     "is not what its kernel's only STORE stores"),
    (SORT.replace('%4, %3', '%4, %2'), 'keys depend on source 2'),
    (SORT.replace('1:reduce', '1:loop'), 'are a reduce and a loop'),
    (SORT.replace('%5, %3, %2', '%10, %3, %2').replace(
        '%6 =', '%9 = range.i64 #2:reduce %1\n'
        '%10 = reduce.i64 #add %5, %9\n%6 ='), 'stands beside a SORT'),
    (SORT.replace('i64 64', 'i64 48'),
     'integers by RANGEs of 32, 64'),
)


def write(path, text):
    with open(path, 'w', encoding='ascii') as file:
        file.write(text)


def read_back(path, text, device, form):
    """What comes of kernels as text, in that form."""
    write(path, text)
    return run('kernel', '--ir', path, '--device', device, '--emit', form)


def check_text(tap, name, path, device, texts):
    """Kernels by form: their IR and their code."""
    for form, text in texts.items():
        done = read_back(path, texts['ir'], device, form)
        tap.check(f'{name}: {form}', expect(done, 0) or (
            [] if done.stdout == text else
            ['other text'] + [f'{old} | {new}' for old, new in zip(
                text.splitlines(), done.stdout.splitlines())
                if old != new][:5]))


def check_device(tap, path, device, language):
    texts = {'ir': '', language: ''}
    for expression, *inputs in PROGRAMS:
        args = [expression, '--device', device]
        for given in inputs:
            args += ['--in', given]
        for form in texts:
            done = run('kernel', *args, '--emit', form)
            complaints = expect(done, 0, out='' if form != 'ir' else 'roots')
            if complaints:
                tap.check(f'{expression} on {device}', complaints)
            texts[form] += done.stdout
    check_text(tap, device, path, device, texts)


def check_random(tap, path):
    done = run('fuzz', 'CPU', '--programs', '6', '--seed', '5',
               BELL_DEBUG='ir')
    lines = [line[4:].removeprefix('  ') for line in done.stderr.splitlines()
             if line.startswith('ir: ')]
    text = '\n'.join('; ' + line if line[0] not in '%r' or line.endswith(':')
                     else line for line in lines) + '\n'
    n_kernels = sum(line.startswith('roots') for line in lines)
    tap.check('random programs', expect(done, 0) + (
        [] if n_kernels > 10 else [f'{n_kernels} kernels']))
    check_text(tap, 'random programs', path, 'CPU', {'ir': text})


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'kernels.ir')
        write(path, SORT)
        tap.check('a sort', expect(
            run('kernel', '--ir', path, '--device', 'CPU', '--run'), 0,
            out='r_64_64: '))
        for text, part in NOT_SORTS:
            write(path, text)
            tap.check(f'not a sort: {part}', expect(
                run('kernel', '--ir', path, '--device', 'CPU'), 1, err=part))
        for given in sys.argv[2:]:
            device, language = given.split('=')
            check_device(tap, path, device, language)
            if device == 'CPU':
                check_random(tap, path)
    return tap.finish()


if __name__ == '__main__':
    sys.exit(main())
