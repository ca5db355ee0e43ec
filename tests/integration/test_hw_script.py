#!/usr/bin/env python3
"""tests/hw/card.sh, as far as a machine without a card goes: on simulated
cards with the programs that are built already, and on a card that fails and
hangs, which a shell script stands for.

usage: test_hw_script.py DOORBELL SOURCE_ROOT BUILD_ROOT
"""
import os
import subprocess
import sys
import tarfile
import tempfile

from cli import Tap, run

SOURCE, BUILD = sys.argv[2:4]
SCRIPT = os.path.join(SOURCE, 'tests/hw/card.sh')
MODES = {'NV': ('mode-rm-bar1', 'mode-rm-bar0', 'mode-uvm-bar1',
                'mode-uvm-bar0'),
         'AMD': ('mode-default',), 'QCOM': ('mode-default',)}
# All but build, and cts, which has tests of its own.
COMMON = ('machine', 'doctor', 'vendor', 'selftest', 'record', 'replay',
          'two-processes', 'fuzz', 'mnist', 'vendor-bench', 'bench',
          'selftest-rate')
# They need what a simulated card has not.
SKIPPED = ('vendor', 'vendor-bench')

# Its fuzz fails and its training hangs, whatever it is sent but SIGKILL; the
# probe after that finds the card gone.
BROKEN = """#!/bin/sh
echo "$@" >>"$0.calls"
case "$*" in
fuzz*) echo "wrong value"; exit 1 ;;
demo*) trap '' TERM; echo $$ >"$0.hung"; for i in 1 2 3 4; do sleep 5; done ;;
*copy-release*) exit 0 ;;
*store*) [ ! -e "$0.hung" ] ;;
esac
"""
# Each look at the kernel's log finds one line more of the card.
DMESG = """#!/bin/sh
echo "[1.0] usb 1-1: not about cards"
echo line >>"$0.count"
awk '{ printf "[%d.5] NVRM: Xid (PCI:0000:01:00): 31, line %d\\n", NR, NR }' \\
    "$0.count"
"""


def run_script(folder, device, *words, **environment):
    """The script's run, with WORK in `folder`, and its lines by stage."""
    environment = dict(os.environ, OUT=os.path.join(folder, 'out'),
                       WORK=os.path.join(folder, 'work'), DEVICE=device,
                       **environment)
    done = subprocess.run([SCRIPT, *words], env=environment,
                          capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=2600)
    lines = {line.split()[0]: line for line in done.stdout.splitlines()
             if line and not line.startswith(' ')}
    return done, lines


def write_program(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    os.chmod(path, 0o755)


def members(folder, name):
    """What the archive holds: contents by file name."""
    with tarfile.open(os.path.join(folder, 'out', name)) as archive:
        return {os.path.basename(m.name): archive.extractfile(m).read()
                for m in archive if m.isfile()}


def is_alive(path):
    """Whether the process with the number in that file runs. (One that nobody
    has waited for has no command line.)"""
    with open(path, encoding='utf-8') as file:
        number = file.read().strip()
    try:
        with open(f'/proc/{number}/cmdline', 'rb') as file:
            return file.read() != b''
    except OSError:
        return False


def check_limits(tap):
    """Ten minutes a list: what comes before and after a stage, too."""
    for backend in MODES:
        done = subprocess.run([SCRIPT, '--list'], capture_output=True,
                              env=dict(os.environ, DEVICE=backend + ':0'),
                              text=True, check=True)
        sums = {}
        for line in done.stdout.splitlines():
            words = line.split()
            sums[words[0]] = sums.get(words[0], 0) + int(words[3])
        tap.check(f'{backend}: three lists of ten minutes', [
            f'{name}: {seconds} s' for name, seconds in sums.items()
            if seconds > 570] + (
                [] if sorted(sums) == ['first', 'kernels', 'speed']
                else [str(sums)]))


def check_simulated(tap, device):
    """Every stage passes and leaves its document. Of Adreno only those that do
    other steps there than elsewhere."""
    backend = device.split('@', maxsplit=1)[0]
    stages = COMMON[:3] + MODES[backend] + COMMON[3:]
    documents = ('selftest.json', 'selftest-rate.json', 'fuzz.json',
                 'mnist.json', 'bench.json')
    if backend == 'QCOM':
        stages = ('machine', *MODES[backend], 'record', 'replay',
                  'two-processes')
        documents = ()
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, 'work'))
        os.symlink(BUILD, os.path.join(folder, 'work', 'build'))
        done, lines = run_script(
            folder, device, *stages, REPEAT='2', PROGRAMS='5', MODE_RUNS='7',
            SECONDS_PER_ROW='0.01', BUDGET='2500', STAGE_SECONDS='600')
        complaints = []
        for stage in stages:
            line = lines.get(stage, f'{stage} missing')
            want = 'skip' if stage in SKIPPED else 'ok'
            if line.split()[1] != want:
                complaints.append(f'not {want}: {line}')
            if stage.startswith('mode-') and '7 of 7 right' not in line:
                complaints.append(f'not 7 of 7: {line}')
        if complaints or done.returncode != 0:
            complaints += [f'exit code {done.returncode}']
            complaints += (done.stdout + done.stderr).splitlines()[-40:]
        tap.check(f'{device}: every stage', complaints)
        held = members(folder, 'card-chosen.tar.gz')
        tap.check(f'{device}: what it leaves behind', [
            f'no {name}' for name in (
                'summary.txt', *documents, 'machine.log', 'store.cas',
                'mnist.cas', 'store-cassette.txt',
                MODES[backend][0] + '.json') if not held.get(name)] + [
                    f'beside the archive: {name}' for name in
                    os.listdir(os.path.join(folder, 'out'))
                    if name != 'card-chosen.tar.gz'])


