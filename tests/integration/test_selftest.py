#!/usr/bin/env python3
"""`doorbell selftest`: on the CPU, on simulated cards where there are some,
and its options.

usage: test_selftest.py DOORBELL
"""
import json
import os
import tempfile

from cli import Tap, expect, expect_json_error, run

# Not every chip has that window; a sanitizer takes the addresses that the
# other needs; most machines have one device.
MAY_SKIP = ('doorbell-bar0', 'uvm', 'two-devices')
SIMULATED = ('NV@sim:sm_80', 'NV@sim:sm_89', 'NV@sim:sm_90',
             'NV@sim:sm_120', 'AMD@sim:gfx1100', 'AMD@sim:gfx942', 'AMD:1@sim:gfx942*2',
             'AMD@sim:gfx90a', 'AMD@sim:gfx1030', 'AMD@sim:gfx1201')


def has(device):
    return run('devices', device).returncode == 0


def steps_of(done):
    try:
        return json.loads(done.stdout)['steps']
    except (ValueError, KeyError):
        return []


def check_options(tap):
    listed = run('selftest', '--list', '--json')
    names = [step['name'] for step in steps_of(listed)]
    tap.check('steps are listed', expect(listed, 0) + [
        f'no {n}' for n in ('control-node', 'kfd-node', 'copy-4k', 'store',
                            'hung-kernel', 'random-kernels') if n not in names] + [
        c for c in ['a name twice'] if len(set(names)) != len(names)])
    only = run('selftest', 'CPU', '--only', 'fill', '--repeat', '50', '--json')
    steps = steps_of(only)
    tap.check('one step, 50 times', expect(only, 0) + [
        c for c in [f'{steps}'] if len(steps) != 1
        or steps[0]['n_runs'] != 50 or steps[0]['verdict'] != 'passed'])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'selftest.json')
        both = run('selftest', 'CPU', '--only', 'fill', '--save', path)
        with open(path, encoding='utf-8') as file:
            saved = json.load(file)
    tap.check('saved beside the text', expect(
        both, 0, out='1 passed, 0 failed') + [
        c for c in [f'{saved}'] if saved['n_passed'] != 1])
    late = steps_of(run('selftest', 'CPU', '--from', 'tensors', '--programs',
                        '3', '--json'))
    tap.check('from a step on', [] if [s['name'] for s in late] == [
        'tensors', 'random-kernels'] else [str(late)])
    tap.check('a step that is not there', expect(
        run('selftest', 'CPU', '--only', 'fil'), 2, err="did you mean 'fill'"))
    tap.check('a step of other devices', [
        complaint for option in ('--only', '--from') for complaint in expect(
            run('selftest', 'CPU', option, 'store'), 2,
            err="CPU has no step 'store', which is for: NV, AMD")])
    tap.check('no such device', expect_json_error(
        run('selftest', 'NV@sim:sm_1', '--json'), 3, ''))
    tap.check('no such backend', expect(run('selftest', 'XX'), 3))


def check_device(tap, device, *more):
    done = run('selftest', device, '--json', *more)
    steps = steps_of(done)
    tap.check(f'all steps on {device}', expect(done, 0) + [
        f'{s["name"]}: {s["verdict"]}: {s.get("came", s.get("why"))}'
        for s in steps if s['verdict'] != 'passed'
        and not (s['verdict'] == 'skipped' and s['name'] in MAY_SKIP)] + [
        c for c in ['no steps'] if len(steps) < 15] + [
        c for c in ['two-devices did not run'] if '*2' in device and
        device.startswith('AMD') and not any(
            s['name'] == 'two-devices' and s['verdict'] == 'passed'
            for s in steps)])


def check_pairs(tap):
    """Each other card of a box is tried, over every kind of link."""
    for device in 'NV@sim:sm_90*3,link=0-1:pcie', 'NV:1@sim:sm_120*2':
        done = run('selftest', device, '--only', 'two-devices', '--json')
        tap.check(f'pairs of {device}', expect(done, 0) + [
            f'{s}' for s in steps_of(done) if s['verdict'] != 'passed'])
    done = run('selftest', 'NV@sim:sm_90*2,link=none', '--only', 'two-devices')
    tap.check('no pair', expect(done, 0, out="reaches another's memory"))


def check_words(tap):
    """What is unproven is said where it is, and only there; and why memory
    cannot be mapped."""
    for device, said in (('NV@sim:sm_90', False), ('NV@sim:sm_120', True)):
        done = run('selftest', device, '--only', 'classes')
        tap.check(f'unproven classes on {device}', expect(done, 0) + [
            c for c in [done.stdout] if ('unproven: ' in c) != said])
    done = run('selftest', 'NV@sim:sm_90,cc', '--only', 'video-memory')
    tap.check('confidential computing is named', expect(
        done, 1, out='confidential computing is on'))


