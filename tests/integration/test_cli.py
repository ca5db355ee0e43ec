#!/usr/bin/env python3
"""The command line's contract: exit codes, messages, JSON documents.

usage: test_cli.py DOORBELL [--sim] [--few]
    --sim: there are simulated cards   --few: built with sanitizers
"""
import json
import os
import subprocess
import sys
import tempfile

from cli import (DOORBELL, Tap, expect, expect_json_error, run,
                 schema_complaints)

SIMULATED = '--sim' in sys.argv
# Whole kernels are interpreted to be counted: with sanitizers one a vendor,
# which test_wavefronts does too.
FEW = '--few' in sys.argv
COUNTED = ['NV@sim:h100', 'AMD@sim:rx7900xtx'] + (
    [] if FEW else ['NV@sim:rtx4090', 'AMD@sim:mi300x'])


def check_usage(tap):
    tap.check('no verb', expect(run(), 2, err='usage: doorbell'))
    tap.check('-h', expect(run('-h'), 0, out='usage: doorbell'))
    tap.check('--version', expect(run('--version'), 0, out='doorbell 0.'))
    tap.check('a mistyped verb', expect(
        run('device'), 2, err="did you mean 'devices'?"))
    tap.check('a verb like none', expect(
        run('zzzzzzzz'), 2, err="no verb 'zzzzzzzz'"))
    tap.check('--json alone', expect_json_error(
        run('--json'), 2, 'a verb comes first'))
    tap.check('a mistyped verb with --json', expect_json_error(
        run('device', '--json'), 2, "did you mean 'devices'?"))
    for args, key in ((('--version',), 'version'),
                      (('eval', '--list'), 'functions'),
                      (('bench', '--list'), 'suites')):
        done = run(*args, '--json')
        tap.check(f'{" ".join(args)} --json', expect(done, 0) + [
            c for c in ['not there'] if not json.loads(done.stdout)[key]])
    for args, part in ((('trace', '--json'), 'trace: what?'),
                       (('trace', 'rec', '--json'), "no 'rec'"),
                       (('trace', 'record', '--json'), '-o FILE'),
                       (('trace', 'diff', 'a', '--json'), 'which two'),
                       (('trace', 'replay', '--json'), 'which FILE'),
                       (('trace', 'show', '--json'), 'which FILE')):
        tap.check(' '.join(args), expect_json_error(run(*args), 2, part))
    for part in ('show', 'replay'):
        tap.check(f'trace {part} of no file', expect_json_error(
            run('trace', part, '/none.cas', '--json'), 1, '/none.cas'))
    verbs = [line.split()[0] for line in run('-h').stdout.splitlines()
             if line.startswith('  ')]
    for verb in verbs:
        done = run(verb, '-h')
        tap.check(f'{verb} -h', expect(done, 0, out=f'doorbell {verb}') +
                  (['-h writes to stderr'] if done.stderr else []))
        if verb == 'trace':  # whose parts take options
            continue
        if '  --json' not in done.stdout:
            tap.check(f'{verb} takes --json', ['it does not'])
            continue
        tap.check(f'{verb} --jsn', expect(
            run(verb, '--jsn'), 2, err="did you mean '--json'?"))
        tap.check(f'{verb} with an unknown option and --json',
                  expect_json_error(run(verb, '--zzzzzz', '--json'), 2,
                                    "no option '--zzzzzz'"))
        tap.check(f'{verb} --json=1', expect(
            run(verb, '--json=1'), 2, err='takes no value'))


def check_demos(tap):
    """demo -h shows what each demo's own -h shows."""
    whole = run('demo', '-h')
    tap.check('demo -h', expect(whole, 0) + [
        f'lacks the help of {name}' for name in ('mnist', 'llama', 'train-llama')
        if run('demo', name, '-h').stdout not in whole.stdout])


def check_environment(tap):
    tap.check('BELL_DEBUG typo', expect(
        run('devices', BELL_DEBUG='shed'), 2, err="unknown topic 'shed'"))
    tap.check('BELL_DEBUG typo with --json', expect_json_error(
        run('devices', '--json', BELL_DEBUG='mem,shed'), 2, "'shed'"))
    for verb in (('devices',), ('eval', '1', '--device', 'CPU')):
        done = run(*verb, BELL_DEBUG='help')
        n_tables = done.stderr.count('BELL_DEBUG takes')
        tap.check(f'BELL_DEBUG=help {verb[0]}', expect(
            done, 0, err='sched') + [f'{n_tables} tables'] * (n_tables != 1))
    tap.check('BELL_MATH typo', expect(
        run('eval', '1', BELL_MATH='tf23'), 2,
        err="BELL_MATH: unknown word 'tf23'; known: exact, tf32"))
    for name, value in (('BELL_THREADS', 'abc'), ('BELL_THREADS', '0'),
                        ('BELL_THREADS', '-3'), ('BELL_THREADS', '99999'),
                        ('BELL_THREADS', ''), ('BELL_SPIN_US', 'abc')):
        for device in ((), ('--device', 'CPU')):
            tap.check(f'{name}={value} {" ".join(device)}', expect(
                run('eval', '1', *device, **{name: value}), 2,
                err=f"{name} is '{value}', not "))


