#!/usr/bin/env python3
"""`doorbell sim`: other programs on simulated cards.

usage: test_sim.py DOORBELL SIM_PROGRAM CC...
"""
import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from cli import DOORBELL, Tap, expect, run

PROGRAM = sys.argv[2]
CC = sys.argv[3:]

# Python's ctypes has a handle of its own on the C library.
BY_HANDLE = '''
import ctypes, fcntl, os
libc = ctypes.CDLL('libc.so.6', use_errno=True)
fd = os.open('/dev/kfd', os.O_RDWR)
version = (ctypes.c_uint32 * 2)()
print('ctypes', libc.ioctl(fd, 0x80084b01, version), *version)
print('fcntl', list(fcntl.ioctl(fd, 0x80084b01, bytes(8))))
print(sorted(os.listdir('/dev/dri')), os.path.exists('/dev/kfd'))
'''


def sim(device, *program, **environment):
    return run('sim', device, '--', *program, **environment)


def check_program(tap):
    done = sim('AMD@sim:gfx1100', PROGRAM)
    lines = [line for line in done.stdout.splitlines()
             if line.startswith(('ok ', 'not ok '))]
    tap.check('a program finds the card', expect(done, 0) + [
        f'{len(lines)} lines'] * (len(lines) < 25))
    for line in lines:
        tap.check(line.split('ok ', 1)[1], [line] * line.startswith('not'))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'program.cas')
        done = sim('AMD@sim:gfx1100', DOORBELL, 'trace', 'record', '-o', path,
                   '--', PROGRAM)
    recorded = [line for line in done.stdout.splitlines()
                if line.startswith(('ok ', 'not ok '))]
    tap.check('and the same where it is recorded', expect(done, 0) + [
        line for line in recorded if line not in lines] + [
            f'{len(recorded)} lines'] * (len(recorded) != len(lines)))


# Our driver knows nothing of the recording below: what it rings are stores.
RINGS = {
    'NV@record:{}@sim:sm_90': ('NV', 'SEND_PCAS_A = '),
    'NV@record:{}@sim:sm_80': ('NV', 'SEND_PCAS_A = '),
    'NV@record:{}@sim:sm_120,ordered': ('NV', 'SEND_PCAS_A = '),
    'AMD@record:{}@sim:gfx1100': ('AMD', 'DISPATCH_DIRECT DIM_X='),
}


def check_rings(tap):
    """Rings, command buffers and launches of a program that tells nothing."""
    for form, (device, launch) in RINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'rings.cas')
            done = sim(form.format(path), DOORBELL, 'eval', '--device', device,
                       'sum(arange(0, 1000) * 2)')
            shown = run('trace', 'show', path)
            again = run('trace', 'replay', path)
        tap.check(f'rings of {form}', expect(done, 0, out='999000') + expect(
            shown, 0, out=launch) + [
                'no sample' for _ in [0] if ' sample' not in shown.stdout] +
                expect(again, 0, out=' 0 differences'))


def check_python(tap):
    done = sim('AMD@sim:gfx1100,kfd=1.14', sys.executable, '-c', BY_HANDLE)
    tap.check('python reaches it by any way', expect(done, 0) + [
        f'no "{part}"' for part in (
            'ctypes 0 1 14', 'fcntl [1, 0, 0, 0, 14, 0, 0, 0]',
            "['renderD128'] True") if part not in done.stdout])