def check_skipped_mode(tap):
    """Ampere's cards have no doorbell in BAR1: that mode is skipped."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, 'work'))
        os.symlink(BUILD, os.path.join(folder, 'work', 'build'))
        _, lines = run_script(folder, 'NV@sim:sm_80', 'mode-rm-bar1',
                              'mode-rm-bar0', MODE_RUNS='3',
                              STAGE_SECONDS='600')
        tap.check('a mode that the card has not', [
            line for stage, part in (('mode-rm-bar1', 'has no window'),
                                     ('mode-rm-bar0', '3 of 3 right'))
            for line in [lines.get(stage, stage)] if part not in line])


def check_broken(tap):
    """A stage that fails and one that hangs stop no other; each is followed by
    a probe, and by what the kernel wrote meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        bell = os.path.join(folder, 'work/build/tools/doorbell')
        write_program(bell, BROKEN)
        write_program(os.path.join(folder, 'bin', 'dmesg'), DMESG)
        write_program(os.path.join(folder, 'bin', 'nvidia-smi'),
                      '#!/bin/sh\necho "card is at 40 C: $*"\n')
        done, lines = run_script(
            folder, 'NV@sim:sm_90', 'fuzz', 'mnist', 'bench',
            STAGE_SECONDS='2', MAX_MB='1',
            PATH=os.path.join(folder, 'bin') + ':' + os.environ['PATH'])
        wanted = (('fuzz', 'FAILED (1)'), ('mnist', 'TIMEOUT'),
                  ('bench', 'ok'), ('1', '1 passed, 2 failed'))
        complaints = [f'not {part}: {lines.get(stage)}'
                      for stage, part in wanted
                      if part not in lines.get(stage, '')]
        complaints += [f'not said: {part}' for part in (
            '    wrong value', 'probe: copy-release ok, store ok',
            'probe: copy-release ok, store FAILED', 'kernel: [2.5] NVRM: Xid')
            if part not in done.stdout]
        if done.returncode != 1:
            complaints.append(f'exit code {done.returncode}')
        if is_alive(bell + '.hung'):
            complaints.append('what hung lives on')
        held = members(folder, 'card-chosen.tar.gz')
        # The first look, before any stage, found line 1.
        complaints += [
            f'{name}: {held.get(name)}' for name, text in (
                ('kernel-before.txt', b'line 1\n'),
                ('fuzz.kernel.txt', b'line 2\n'),
                ('mnist.kernel.txt', b'line 3\n'),
                ('bench.kernel.txt', b'line 4\n'))
            if not held.get(name, b'').endswith(text) or
            held[name].count(b'\n') != 1]
        if b'card is at 40 C' not in held.get('mnist.probe.txt', b''):
            complaints.append(f'no nvidia-smi: {held.get("mnist.probe.txt")}')
        tap.check('stages that fail and hang', complaints + (
            (done.stdout + done.stderr).splitlines() if complaints else []))
        done, _ = run_script(folder, 'NV@sim:sm_90', 'mode-default')
        tap.check("a stage of the other vendor's", [
            f'exit code {done.returncode}: {done.stderr}'
            for _ in [0] if done.returncode != 2])


def main():
    tap = Tap()
    check_limits(tap)
    check_broken(tap)
    for device in ('NV@sim:sm_90', 'AMD@sim:gfx942', 'QCOM@sim:a740'):
        if run('devices', device).returncode != 0:
            tap.skip(f'{device}: every stage', 'no such simulated card')
        elif not os.path.exists(os.path.join(
                BUILD, 'tools/recorder/libdoorbell-recorder.so')):
            tap.skip(f'{device}: every stage', 'no recorder in this build')
        else:
            check_simulated(tap, device)
            if device.startswith('NV'):
                check_skipped_mode(tap)
    tap.finish()


if __name__ == '__main__':
    main()