def check_full(tap):
    """What cannot be written is told, whoever asked for it."""
    eval_cpu = ('eval', 'ones([4]) + 1', '--device', 'CPU')
    for args in (('--version',), ('-h',), ('-h', '--json'), ('eval', '-h'),
                 ('devices',), ('devices', '--json'), eval_cpu,
                 ('send', 'AMD@null:gfx1100', '--script', '/dev/null'),
                 ('send', 'AMD@null:gfx1100'),
                 ('sim', '-h'), ('trace', '-h'), ('trace', 'show', '-h'),
                 ('cache', 'show'), ('kernel', 'ones(4) + 1', '--emit', 'ir')):
        with open('/dev/full', 'w', encoding='utf-8') as full:
            done = subprocess.run([DOORBELL, *args], stdout=full, check=False,
                                  stderr=subprocess.PIPE, text=True,
                                  input='help\n', timeout=300)
        said = '/dev/null' not in args
        tap.check(f'stdout is full: {" ".join(args)}', [
            f'exit code {done.returncode}: {done.stderr}'] if said != (
                done.returncode == 1 and 'cannot write to stdout' in
                done.stderr) else [])
    for name, more in (('BELL_DEBUG_FILE', {'BELL_DEBUG': 'exec,kernels'}),
                       ('BELL_PROFILE', {})):
        done = run(*eval_cpu, **{name: '/dev/full'}, **more)
        tap.check(f'{name} on a full disk', expect(
            done, 1, out='2', err=f'{name}: /dev/full: ') + [
                f'{n} messages' for n in [done.stderr.count('doorbell: ')]
                if n != 1])


def check_sim(tap):
    for args, message in (
            (('NV@sim:sm_90', '--debug', 'bogus'), "unknown topic 'bogus'"),
            (('NV@sim:sm_90', '--debug', 'push,quiet'), "topic 'quiet'"),
            (('NV@record:/nowhere/c@sim:sm_90',
              'AMD@record:/nowhere/c@sim:gfx1100'), 'one file for two')):
        tap.check(f'sim {" ".join(args)}', expect_json_error(
            run('sim', *args, '--json', '--', 'true'), 2, message))


def check_recordings(tap):
    """A recording replaces a file when there is one, and follows no link."""
    with tempfile.TemporaryDirectory() as folder:
        old, link = f'{folder}/old', f'{folder}/link'
        with open(old, 'w', encoding='utf-8') as file:
            file.write('old')
        os.symlink(old, link)
        if not os.path.exists('/dev/nvidiactl'):
            tap.check('a recording without a card', expect(
                run('eval', '1', '--device', f'NV@record:{old}'), 3))
        tap.check('a recording over a link', expect(
            run('eval', 'ones([2])+1', '--device',
                f'NV@record:{link}@sim:sm_90'), 0) +
            (['the link is there'] if os.path.islink(link) else []))
        tap.check('a recording over a folder', expect(
            run('eval', '1', '--device', f'NV@record:{folder}@sim:sm_90'), 1,
            err='exists and is not a regular file'))
        with open(old, encoding='utf-8') as file:
            tap.check('the file is as it was',
                      [c for c in ['it is not'] if file.read() != 'old'])
        tap.check('nothing else is left', [
            c for c in os.listdir(folder) if c not in ('old', 'link')])


def check_devices(tap):
    tap.check('devices', expect(run('devices'), 0, out='CPU:0'))
    done = run('devices', '--json')
    complaints = expect(done, 0)
    if not complaints:
        devices = json.loads(done.stdout)['devices']
        cpus = [d for d in devices if d['name'] == 'CPU:0']
        if len(cpus) != 1 or not cpus[0]['usable'] or cpus[0]['n_units'] < 1:
            complaints.append(f'CPU:0 is not right: {cpus}')
    tap.check('devices --json', complaints)
    simulated = json.loads(done.stdout).get('simulated', [])
    tap.check('every simulated card that is named can be opened', [
        c for name in simulated
        for c in expect(run('devices', name), 0, out=name.split('@')[1])])
    tap.check('devices CPU', expect(run('devices', 'CPU'), 0, out='CPU:0'))
    tap.check('devices CPU:7', expect(run('devices', 'CPU:7'), 3, err='CPU'))
    tap.check('a backend that does not exist', expect_json_error(
        run('devices', 'XPU', '--json'), 3, 'XPU'))
    tap.check('a name that is none', expect(run('devices', 'CPU:x'), 2))
    tap.check('too many arguments', expect(
        run('devices', 'CPU', 'CPU'), 2, err="unexpected argument 'CPU'"))