def check_doorbell(tap):
    """Our own driver for real cards is a program like others."""
    done = sim('AMD@sim:gfx1100*2', DOORBELL, 'devices')
    tap.check('doorbell lists the cards', expect(done, 0, out='AMD:1'))
    done = sim('AMD@sim:gfx942', DOORBELL, 'eval', '--device', 'AMD',
               'sum(arange(0, 1000))')
    tap.check('and computes on one', expect(done, 0, out='499500'))
    done = sim('AMD@sim:gfx1100', DOORBELL, 'selftest', 'AMD', '--only',
               'bad-store')
    tap.check('a fault is told', expect(
        done, 0, err='doorbell sim: fault: memory fault: write at '
        '0xff00000000'))
    done = run('sim', 'NV@sim:sm_90', 'AMD@sim:gfx1100', '--', DOORBELL,
               'devices')
    tap.check('cards of both kinds', expect(
        done, 0, out='NV:0     Simulated GH100\n') + expect(
        done, 0, out='AMD:0') + [
            f'{name} as well' for name in ('NV:1', 'AMD:1')
            if name in done.stdout])
    for args, out in ((('devices',), 'BELL_NV_BRANCH=999: no such branch'),
                      (('eval', '20 + 3'), '23')):
        done = sim('NV@sim:sm_90', 'env', 'BELL_NV_BRANCH=999', DOORBELL,
                   *args)
        tap.check(f'one that cannot be used: {args[0]}',
                  expect(done, 0, out=out))
    done = sim('NV@sim:sm_80', DOORBELL, 'selftest', 'NV', '--only', 'store')
    tap.check('a simulated card is known for one', expect(
        done, 0, out='1 passed'))
    done = sim('AMD@fault:AMDKFD_IOC_ALLOC_MEMORY_OF_GPU:16=ENOMEM@sim:gfx1100',
               DOORBELL, 'selftest', 'AMD', '--only', 'tensors', '--json')
    again = [step['again'] for step in json.loads(done.stdout)['steps']]
    tap.check('a failed step is recorded where KFD is open already', expect(
        done, 1) + [f'{again}'] * ('has KFD open as' in str(again) or
                                   'recorded, it ' not in str(again)))
    check_sass(tap)
    check_identity(tap)
    done = sim('AMD@fault:ioctl:2=ENOMEM@sim:gfx1100', DOORBELL, 'eval',
               '--device', 'AMD', '1 + 1')
    tap.check('forms may stand between', [] if (
        'doorbell sim: AMDKFD_IOC_' in done.stderr and
        'Cannot allocate memory' in done.stderr) else [done.stderr])


def check_identity(tap):
    """A card that is simulated around a whole program says so in whatever is
    measured on it; products have the names of real ones."""
    for device in 'AMD@sim:mi300x', 'NV@sim:h100':
        backend = device.split('@', maxsplit=1)[0]
        done = sim(device, DOORBELL, 'devices', '--json')
        found = json.loads(done.stdout) if done.returncode == 0 else {}
        tap.check(f'devices: {device}', expect(done, 0) + [
            f'{found}' for _ in [0]
            if [d['simulated'] for d in found.get('devices', ())
                if d['backend'] == backend and d['usable']
                and '@' not in d['name']] != [True] or
            [g['simulated'] for g in found.get('gpus', ())
             if g['device'] == backend + ':0'] != [True]])
        done = sim(device, DOORBELL, 'devices')
        tap.check(f'devices, as text: {device}', expect(done, 0) + [
            done.stdout for _ in [0] if not [
                line for line in done.stdout.splitlines() if line.startswith(
                    backend + ':0 ') and 'imulated' in line]])
        done = sim(device, DOORBELL, 'top', '--once')
        tap.check(f'top: {device}', expect(done, 0, out=backend + ':0') +
                  expect(done, 0, out='(simulated)'))
        done = sim(device, DOORBELL, 'bench', backend, 'launch', '--csv',
                   '--quick', '--seconds', '0.01', '--passes', '1')
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        tap.check(f'bench: {device}', expect(done, 0) + [
            f'{row}' for row in rows[:1] if row['simulated'] != 'yes' or
            row['driver'] != 'simulated'] + ['no rows'] * (not rows))
        done = sim(device, DOORBELL, 'bench', backend, 'launch', '--quick',
                   '--seconds', '0.01', '--passes', '1')
        tap.check(f'bench, as text: {device}', expect(
            done, 0, out="simulated: these figures are the simulator's"))
        done = sim(device, DOORBELL, 'burn', backend, '--seconds', '1',
                   '--interval', '0.3')
        told = ', 2100 MHz, 45 C, 90 W, throttled by: none, 0 errors' if (
            backend == 'AMD') else ', 1980 MHz, 0 errors'
        tap.check(f'burn: {device}', expect(done, 0, out='; simulated') +
                  expect(done, 0, out=told))
    done = sim('AMD@sim:mi300x', DOORBELL, 'top', 'AMD:0', '--once')
    tap.check('what simulated sensors tell', expect(done, 0, out='45 C') +
              expect(done, 0, out='90.0 W') +
              expect(done, 0, out='throttled by: none, ECC corrected 0, ECC '
                     'uncorrected 0, PCIe replays 0'))
    done = sim('AMD@sim:mi300x,vf', DOORBELL, 'top', 'AMD:0', '--once')
    tap.check('a virtual function tells none', expect(done, 0) + [
        done.stdout] * ('45 C' in done.stdout or 'ECC' in done.stdout))


