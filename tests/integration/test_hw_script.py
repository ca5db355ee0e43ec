#!/usr/bin/env python3
"""tests/hw/h200.sh, as far as a machine without a card goes: on a simulated
card, with the programs that are built already.

usage: test_hw_script.py DOORBELL SOURCE_ROOT BUILD_ROOT
"""
import os
import subprocess
import sys
import tarfile
import tempfile

from cli import Tap, run

SOURCE, BUILD = sys.argv[2:4]
DEVICE = 'NV@sim:sm_90'
STAGES = ('machine', 'selftest', 'record-cuda', 'record-ours',
          'replay-ours', 'fuzz', 'mnist', 'llama', 'cuda-bench', 'bench',
          'two-processes', 'selftest-rate')
# They need what this machine may not have.
OPTIONAL = ('record-cuda', 'llama', 'cuda-bench')


def run_script(folder):
    work = os.path.join(folder, 'work')
    os.mkdir(work)
    os.symlink(BUILD, os.path.join(work, 'build'))
    environment = dict(os.environ, OUT=os.path.join(folder, 'out'), WORK=work,
                       DEVICE=DEVICE, REPEAT='2', PROGRAMS='5',
                       SECONDS_PER_ROW='0.01', BUDGET='250')
    return subprocess.run([os.path.join(SOURCE, 'tests/hw/h200.sh'), *STAGES],
                          env=environment, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=280, check=False)


def stage_complaints(done):
    lines = {line.split()[0]: line for line in done.stdout.splitlines()
             if line and not line.startswith(' ')}
    complaints = []
    for stage in STAGES:
        words = lines.get(stage, f'{stage} missing').split()
        allowed = ('ok', 'skip') if stage in OPTIONAL else ('ok',)
        if words[1] not in allowed:
            complaints.append(lines.get(stage, f'{stage}: no line'))
    if complaints or done.returncode != 0:
        complaints += [f'exit code {done.returncode}']
        complaints += (done.stdout + done.stderr).splitlines()[-40:]
    return complaints


def members(path):
    with tarfile.open(path) as archive:
        return {os.path.basename(m.name): m.size for m in archive}


def left_behind(folder):
    out = os.path.join(folder, 'out')
    complaints = [f'{n} files, more than a few' for n in
                  [len(os.listdir(out))] if n > 8]
    results = members(os.path.join(out, 'results.tar.gz'))
    cassettes = members(os.path.join(out, 'cassettes.tar.gz'))
    complaints += [f'no {name}' for name in (
        'selftest.json', 'selftest-rate.json', 'fuzz.json', 'mnist.json',
        'bench.json', 'machine.log') if not results.get(name)]
    complaints += [f'no {name}' for name in ('store.cas', 'mnist.cas')
                   if not cassettes.get(name)]
    return complaints


def main():
    tap = Tap()
    name = 'every stage on a simulated card'
    if run('devices', DEVICE).returncode != 0:
        tap.skip(name, 'no simulated card')
    elif not os.path.exists(os.path.join(
            BUILD, 'tools/recorder/libdoorbell-recorder.so')):
        tap.skip(name, 'no recorder in this build')
    else:
        with tempfile.TemporaryDirectory() as folder:
            done = run_script(folder)
            tap.check(name, stage_complaints(done))
            tap.check('what it leaves behind', left_behind(folder))
    tap.finish()


if __name__ == '__main__':
    main()