def check_doctor(tap):
    done = run('doctor', '--json')
    complaints = expect(done, 0)
    if not complaints and not json.loads(done.stdout)['healthy']:
        complaints = ['not healthy', done.stdout]
    tap.check('doctor', complaints)
    done = run('doctor', BELL_DEVICE='NV:3')
    tap.check('doctor finds a wrong BELL_DEVICE', expect(
        done, 1, out='unset BELL_DEVICE'))


def check_kernel(tap):
    done = run('kernel', 'relu(x @ w)', '--in', 'x=64x48', '--in',
               'w=48x64',
               '--runs', '3', '--show', 'sched,opt,uops', '--json')
    complaints = expect(done, 0)
    if not complaints:
        result = json.loads(done.stdout)
        if result['n_kernels_compiled'] != 1 or result['n_launches'] != 1:
            complaints.append('a product and relu are more than one kernel')
        for part in ('sched: store', 'opt: range', 'uops: '):
            if not any(line.startswith(part) for line in result['trace']):
                complaints.append(f'no "{part}" in the trace')
    tap.check('kernel --json', complaints)
    tap.check('kernel', expect(run('kernel', 'x * 2', '--in', 'x=3:int8'), 0,
                               out='us a run'))
    done = run('kernel', 'x[0:2] * 2', '--in', 'x=256x8', '--json')
    tap.check('kernel: of the rows that are taken', expect(done, 0) + (
        [] if done.returncode or json.loads(done.stdout)['n_bytes'] == 128
        else [done.stdout]))
    tap.check('kernel --emit llvm', expect(
        run('kernel', 'x * 2', '--in', 'x=9', '--emit', 'llvm', '--device',
            'CPU'), 0, out='define void @'))
    if SIMULATED:
        done = run('kernel', 'x.sum()', '--in', 'x=9', '--emit', 'ptx')
        tap.check('kernel --emit ptx', expect(
            done, 0, out='.target sm_90') + (
                [done.stdout] if 'us a run' in done.stdout else []))
        # No simulated card multiplies these while a test waits.
        done = run('kernel', 'relu(x @ y)', '--in', 'x=4096x4096', '--in',
                   'y=4096x4096', '--emit', 'ptx', BELL_DEBUG='exec')
        tap.check('kernel --emit launches nothing', expect(
            done, 0, out='.target sm_90') + (
                ['launched'] if 'exec: ' in done.stdout + done.stderr else []))
        done = run('kernel', 'x @ y', '--in', 'x=4096x4096:bfloat16', '--in',
                   'y=4096x4096:bfloat16', '--emit', 'ptx', '--device',
                   'NV@sim:h100')
        counts = [done.stdout.count(word) for word in (
            'wgmma.mma_async', 'cp.async.bulk.tensor', 'cp.async.c',
            'st.global.v4', 'st.global')]
        tap.check('kernel: a product for an H100', expect(done, 0) + (
            [] if counts == [4, 15, 0, 16, 16] else [str(counts)]))
        # Scores of so many steps in two places, and results with a tile's keys.
        for size in (80, 96):
            done = run('kernel', 'scaled_dot_product_attention(q, k, v)',
                       *(f'--in={name}=8x2048x{size}:bfloat16' for name in 'qkv'),
                       '--emit', 'ptx', '--device', 'NV@sim:h100')
            counts = [done.stdout.count(word) for word in (
                'wgmma.mma_async', 'mma.sync')]
            tap.check(f'kernel: attention of {size} elements for an H100',
                      expect(done, 0) + ([] if counts == [
                          2 * (size // 16 + 128 // 16), 0] else [str(counts)]))
        tap.check('kernel for a simulated card', expect(
            run('kernel', 'x * 2', '--in', 'x=9', '--runs', '3', '--device',
                'NV@sim:sm_80', '--show', 'render'), 0,
            out='.target sm_80'))
    else:
        tap.skip('kernel --emit ptx', 'built without simulated cards')
    tap.check('kernel --emit for another device', expect(
        run('kernel', '1', '--emit', 'ptx', '--device', 'CPU'), 2,
        err='have no such form'))
    for args, part in ((('x +', '--in', 'x=3'), 'column 4'), (('y',), 'column 1'),
                       (('x @ x', '--in', 'x=3x2'), 'inner sizes')):
        tap.check(f'kernel fails on {" ".join(args)}', expect_json_error(
            run('kernel', *args, '--json'), 1, part))
    for args, part in (
                       (('1', '--emit', 'c'), 'not graph, sched, ir, dot, uops, ptx, sass, cl, llvm or asm'),
                       (('1', '--emit', 'ptx'), 'no JSON'),
                       (('1', '--ir', 'x'), 'in place of EXPR'),
                       (('--ir', 'x', '--in', 'x=3'), 'in place of EXPR'),
                       (('x', '--in', 'x=3:flot'), "no dtype 'flot'"),
                       (('x', '--in', 'x=3,4'), '--in x=3,4'),
                       (('x', '--in', '=3'), '--in =3'),
                       (('x', '--in', 'x=' + '1x' * 32 + '1'), 'axes'),
                       (('1', '--show', 'shed'), "'shed'"),
                       (('1', '--run'), '--run goes with --ir'),
                       ((), 'no expression')):
        tap.check(f'kernel refuses {" ".join(args)}', expect_json_error(
            run('kernel', *args, '--json'), 2, part))


# Three kernels, which several threads would compile.
THREE = ('relu(relu(x @ y) @ x) @ y', '--in', 'x=64x512', '--in', 'y=512x64')

KERNEL = """%0 = const.i64 8
%1 = range.i64 #0:loop %0
%2 = param.f32 #0
%3 = param.f32 #1
%4 = load.f32 %3, %1
%5 = store.void %2, %1, %4
%6 = sink.void %5
roots %6
"""

# What is not a kernel, and what is said of it.
BAD_IR = (
    ('', "'roots' expected"),
    ('%0 = const.i64 x\nroots %0\n', 'kernel 1: line 1, column 16'),
    ('%0 = const.i64 8\nroots %0\n', 'a SINK of STOREs'),
    ('roots\n', 'one root, not 0'),
    (KERNEL.replace('0:loop', '0:vector'), 'loop or reduce'),
    (KERNEL.replace('0:loop', '0:reduce'), 'is not bound'),
    (KERNEL.replace('0:loop', '64:loop'), 'ids are 0..63'),
    (KERNEL.replace('param.f32 #1', 'param.f32 #128'), 'slots are 0..127'),
    (KERNEL.replace('%3 = param.f32 #1', '%3 = param.i32 #0'), 'source 0 is i32'),
    (KERNEL.replace('load.f32 %3', 'load.f32 %0'), 'source 0 is'),
    (KERNEL.replace('%2 = param.f32 #0', '%2 = local.f32 #0:8'), 'stage K'),
    (KERNEL + KERNEL.replace('%4\n', '%4, %1\n'), 'kernel 2: '),
    (KERNEL + '%0 = const.i64 8\n', "kernel 2: line 2"),
)


# What is loaded is an index: of a row of 64, or of a place behind it.
INDIRECT = """
; indirect:
%0 = param.f32 #0
%1 = const.i64 {n}
%2 = range.i64 #0:loop %1
%3 = param.f32 #2
%4 = param.i64 #1
%5 = load.i64 %4, %2
%6 = const.i64 4294967295
%7 = and.i64 %5, %6
%8 = const.f32 0
%9 = const.i64 {less}
%10 = cmplt.bool %7, %9
%11 = const.i64 {by}
%12 = mul.i64 %7, %11
%13 = add.i64 %12, %2
%14 = load.f32 %3, %13, %8, %10
%15 = store.void %0, %2, %14
%16 = sink.void %15
roots %16
"""


def check_ir_sizes(tap, path):
    """Buffers of --run are as large as gates let indices be, up to a limit."""
    def run_indirect(n, less, by):
        with open(path, 'w', encoding='ascii') as file:
            file.write(INDIRECT.format(n=n, less=less, by=by))
        return run('kernel', '--ir', path, '--device', 'CPU', '--run',
                   '--runs', '1', '--json')

    for less, by in (64, 1), (64, 64), (1, 64), (-5, 1), (5000, 5000):
        tap.check(f'kernel --ir --run: a gate below {less}, rows of {by}',
                  expect(run_indirect(64, less, by), 0))
    for less, by, n_bytes in ((1 << 31, 1, 4 * ((1 << 31) + 63)),
                              (1 << 40, 1, 4 * ((1 << 32) + 63))):
        tap.check(f'kernel --ir --run: a gate below {less}', expect_json_error(
            run_indirect(64, less, by), 6,
            f'kernel 1: E_64: parameter 2 has {n_bytes} bytes'))


def check_ir(tap):
    """Kernels as text, printed and read back."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'kernels.ir')
        for device in ['CPU'] + ['NV@sim:sm_90'] * SIMULATED:
            args = ('--device', device)
            language = 'llvm' if device == 'CPU' else 'ptx'
            done = run('kernel', *THREE, *args, '--emit', 'ir')
            with open(path, 'w', encoding='ascii') as file:
                file.write(done.stdout)
            source = run('kernel', *THREE, *args, '--emit', language)
            again = run('kernel', '--ir', path, *args, '--emit', language)
            tap.check(f'kernel --ir goes on where --emit ir ends: {device}',
                      expect(done, 0, out='roots') + expect(again, 0) + (
                          [] if source.stdout == again.stdout
                          else ['other code']))
            done = run('kernel', '--ir', path, *args, '--show', 'opt',
                       '--json')
            complaints = expect(done, 0)
            if not complaints:
                result = json.loads(done.stdout)
                if (len(result['kernels']) < 3 or result['device'][:2] !=
                        device[:2] or
                        not all(k['binary_bytes'] for k in result['kernels'])):
                    complaints.append(done.stdout)
            tap.check(f'kernel --ir --json: {device}', complaints)
            done = run('kernel', '--ir', path, *args, '--show', '', '--run',
                       '--runs', '3', '--json')
            complaints = expect(done, 0) or schema_complaints(
                'kernel', done.stdout)
            if not complaints and not all(
                    k['device_us'] > 0
                    for k in json.loads(done.stdout)['kernels']):
                complaints.append(done.stdout)
            tap.check(f'kernel --ir --run: {device}', complaints)
        tap.check('kernel --ir', expect(
            run('kernel', '--ir', path, '--device', 'CPU'), 0,
            out='work-groups of'))
        for text, part in BAD_IR:
            with open(path, 'w', encoding='ascii') as file:
                file.write(text)
            tap.check(f'kernel --ir: {part}', expect_json_error(
                run('kernel', '--ir', path, '--device', 'CPU', '--json'), 1,
                part))
        with open(path, 'w', encoding='ascii') as file:
            file.write(run('kernel', 'gather(x, 0, i)', '--in', 'x=8x8',
                           '--in', 'i=2x8:int64', '--device', 'CPU', '--emit',
                           'ir').stdout)
        tap.check('kernel --ir --run: indices of any size', expect_json_error(
            run('kernel', '--ir', path, '--device', 'CPU', '--run', '--json'),
            6, 'nothing bounds the indices'))
        check_ir_sizes(tap, path)
        with open(path, 'wb') as file:
            file.write(b'%0 = \0')
        tap.check('kernel --ir: zeros', expect_json_error(
            run('kernel', '--ir', path, '--device', 'CPU', '--json'), 1,
            'is not text'))
        tap.check('kernel --ir: no file', expect_json_error(
            run('kernel', '--ir', path + '2', '--device', 'CPU', '--json'), 1,
            path + '2'))
    done = run('kernel', *THREE, '--device', 'CPU', '--emit', 'dot')
    tap.check('kernel --emit dot', expect(done, 0, out='digraph uops {') + [
        line for line in done.stdout.splitlines()
        if not line.startswith(('//', 'digraph', '  ', '}'))])


FORMS = (('graph', 'reduce_axis', None), ('sched', 'store ', None),
         ('ir', 'roots', '; r_'), ('dot', 'digraph', '// r_'),
         ('uops', ': optimised:', '; r_'), ('ptx', '.target sm_90a', '// r_'))


# Its last places are gated lane by lane: LLVM 19 crashed on that for gfx1030,
# gfx1100 and gfx1201.
GATED_LANES = """\
%0 = param.bf16 #0
%1 = const.i64 3
%2 = range.i64 #0:loop %1
%3 = const.i64 2039
%4 = var.i64 #3 %1, %3
%5 = const.i64 -1
%6 = add.i64 %4, %5
%7 = mul.i64 %2, %6
%8 = const.i64 33
%9 = range.i64 #2:loop %8
%10 = mul.i64 %9, %6
%11 = mul.i64 %10, %1
%12 = param.bool #1
%13 = const.bf16 3
%14 = param.bf16 #2
%15 = range.i64 #3:reduce %8
%16 = mul.i64 %15, %6
%17 = mul.i64 %16, %1
%18 = const.f32 1.442695
%19 = range.i64 #4:reduce %8
%20 = mul.i64 %19, %6
%21 = mul.i64 %20, %1
%22 = const.i64 2038
%23 = range.i64 #1:loop %22
%24 = cmplt.bool %23, %6
%25 = add.i64 %7, %23
%26 = add.i64 %25, %11
%27 = const.bool 0
%28 = load.bool %12, %23, %27, %24
%29 = const.bf16 0
%30 = load.bf16 %14, %26, %29, %24
%31 = where.bf16 %28, %13, %30
%32 = neg.bf16 %31
%33 = cast.f32 %32
%34 = add.i64 %25, %17
%35 = load.bf16 %14, %34, %29, %24
%36 = where.bf16 %28, %13, %35
%37 = neg.bf16 %36
%38 = cast.f32 %37
%39 = reduce.f32 #max %38, %15
%40 = sub.f32 %33, %39
%41 = mul.f32 %40, %18
%42 = exp2.f32 %41
%43 = add.i64 %25, %21
%44 = load.bf16 %14, %43, %29, %24
%45 = where.bf16 %28, %13, %44
%46 = neg.bf16 %45
%47 = cast.f32 %46
%48 = sub.f32 %47, %39
%49 = mul.f32 %48, %18
%50 = exp2.f32 %49
%51 = reduce.f32 #add %50, %19
%52 = recip.f32 %51
%53 = mul.f32 %42, %52
%54 = cast.bf16 %53
%55 = store.void %0, %26, %54, %24
%56 = sink.void %55
roots %56
"""


def check_gated_lanes(tap):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'gated.ir')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(GATED_LANES)
        for chip in ('gfx90a', 'gfx942', 'gfx1030', 'gfx1100', 'gfx1201'):
            done = run('kernel', '--ir', path, '--device', f'AMD@null:{chip}')
            tap.check(f'gates of many lanes on {chip}', expect(done, 0))


def check_forms(tap):
    """Every form of --emit, of all kernels and of one; on a device that runs
    nothing."""
    args = ('kernel', *THREE, '--device', 'NV@null:h100')
    for form, part, title in FORMS:
        done = run(*args, '--emit', form)
        tap.check(f'kernel --emit {form}', expect(done, 0, out=part))
        if not title:
            tap.check(f'kernel --emit {form} --kernel', expect(
                run(*args, '--emit', form, '--kernel', '1'), 2,
                err='an --emit of kernels'))
            continue
        one = run(*args, '--emit', form, '--kernel', '2').stdout
        names = {line.split(':')[0] for line in one.splitlines()
                 if line.startswith(title)}
        tap.check(f'kernel --emit {form} of one kernel', (
            [] if len(names) == 1 and one in done.stdout else [one]))
        name = names.pop().split()[1] if names else '?'
        named = run(*args, '--emit', form, '--kernel', name).stdout
        tap.check(f'kernel --emit {form} of a kernel by name', (
            [] if one and one in named else [named]))
    tap.check('kernel --emit of no kernel', expect(
        run(*args, '--emit', 'ptx', '--kernel', '9'), 1,
        err='no such kernel'))
    done = run(*args)
    tap.check('kernel on a device that runs nothing', expect(
        done, 0, out='work-groups of') + (
            ['it was run'] if 'us a run' in done.stdout else []))
    done = run(*args, '--json')
    tap.check('kernel --json on a device that runs nothing', (
        [] if len(json.loads(done.stdout)['kernels']) >= 3
        else [done.stdout]))
    sass = run(*args, '--emit', 'sass')
    tap.check('kernel --emit sass', (
        [] if (sass.returncode == 0 and 'EXIT' in sass.stdout) or
        'install the package' in sass.stderr else [sass.stderr]))
    sass = run(*args, '--emit', 'sass', PATH='/nowhere', CUDA_HOME='/nowhere',
               BELL_PTXAS='/bin/true')
    tap.check('kernel --emit sass without nvdisasm', (
        [] if 'nvdisasm' in sass.stderr or sass.returncode == 0
        else [sass.stderr]))
    for device, form, part in (('AMD@null:mi300x', 'asm', 's_endpgm'),
                               ('CPU@null:x86-64-v4', 'asm', 'zmm'),
                               ('CPU@null:x86-64-v3', 'asm', 'ymm'),
                               ('CPU@null:x86-64-v3', 'llvm', 'define')):
        tap.check(f'kernel --emit {form} for {device}', expect(
            run('kernel', 'x + 1', '--in', 'x=4096', '--device', device,
                '--emit', form), 0, out=part))


def stats_of(expr, inputs, device, *args):
    done = run('kernel', expr, *(f'--in={i}' for i in inputs), '--stats',
               '--json', '--device', device, *args)
    if done.returncode:
        return None, [done.stderr + done.stdout]
    return json.loads(done.stdout), []


def check_attention(tap):
    """What limits attention: of heads for all units, a part of the groups."""
    for device, heads, size, least in (('NV@sim:h100', 33, 128, 0.55),
                                       ('AMD@sim:mi300x', 80, 128, 0.62),
                                       ('AMD@sim:mi300x', 80, 64, 0.49),
                                       ('AMD@sim:rx7900xtx', 48, 128, 0.55)):
        shape = f'1x{heads}x512x{size}:bfloat16'
        stats, complaints = stats_of(
            'scaled_dot_product_attention(q, k, v)',
            [f'{name}={shape}' for name in 'qkv'], device, '--groups', '1')
        if stats:
            k, = stats['kernels']
            part = k['terms_us']['matrices'] / k['predicted_us']
            if part < least:
                complaints.append(f'{part:.2f} of the matrix rate: {k}')
        tap.check(f'kernel --stats of attention on {device}, heads of {size}',
                  complaints)
    # queries stay in registers: tiles of 32 keys and values are all of LDS
    stats, complaints = stats_of(
        'scaled_dot_product_attention(q, k, v, is_causal=True)',
        [f'{name}=1x80x512x128:bfloat16' for name in 'qkv'], 'AMD@sim:mi300x',
        '--groups', '1')
    if stats:
        k, = stats['kernels']
        if k['shared_bytes'] > 2 * 32 * 128 * 2:
            complaints.append(f'{k}')
    tap.check('kernel --stats of causal attention on mi300x', complaints)


def check_stats(tap):
    """kernel --stats: what is known of these kernels beforehand."""
    n_rows = 64 if FEW else 256
    halves = (f'x={n_rows}x512:bfloat16', 'w=512x256:bfloat16')
    flops = 2 * n_rows * 512 * 256
    for device in COUNTED:
        stats, complaints = stats_of('x @ w', halves, device)
        if stats:
            k = max(stats['kernels'], key=lambda k: k['matrix_flops'])
            if k['matrix_flops'] != flops or not k['n_insns']['matrix']:
                complaints.append(f'matrix operations: {k}')
            if not (0 < k['predicted_us'] == max(k['terms_us'].values()) and
                    k['terms_us'][k['limit']] == k['predicted_us']):
                complaints.append(f'times: {k}')
            if not (k['n_registers'] and k['groups_per_unit'] and
                    0 < k['occupancy'] <= 1 and k['shared_bytes'] and
                    k['n_wavefronts'] >= k['least_wavefronts'] > 0):
                complaints.append(f'what it takes: {k}')
        tap.check(f'kernel --stats of a product on {device}', complaints)
        stats, complaints = stats_of('x + 1', ('x=256x1024',), device)
        if stats:
            k, = stats['kernels']
            n = 4 * 256 * 1024
            if (k['loaded_bytes'], k['stored_bytes'], k['load_sectors'],
                    k['store_sectors']) != (n, n, n / 32, n / 32):
                complaints.append(f'{k}')
            if k['n_wavefronts'] or k['matrix_flops'] or k['n_divergent']:
                complaints.append(f'more than it does: {k}')
        tap.check(f'kernel --stats of an addition on {device}', complaints)
    halves = ('x=256x512:bfloat16', 'w=512x256:bfloat16')
    part, complaints = stats_of('x @ w', halves, 'NV@sim:h100', '--groups',
                                '2')
    whole = None if FEW else stats_of('x @ w', halves, 'NV@sim:h100')[0]
    if part and whole:
        a, b = part['kernels'][0], whole['kernels'][0]
        for key in ('matrix_flops', 'load_sectors', 'n_wavefronts'):
            if abs(a[key] - b[key]) > 0.01 * b[key]:
                complaints.append(f'{key}: {a[key]}, of all {b[key]}')
        if not a['n_groups_run'] <= 2 < b['n_groups_run']:
            complaints.append(f'groups: {a["n_groups_run"]}')
    tap.check('kernel --stats --groups', complaints)
    if not FEW:
        check_attention(tap)
    stats, complaints = stats_of('x @ w', halves, 'NV@null:h100')
    if stats and ('n_insns' in stats['kernels'][0] or
                  not stats['kernels'][0]['terms_us']['matrices']):
        complaints.append(f'{stats}')
    tap.check('kernel --stats on a device that runs nothing', complaints)
    done = run('kernel', 'softmax(x, -1)', '--in', 'x=64x256', '--stats',
               '--device', 'NV@sim:h100', BELL_PTXAS='/nowhere/ptxas')
    tap.check('kernel --stats without ptxas', expect(
        done, 0, out='(estimated)'))
    tap.check('kernel --stats on a chip that is no product', expect(
        run('kernel', 'x + 1', '--in', 'x=64', '--stats', '--device',
            'NV@sim:sm_90'), 0, out='not a product'))
    for args, part in ((('--device', 'CPU', '--stats'), 'neither simulated'),
                       (('--device', 'CPU@null:x86-64-v3', '--stats'),
                        'not a GPU')):
        tap.check(f'kernel {" ".join(args)}', expect_json_error(
            run('kernel', '1', *args, '--json'), 1, part))
    for args in (('--stats', '--emit', 'ptx'), ('--groups', '3')):
        tap.check(f'kernel {" ".join(args)}', expect(
            run('kernel', '1', *args), 2, err='--stats'))


def check_emit(tap):
    """One kernel after the other, for the device that is meant."""
    outputs = {run('kernel', *THREE, '--emit', 'ptx').stdout
               for _ in range(6)}
    tap.check('kernel --emit prints the same every time',
              [f'{len(outputs)} texts'] if len(outputs) > 1 else [])
    for device, part in (('NV@sim:sm_80', '.target sm_80'),
                         ('AMD@sim:gfx942', 'amdgpu_kernel'),):
        language = 'ptx' if device[0] == 'N' else 'llvm'
        tap.check(f'kernel --emit {language}, BELL_DEVICE={device}', expect(
            run('kernel', '1', '--emit', language, BELL_DEVICE=device), 0,
            out=part))
    tap.check('kernel --emit for another device by BELL_DEVICE', expect(
        run('kernel', '1', '--emit', 'ptx', BELL_DEVICE='CPU'), 2,
        err='have no such form'))
    check_forms(tap)
    check_stats(tap)
    args = ('kernel', 'x @ y', '--in', 'x=512x512', '--in', 'y=512x512',
            '--emit', 'ptx')
    named = run(*args, '--device', 'NV@sim:h100')
    meant = run(*args, BELL_DEVICE='NV@sim:h100')
    tap.check('kernel --emit for a card of 132 processors', (
        [] if named.stdout == meant.stdout else [meant.stdout]))


# What kernels of an expression that has all of it are made of, by --math.
EXPRESSION = ('exp2(x @ w) / sqrt(x) + sin(log2(x))', '--in', 'x=64x64', '--in',
              'w=64x64')
EXACT = ('div.rn.f32', 'sqrt.rn.f32')
APPROX = ('div.full.f32', 'sqrt.approx.f32', 'ex2.approx.f32',
          'lg2.approx.f32', 'sin.approx.f32')
TF32 = ('f32.tf32.tf32.f32',)


def check_math(tap):
    for verb in ('bench', 'demo', 'eval', 'kernel'):
        words = {'demo': ('mnist',), 'eval': ('1',), 'kernel': ('1',)}
        tap.check(f'{verb} --math fast', expect_json_error(
            run(verb, *words.get(verb, ()), '--math', 'fast', '--json'), 2,
            f"{verb}: --math: unknown word 'fast'"))
    for words in ('tf32', 'exact'):
        done = run('eval', '1 / 3', '--device', 'CPU', '--math', words,
                   '--json', BELL_MATH='approx')
        tap.check(f'--math {words} replaces BELL_MATH', expect(done, 0) + [
            c for c in [done.stdout] if f'"math": "{words}"' not in c])
    if not SIMULATED:
        tap.skip('kernel --math', 'built without simulated cards')
        return
    for words, there in (('exact', EXACT), ('tf32', EXACT + TF32),
                         ('approx', APPROX), ('tf32,approx', APPROX + TF32)):
        for how in ({'BELL_MATH': words}, {}):
            args = () if how else ('--math', words)
            done = run('kernel', *EXPRESSION, *args, '--emit', 'ptx', **how)
            tap.check(f'kernel for {words} {"by BELL_MATH" if how else ""}',
                      expect(done, 0) + [
                          f'{part}: {part in done.stdout}'
                          for part in EXACT + APPROX + TF32
                          if (part in done.stdout) != (part in there)])
    # What compares with exact results asks for exact ones.
    tap.check('selftest and fuzz stay exact', expect(
        run('fuzz', 'NV@sim:sm_90', '--programs', '5', '--seed', '3',
            BELL_MATH='tf32,approx'), 0) + expect(
        run('fuzz', 'NV@sim:sm_90', '--programs', '12', '--seed', '5',
            '--vary', BELL_MATH='tf32,approx'), 0, out='0 mismatches') + expect(
        run('fuzz', 'AMD@sim:gfx1100', '--programs', '8', '--seed', '6',
            '--jit'), 0, out='0 mismatches') + expect(
        run('selftest', 'NV@sim:sm_90', '--only', 'tensors',
            BELL_MATH='tf32,approx'), 0))


def check_values(tap):
    """Each option of each verb: a value is given once, and is not empty."""
    verbs = json.loads(run('help', '--json').stdout)['verbs']
    words = [(verb['name'],) for verb in verbs if not verb['parts']] + [
        (verb['name'], part) for verb in verbs for part in verb['parts']]
    for word in words:
        done = run(*word, '-h', '--json')
        complaints = expect(done, 0)
        options = [] if complaints else json.loads(done.stdout)['options']
        for option in options:
            name, value = option['name'], option['value']
            if option['is_argument'] or not value:
                continue
            if value not in ('TEXT', 'TOPICS'):
                complaints += expect(run(*word, name, ''), 2,
                                     err=f'{name} needs a value (')
            if not option['repeats']:
                texts = ('1', '4', '64', '0.5')
                complaints += min((expect(
                    run(*word, name, text, f'{name}={text}'), 2,
                    err=f'{name} is given twice') for text in texts), key=len)
            else:
                complaints += expect(
                    run(*word, name, 'x=1', f'{name}=x=1'), 2,
                    err=f'{name} x' + '=1' * (value[:5] != 'name=') +
                    ' is given twice')
        tap.check(f'values of {" ".join(word)}', complaints)


def main():
    tap = Tap()
    check_usage(tap)
    check_values(tap)
    check_demos(tap)
    check_environment(tap)
    check_devices(tap)
    check_full(tap)
    if SIMULATED:
        check_sim(tap)
        check_recordings(tap)
    check_doctor(tap)
    check_kernel(tap)
    check_ir(tap)
    check_gated_lanes(tap)
    if SIMULATED:
        check_emit(tap)
    check_math(tap)
    tap.finish()


if __name__ == '__main__':
    main()