# A container's /dev: of the machine's nodes some.
CONTAINER = '''
mkdir -p "$BELL_SIM_TREE/some/dri" &&
(cd "$BELL_SIM_TREE/some" && touch {nodes}) && mount --bind "$BELL_SIM_TREE/some" "$BELL_SIM_TREE/dev" &&
exec "$@"
'''

# The machine, what its container has, the card that it has as number 0, and
# the node that it lacks.
CONTAINERS = (
    ('NV@sim:sm_80*2', 'nvidiactl nvidia-uvm nvidia1', 'NV:0', '0000:51:00.0',
     '/dev/nvidia0 is missing'),
    ('AMD@sim:gfx1100*2', 'kfd dri/renderD129', 'AMD:0', '0000:04:00.0',
     '/dev/dri/renderD128 is missing'),
)


def check_containers(tap):
    """The first card is one that the container has, under the number 0."""
    if subprocess.run(['unshare', '-Urm', 'true'], capture_output=True,
                      check=False).returncode:
        tap.skip('containers', 'unshare makes none here')
        return
    for machine, nodes, name, address, lacks in CONTAINERS:
        def inside(*args):
            return sim(machine, 'unshare', '-Urm', 'sh', '-c',
                       CONTAINER.format(nodes=nodes), 'sh', DOORBELL, *args)
        done = inside('devices', '--json')
        complaints = expect(done, 0)
        found = json.loads(done.stdout) if not complaints else {}
        backend = name.split(':', maxsplit=1)[0]
        usable = [d['name'] for d in found.get('devices', ())
                  if d['backend'] == backend and d['usable']]
        numbers = {g['address']: (g['device'], g['why_not'])
                   for g in found.get('gpus', ())}
        complaints += [f'usable are {usable}'] * (usable != [name])
        complaints += [f'{numbers}'] * (
            numbers.get(address) != (name, None) or
            [why for _, why in numbers.values() if why] != [lacks])
        tap.check(f'{name} of a container of {machine}', complaints)
        for args in ((), ('--device', backend), ('--device', name)):
            done = inside('eval', *args, 'sum(arange(0, 1000))')
            tap.check(f'{name} computes there {" ".join(args)}',
                      expect(done, 0, out='499500') +
                      [done.stderr] * ('computing on' in done.stderr))
        done = inside('doctor', '--json')
        complaints = expect(done, 0)
        notes = [f['detail'] for f in json.loads(done.stdout)['findings']
                 if f['verdict'] == 'note' and f['what'] == 'GPU']
        tap.check(f'doctor names what {name} is not', complaints + [
            f'{notes}'] * (len(notes) != 1 or lacks not in notes[0]))
    done = sim('NV@sim:sm_80*2,deny=0', DOORBELL, 'devices')
    tap.check("a cgroup's rules", expect(
        done, 0, out='/dev/nvidia0 is forbidden by the rules of this'))
    for machine, usable in (('AMD@sim:gfx1100*2,deny=0', ['AMD:0']),
                            ('AMD@sim:gfx1100,deny=0', [])):
        done = sim(machine, DOORBELL, 'devices', '--json')
        complaints = expect(done, 0)
        found = json.loads(done.stdout) if not complaints else {}
        gpus = {g['address']: (g['device'], g['why_not'], g['fix'])
                for g in found.get('gpus', ())}
        denied = gpus.pop('0000:03:00.0', None)
        complaints += [f'{gpus}'] * (
            [device for device, _, _ in gpus.values()] != usable)
        complaints += [f'{denied}'] * (not denied or denied[0] or (
            '/dev/dri/renderD128 is forbidden' not in denied[1]) or
            '/dev/dri/renderD128' not in denied[2])
        complaints += [d['why_not'] for d in found.get('devices', ())
                       if d['backend'] == 'AMD' and not d['usable'] and
                       'device rules of this container' not in d['why_not']]
        tap.check(f"a cgroup's rules: {machine}", complaints)


