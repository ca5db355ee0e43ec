#!/usr/bin/env python3
"""`doorbell top`: on the files of other machines, here, and its metrics as
Prometheus' own Python client reads them where it is installed (Debian's
python3-prometheus-client).

usage: test_top.py DOORBELL [--sim]
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from cli import DOORBELL, Tap, expect, run, schema_complaints
from test_devices import Machine

PCI = '/sys/bus/pci/devices/0000:03:00.0'
KFD = '/sys/class/kfd/kfd/proc/4242'
PATIENCE_S = 120


def put(machine, path, text):
    """A file that may be there already, replaced whole."""
    machine.file(path + '.new', text)
    os.replace(machine.root + path + '.new', machine.root + path)


def fdinfo(client, gfx_ns, compute_ns, vram_kib):
    return (f'pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\n'
            f'drm-pdev:\t0000:03:00.0\ndrm-client-id:\t{client}\n'
            f'drm-memory-vram:\t{vram_kib} KiB\ndrm-memory-gtt: \t12 KiB\n'
            f'drm-engine-gfx:\t{gfx_ns} ns\ndrm-engine-compute:\t{compute_ns} '
            f'ns\ndrm-engine-capacity-compute:\t4\n')


def add_process(machine, pid, name, files):
    """`files`: what descriptors are open on, and their fdinfo."""
    machine.file(f'/proc/{pid}/comm', name + '\n')
    for number, (target, text) in enumerate(files):
        machine.link(f'/proc/{pid}/fd/{number + 3}', target)
        machine.file(f'/proc/{pid}/fdinfo/{number + 3}', text)


def amd_machine(folder):
    machine = Machine(folder).amd()
    machine.file(PCI + '/gpu_busy_percent', '75\n')
    machine.file(PCI + '/mem_busy_percent', '31\n')
    machine.file(PCI + '/mem_info_vram_total', f'{24 << 30}\n')
    machine.file(PCI + '/mem_info_vram_used', f'{4 << 30}\n')
    for name, text in (('name', 'amdgpu'), ('temp1_input', '61000'),
                       ('power1_average', '212000000'),
                       ('freq1_input', '2304000000'),
                       ('freq2_input', '1249000000')):
        machine.file(f'{PCI}/hwmon/hwmon3/{name}', text + '\n')
    machine.file('/proc/stat', 'cpu  100 0 50 1000 0 0 0 0 0 0\n')
    machine.file('/proc/meminfo', 'MemTotal:       16384 kB\n'
                 'MemFree:         1000 kB\nMemAvailable:    4096 kB\n')
    machine.file('/proc/cpuinfo', 'processor\t: 0\nmodel name\t: Some CPU\n')
    return machine


def device_of(done, name):
    devices = json.loads(done.stdout)['devices'] if done.stdout else []
    return next((d for d in devices if d['name'] == name), {})


def check_amd(tap, folder):
    machine = amd_machine(folder)
    node = '/dev/dri/renderD129'
    same = fdinfo(7, 10**9, 2 * 10**9, 1024)
    # one client twice in a process, and another one
    add_process(machine, 4242, 'train "a"', [
        (node, same), (node, same), ('/dev/null', ''),
        (node, fdinfo(8, 5 * 10**8, 0, 512))])
    add_process(machine, 99, 'shell', [('/dev/pts/0', 'pos: 0\n')])
    machine.file(f'{KFD}/vram_4711', f'{3 << 20}\n')
    for number, (kind, size) in enumerate(((0, 1 << 20), (1, 4096))):
        for name, text in (('gpuid', 4711), ('type', kind), ('size', size)):
            machine.file(f'{KFD}/queues/{number}/{name}', f'{text}\n')
    done = run('top', '--once', '--json', '--root', machine.root)
    want = {'address': '0000:03:00.0', 'simulated': False, 'busy_percent': 75,
            'memory_busy_percent': 31, 'memory_bytes': 24 << 30,
            'memory_used_bytes': 4 << 30, 'clock_mhz': 2304,
            'memory_clock_mhz': 1249, 'temperature_c': 61, 'power_w': 212,
            'energy_j': None,
            'processes': [{'pid': 4242, 'command': 'train "a"',
                           'memory_bytes': 3 << 20, 'engine_s': 3.5}],
            'queues': [
                {'pid': 4242, 'id': 0, 'kind': 'compute',
                 'size_bytes': 1 << 20},
                {'pid': 4242, 'id': 1, 'kind': 'sdma', 'size_bytes': 4096}]}
    complaints = expect(done, 0) + schema_complaints('top', done.stdout)
    got = device_of(done, 'AMD:0')
    complaints += [f'{key} is {got.get(key)!r}, not {value!r}'
                   for key, value in want.items() if got.get(key) != value]
    complaints += [f'{e}' for e in got.get('engines', []) if e['busy_s']]
    cpu = device_of(done, 'CPU:0')
    complaints += [f'{key} is {cpu.get(key)!r}' for key, value in (
        ('model', 'Some CPU'), ('memory_bytes', 16384 << 10),
        ('memory_used_bytes', 12288 << 10)) if cpu.get(key) != value]
    tap.check('a machine with an RX 7900, as JSON', complaints)
    text = run('top', '--once', '--root', machine.root)
    tap.check('the same as text', [
        f'{part} is missing: {text.stdout}' for part in (
            'AMD:0', '75%', '4.0 GiB', '24.0 GiB', '2304 MHz', '1249 MHz',
            '61 C', '212.0 W', '4242 train "a"', '3.500 s busy', '3.0 MiB',
            'queue 0: compute, 1024 KiB', 'queue 1: sdma, 4 KiB',
            'Some CPU') if part not in text.stdout])
    one = run('top', 'AMD:0', '--once', '--json', '--root', machine.root)
    tap.check('one of its devices', expect(one, 0) + [
        f'{d["name"]}' for d in json.loads(one.stdout)['devices']
        if d['name'] != 'AMD:0'])


def check_health(tap, folder):
    """What holds a card back, and what went wrong on the way, as amdgpu and
    PCI tell it; what they do not tell is null."""
    machine = amd_machine(folder)
    done = run('top', '--once', '--json', '--root', machine.root)
    got = device_of(done, 'AMD:0')
    keys = ('throttled_by', 'ecc_corrected', 'ecc_uncorrected',
            'pcie_replays', 'pcie_corrected')
    tap.check('health that is not told', expect(done, 0) + [
        f'{key} is {got.get(key)!r}' for key in keys
        if got.get(key, 0) is not None])
    machine.file(PCI + '/ras/umc_err_count', 'ue: 1\nce: 25\n')
    machine.file(PCI + '/pcie_replay_count', '3\n')
    machine.file(PCI + '/aer_dev_correctable',
                 'RxErr 1\nBadTLP 4\nTOTAL_ERR_COR 5\n')
    for bits, want in ((0, 'none'), (1 << 0, 'power'),
                       (1 << 16 | 1 << 36, 'current, hot spot'),
                       (1 << 45, 'heat'), (1 << 47, 'external signal'),
                       (1 << 57, 'firmware'), (1 << 10, 'unknown')):
        metrics = bytearray(120)
        metrics[0:4] = bytes((120, 0, 1, 3))
        metrics[112:120] = bits.to_bytes(8, 'little')
        with open(machine.root + PCI + '/gpu_metrics', 'wb') as file:
            file.write(metrics)
        done = run('top', '--once', '--json', '--root', machine.root)
        got = device_of(done, 'AMD:0')
        tap.check(f'throttled by: {want}', expect(done, 0) +
                  schema_complaints('top', done.stdout) + [
            f'{key} is {got.get(key)!r}, not {value!r}' for key, value in zip(
                keys, (want, 25, 1, 3, 5)) if got.get(key) != value])
    text = run('top', '--once', '--root', machine.root)
    tap.check('health as text', expect(
        text, 0, out='throttled by: unknown, ECC corrected 25, ECC uncorrected '
        '1, PCIe replays 3, PCIe corrected 5'))


def check_asleep(tap, folder):
    """A card that sleeps is not asked for what it would have to wake for."""
    machine = amd_machine(folder)
    machine.file(PCI + '/power/runtime_status', 'suspended\n')
    done = run('top', '--once', '--json', '--root', machine.root)
    got = device_of(done, 'AMD:0')
    tap.check('a card that sleeps', expect(done, 0) +
              schema_complaints('top', done.stdout) +
              [f'{key} is {got.get(key)!r}' for key in (
                  'busy_percent', 'memory_bytes', 'clock_mhz', 'power_w',
                  'temperature_c') if got.get(key) is not None] +
              [f'{got}' for _ in [0] if got.get('asleep') is not True] +
              expect(run('top', '--once', '--root', machine.root), 0,
                     out='(asleep)'))


def check_nvidia(tap, folder):
    machine = Machine(folder).nvidia(minor=2)
    add_process(machine, 17, 'infer', [('/dev/nvidiactl', ''),
                                       ('/dev/nvidia2', '')])
    add_process(machine, 18, 'lister', [('/dev/nvidiactl', '')])
    done = run('top', '--once', '--json', '--root', machine.root)
    got = device_of(done, '0000:41:00.0')
    tap.check('who has a card of NVIDIA open', expect(done, 0) +
              schema_complaints('top', done.stdout) + [
                  f'{got}' for _ in [0] if got.get('processes') != [
                      {'pid': 17, 'command': 'infer', 'memory_bytes': None,
                       'engine_s': None}]])


def read_metrics(path):
    """Metrics by name and labels; None where there is nothing to read them
    with."""
    try:
        # pylint: disable=import-outside-toplevel
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        return None
    with open(path, encoding='utf-8') as file:
        text = file.read()
    return {(s.name, s.labels.get('device'), s.labels.get('engine')): s.value
            for family in text_string_to_metric_families(text)
            for s in family.samples}


def wait_for_readings(path, more):
    """Until the file tells of so many more readings than now."""
    def count():
        try:
            with open(path, encoding='utf-8') as file:
                return int(file.read().rsplit(' ', 1)[1])
        except OSError:
            return 0
    end, first = time.monotonic() + PATIENCE_S, count()
    while count() < first + more:
        if time.monotonic() > end:
            raise TimeoutError(path)
        time.sleep(0.02)


def check_metrics(tap, folder):
    machine = amd_machine(folder)
    path = os.path.join(folder, 'm.prom')
    node, hwmon = '/dev/dri/renderD129', f'{PCI}/hwmon/hwmon3/energy1_input'
    machine.file(hwmon, '5000000000\n')
    add_process(machine, 20, 'a', [(node, fdinfo(1, 10**9, 0, 0))])
    # another process has the same client
    add_process(machine, 21, 'b', [(node, fdinfo(1, 10**9, 0, 0))])
    # pylint: disable=consider-using-with
    top = subprocess.Popen(
        [DOORBELL, 'top', '--root', machine.root, '--interval', '0.05',
         '--prometheus', path], stdout=subprocess.DEVNULL)
    steps = []
    try:
        wait_for_readings(path, 1)
        steps.append(read_metrics(path))
        for pid in 20, 21:
            put(machine, f'/proc/{pid}/fdinfo/3', fdinfo(1, 3 * 10**9, 0, 0))
        put(machine, hwmon, '5002500000\n')
        wait_for_readings(path, 2)
        steps.append(read_metrics(path))
        # they end, another one begins
        for pid in 20, 21:
            os.rename(f'{machine.root}/proc/{pid}',
                      f'{machine.root}/gone-{pid}')
        add_process(machine, 22, 'c', [(node, fdinfo(2, 5 * 10**8, 10**9, 0))])
        put(machine, hwmon, '1000000\n')  # a counter that begins anew
        wait_for_readings(path, 2)
        steps.append(read_metrics(path))
    finally:
        top.send_signal(signal.SIGINT)
        code = top.wait()
    tap.check('Ctrl-C ends it', [f'exit code {code}'] if code else [])
    if steps[0] is None:
        tap.skip('metrics', 'no python3-prometheus-client')
        return
    seconds = ('doorbell_engine_busy_seconds_total', 'AMD:0', 'gfx')
    energy = ('doorbell_energy_joules_total', 'AMD:0', None)
    tap.check('counters', [
        f'{name}: {[s.get(name) for s in steps]}, not {want}'
        for name, want in ((seconds, [0, 2, 2.5]), (energy, [0, 2.5, 2.5]),
                           (('doorbell_processes', 'AMD:0', None), [2, 2, 1]),
                           (('doorbell_busy_ratio', 'AMD:0', None),
                            [0.75] * 3))
        if [s.get(name) for s in steps] != want])
    tap.check('no counter falls', [
        f'{name} from {before[name]} to {after.get(name)}'
        for before, after in zip(steps, steps[1:]) for name in before
        if name[0].endswith('_total') and
        not after.get(name, -1) >= before[name]])


def check_here(tap, with_sim):
    for device in ('CPU', 'NV@sim:sm_90', 'AMD@sim:gfx1100'):
        if '@' in device and not with_sim:
            continue
        done = run('top', device, '--once', '--json')
        got = device_of(done, device.replace('@', ':0@')
                        if '@' in device else 'CPU:0')
        text = run('top', device, '--once')
        tap.check(f'top {device}', expect(done, 0) +
                  schema_complaints('top', done.stdout) +
                  expect(text, 0, out=got.get('name', 'no name')) + [
                      f'{got}' for _ in [0] if not got.get('memory_bytes') or
                      got['simulated'] != ('@' in device) or
                      ('@' in device and not got['clock_mhz']) or
                      got['memory_used_bytes'] is None])
    if with_sim and 'ASAN_OPTIONS' not in os.environ:
        done = run('sim', 'NV@sim:h100', '--', DOORBELL, 'top', '--once',
                   '--json')
        got = device_of(done, 'NV:0')
        if done.returncode != 6:  # no library to preload: sanitizers
            tap.check('a card that is shown to it as a real one',
                      expect(done, 0) + [
                          f'{got}' for _ in [0] if not got.get('clock_mhz') or
                          got['memory_used_bytes'] is None])
    tap.check('a device that is not there', expect(
        run('top', 'NV:77', '--once'), 3, err='NV:77'))
    tap.check('no name of a device', expect(
        run('top', 'XY:0', '--once'), 3))
    tap.check('two documents', expect(run('top', '--json'), 2, err='--once'))
    tap.check('metrics that cannot be written', expect(
        run('top', 'CPU', '--once', '--prometheus', '/nowhere/m'), 1,
        err='/nowhere/m'))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        check_amd(tap, folder)
        check_health(tap, folder)
        check_asleep(tap, folder)
        check_nvidia(tap, folder)
        check_metrics(tap, folder)
    check_here(tap, '--sim' in sys.argv)
    tap.finish()


if __name__ == '__main__':
    main()