def check_failure(tap):
    """A call that fails: the step says what was sent and what came back."""
    device = 'NV@fault:NV0080_CTRL_CMD_GPU_GET_CLASSLIST=EIO@sim:sm_90'
    done = run('selftest', device, '--only', 'classes')
    tap.check('a failing step says why', expect(
        done, 1, out='sent     NV0080_CTRL_CMD_GPU_GET_CLASSLIST') + [
        f'no "{part}"' for part in ('came     ', 'Input/output error',
                                    'look at  ', '1 failed')
        if part not in done.stdout])
    done = run('selftest', device, '--json')
    steps = steps_of(done)
    failed = [s for s in steps if s['verdict'] == 'failed']
    tap.check('and is the last one', expect(done, 1) + [
        c for c in [f'{failed}'] if len(failed) != 1 or failed[0] != steps[-1]
        or 'Input/output error' not in failed[0]['came']])
    done = run('selftest', device, '--json', '--keep-going', '--programs', '1')
    tap.check('unless told to go on', expect(done, 1) + [
        c for c in ['it stopped'] if steps_of(done)[-1:] == steps[-1:]])
    device = 'NV@fault:ioctl:66=EIO@sim:sm_90'
    done = run('selftest', device, '--from', 'open-device', '--json')
    again = [s['again'] for s in steps_of(done) if s['verdict'] == 'failed']
    tap.check('a step that uses a queue is tried again, recorded', expect(
        done, 1) + [c for c in [f'{again}']
                    if not again or 'recorded' not in again[0]])


# A call of AMD's kernel driver that fails, and the step that says so.
AMD_FAILURES = (
    ('kfd-version', 'AMDKFD_IOC_GET_VERSION'),
    ('address-space', 'AMDKFD_IOC_ACQUIRE_VM'),
    ('vram-visible', 'AMDKFD_IOC_MAP_MEMORY_TO_GPU'),
    ('sdma-ring', 'AMDKFD_IOC_CREATE_QUEUE'),
)


def check_amd_failures(tap):
    for step, call in AMD_FAILURES:
        done = run('selftest', f'AMD@fault:{call}=EIO@sim:gfx1100', '--only',
                   step)
        tap.check(f'{step} says why', expect(done, 1, out='sent     ') + [
            f'no "{part}"' for part in ('Input/output error', 'look at  ',
                                        '1 failed')
            if part not in done.stdout])
    done = run('selftest', 'AMD@fault:AMDKFD_IOC_CREATE_QUEUE=EIO@sim:gfx1100',
               '--from', 'copy-release', '--json')
    looks = [s['look_at'] for s in steps_of(done) if s['verdict'] == 'failed']
    tap.check('what to look at is about AMD', expect(done, 1) + [
        c for c in [f'{looks}'] if not looks or 'GPPut' in looks[0]])
    done = run('selftest', 'AMD@fault:AMDKFD_IOC_ALLOC_MEMORY_OF_GPU:16=ENOMEM'
               '@sim:gfx942', '--only', 'tensors', '--json')
    failed = [s for s in steps_of(done) if s['verdict'] == 'failed']
    tap.check('AMD: a step that uses a queue is tried again, recorded', expect(
        done, 1) + [c for c in [f'{failed}'] if not failed
                    or 'recorded' not in (failed[0]['again'] or '')])


def check_amd_words(tap):
    """What a step sends to each kind of queue has names."""
    for chip, step, words in (
            ('gfx1100', 'bound-stream', ('INDIRECT_BUFFER', 'RELEASE_MEM')),
            ('gfx1100', 'copy-release', ('POLL_REGMEM', 'FENCE')),
            ('gfx942', 'bound-stream', ('PRED_EXEC', 'RELEASE_MEM'))):
        with tempfile.NamedTemporaryFile(suffix='.cas') as file:
            done = run('selftest', f'AMD@record:{file.name}@sim:{chip}',
                               '--only', step)
            shown = run('trace', 'show', file.name)
        tap.check(f'{chip}: what {step} sent is shown', expect(done, 0) + expect(
            shown, 0) + [f'no {word}' for word in words
                         if word not in shown.stdout])


def main():
    tap = Tap()
    check_options(tap)
    if has('NV@sim:sm_90'):
        check_words(tap)
        check_failure(tap)
        check_pairs(tap)
    else:
        tap.skip('a failing step says why', 'no simulated card')
    if has('AMD@sim:gfx1100'):
        check_amd_failures(tap)
        check_amd_words(tap)
    else:
        tap.skip('AMD: a failing step says why', 'no simulated card')
    check_device(tap, 'CPU', '--programs', '8')
    for device in SIMULATED:
        if has(device):
            check_device(tap, device, '--programs', '2')
        else:
            tap.skip(f'all steps on {device}', 'it cannot be opened')
    tap.finish()


if __name__ == '__main__':
    main()