def check_passed_over(tap):
    """A GPU that cannot be used comes first, or is the only one."""
    for machine, name, why in (
            ('AMD@sim:gfx1100*2,first=gfx90c', 'AMD:1', '90012'),
            ('NV@sim:sm_80*2,first=sm_70', 'NV:1', 'launch descriptors')):
        done = sim(machine, DOORBELL, 'eval', '2 + 3', BELL_DEBUG='exec')
        tap.check(f'the default device of {machine}', expect(
            done, 0, out='5', err=f'default device is {name}'))
        done = sim(machine, DOORBELL, 'doctor')
        tap.check(f'doctor on {machine}', expect(done, 0, out=why) + expect(
            done, 0, out='passed over'))
        alone = machine.replace('*2', '')
        for args in (('eval', '2 + 3'), ('demo', 'mnist', '--steps', '1')):
            done = sim(alone, DOORBELL, *args)
            tap.check(f'{args[0]} says that {alone} is not used', expect(
                done, 0, err='computing on CPU:0: no GPU can be used: ') +
                expect(done, 0, err=why))
        done = sim(alone, DOORBELL, 'eval', '2 + 3', BELL_DEVICE='CPU')
        tap.check('and nothing where the CPU was asked for', expect(
            done, 0, out='5') + [done.stderr] * ('GPU' in done.stderr))


def check_confidential(tap):
    """A card whose memory cannot be mapped is not chosen."""
    done = sim('NV@sim:sm_90,cc', DOORBELL, 'eval', '2 + 3')
    tap.check('a confidential card is passed over', expect(
        done, 0, out='5', err='confidential computing is on'))
    for args in (('devices',), ('doctor',)):
        done = sim('NV@sim:sm_90,cc', DOORBELL, *args)
        tap.check(f'{args[0]} says why', expect(
            done, done.returncode, out='--set-cc-mode=off'))


def check_modes(tap):
    """nvidia-smi -c: obeyed, and no hindrance to one process."""
    done = sim('NV@sim:sm_80,mode=prohibited', DOORBELL, 'eval', '2 + 3')
    tap.check('a card that programs are kept off', expect(
        done, 0, out='5', err='PROHIBITED'))
    done = sim('NV@sim:sm_80,mode=exclusive', DOORBELL, 'burn', 'NV',
               '--seconds', '0.01')
    tap.check('several openings of an exclusive card', expect(done, 0))


def check_sass(tap):
    """A bundle of machine code alone; ptxas makes it."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = os.path.join(folder, 'sass.bundle')
        made = run('eval', 'arange(0, 8) * 2', '--save', bundle, '--target',
                   'NV@null:sm_80')
        if 'ptxas' in made.stderr:
            tap.skip('machine code for NVIDIA is refused in words', 'no ptxas')
            return
        done = sim('NV@sim:sm_80', DOORBELL, 'run', bundle, '--device', 'NV')
    tap.check('machine code for NVIDIA is refused in words', expect(
        done, done.returncode or -1, err='runs no machine code'))


def check_recorded(tap, folder):
    """A program that tells no doorbells is recorded with its rings: by a form
    of the simulated kernel, and by a library before the program's calls."""
    path = os.path.join(folder, 'r.cas')
    product = 'relu(ones([4, 4]) @ ones([4, 4]))'
    # the card may be done with an AQL packet when it is looked at, or not yet
    for chip, packets in (
            ('gfx1100', (('DISPATCH_DIRECT DIM_X=',), ('push@',))),
            ('gfx942', (('done; it was:', 'TYPE=KERNEL_DISPATCH'),
                        ('KERNEL_OBJECT = 0x',)))):
        card = f'AMD@sim:{chip}'
        want = expect(run('eval', product, '--device', card), 0)
        for how, before in (
                ('form', (f'AMD@record:{path}@sim:{chip}',)),
                ('library', (card, DOORBELL, 'trace', 'record', '-o', path,
                             '--'))):
            done = sim(*before, DOORBELL, 'eval', product)
            shown = run('trace', 'show', path)
            tap.check(f'a program on {chip} is recorded by a {how}', want +
                      expect(done, 0, out='[4. 4. 4. 4.]') +
                      expect(shown, 0, out='sample') + [
                          f'no {" or ".join(either)}' for either in packets
                          if not any(p in shown.stdout for p in either)] + [
                              'truncated' for _ in [0]
                              if 'truncated' in shown.stdout] + expect(
                                  run('trace', 'replay', path), 0,
                                  out=' 0 differences'))


def trees(folder):
    return [name for name in os.listdir(folder)
            if name.startswith('doorbell-sim-')]


def is_running(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
            return file.read().rsplit(')', 1)[1].split()[0] not in 'ZX'
    except OSError:
        return False


def check_killed(tap, folder):
    """What kills the verb takes the program and the files with it; what asks
    it to end asks the program."""
    for number, want in ((signal.SIGKILL, -9), (signal.SIGTERM, 42),
                         (signal.SIGHUP, 128 + signal.SIGHUP)):
        with subprocess.Popen(
                [DOORBELL, 'sim', 'AMD@sim:gfx1100', '--', sys.executable,
                 '-c', 'import os, signal, sys, time\n'
                 'signal.signal(signal.SIGTERM, lambda *_: sys.exit(42))\n'
                 'print(os.getpid(), flush=True)\ntime.sleep(600)\n'],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                # what was started by nohup ignores it
                preexec_fn=lambda: signal.signal(signal.SIGHUP,
                                                 signal.SIG_DFL),
                text=True) as verb:
            pid = int(verb.stdout.readline())
            there = trees(folder)
            verb.send_signal(number)
            try:
                code = verb.wait(60)
            except subprocess.TimeoutExpired:
                verb.kill()
                code = 'none'
            until = time.monotonic() + 60
            while time.monotonic() < until and (
                    is_running(pid) or trees(folder)):
                time.sleep(0.01)
        tap.check(f'a verb that gets signal {number}', [
            f'{code}'] * (code != want) + ['no tree was there'] * (
                not there) + ['the program goes on'] * is_running(pid) +
            trees(folder))


def check_ends(tap, folder):
    done = sim('AMD@sim:gfx1100', 'sh', '-c', 'exit 7')
    tap.check("the program's exit code", expect(done, 7))
    done = sim('AMD@sim:gfx1100', 'sh', '-c', 'kill -9 $$')
    tap.check('a signal', expect(done, 137, err='ended by signal 9'))
    done = sim('AMD@sim:gfx1100', '/dev/null/program')
    tap.check('no program', expect(done, 127, err='cannot run'))
    done = sim('AMD@sim:gfx1', 'true')
    tap.check('no such card', expect(done, 3, err='no simulated AMD machine'))
    for name, other in (('one', 'two'), ('two', 'one')):
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
            file.write(f'#!{folder}/{other}\n')
        os.chmod(os.path.join(folder, name), 0o700)
    done = sim('AMD@sim:gfx1100', f'{folder}/one')
    tap.check('scripts that interpret each other', expect(
        done, 127, err='cannot run'))
    done = sim('AMD', 'true')
    tap.check('no simulated card', expect(done, 2, err='not a simulated card'))
    done = run('sim', 'AMD@sim:gfx1100')
    tap.check('no program named', expect(done, 2, err='-- PROGRAM'))
    source = os.path.join(folder, 'a.c')
    static = os.path.join(folder, 'static')
    with open(source, 'w', encoding='utf-8') as file:
        file.write('int main(void) { return 0; }\n')
    if subprocess.run([*CC, '-static', '-o', static, source],
                      capture_output=True, check=False).returncode:
        tap.skip('a static program', 'none can be built here')
    else:
        done = sim('AMD@sim:gfx1100', static)
        tap.check('a static program', expect(done, 6, err='static program'))
    check_killed(tap, folder)
    tap.check('nothing is left', trees(folder))


def check_one_recorder(tap, folder):
    """A file has the calls of one process: a second one is told."""
    path = os.path.join(folder, 'one.cas')
    once = f"'{DOORBELL}' eval '1 + ones((2,))' --device AMD"
    for commands, code, n_told in (
            (once, 0, 0), (f'exec {once}', 0, 0),
            (f'{once}; {once}', 3, 1), (f'{once}; {once}; true', 0, 1),
            (f'({once}) && ({once})', 3, 1)):
        if os.path.exists(path):
            os.remove(path)
        done = sim(f'AMD@record:{path}@sim:gfx1100', 'sh', '-c', commands)
        shown = run('trace', 'show', path)
        n_seen = done.stderr.count('a recording has one process')
        tap.check(f'recording of {commands.count("eval")} processes',
                  expect(done, code, out='[2. 2.]') + expect(shown, 0) + (
                      [] if (n_seen > 0) == (n_told > 0)
                      else [f'told {n_seen} times'] + [done.stderr]))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        os.environ['TMPDIR'] = folder
        check_program(tap)
        check_python(tap)
        check_rings(tap)
        check_doorbell(tap)
        check_containers(tap)
        check_passed_over(tap)
        check_confidential(tap)
        check_modes(tap)
        check_recorded(tap, folder)
        check_one_recorder(tap, folder)
        check_ends(tap, folder)
    tap.finish()


if __name__ == '__main__':
    main()
