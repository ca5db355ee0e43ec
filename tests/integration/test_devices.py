#!/usr/bin/env python3
"""`doorbell devices` and `doctor` on the files of other machines.

usage: test_devices.py DOORBELL [--sim]
"""
import json
import os
import random
import subprocess
import sys
import tempfile

from cli import DOORBELL, Tap, expect, run, schema_complaints

H100 = {'vendor': '0x10de', 'device': '0x2330', 'subsystem_vendor': '0x10de',
        'subsystem_device': '0x16c1', 'class': '0x030200', 'revision': '0xa1',
        'current_link_speed': '16.0 GT/s PCIe', 'current_link_width': '8',
        'max_link_speed': '32.0 GT/s PCIe', 'max_link_width': '16',
        'numa_node': '1',
        'resource': '0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200\n'
                    '0x0000000000000000 0x0000000000000000 0x0000000000000000\n'
                    '0x0000040000000000 0x0000041fffffffff 0x000000000014220c\n'
                    '0x0000000000003000 0x000000000000307f 0x0000000000040101'}
NAVI = {'vendor': '0x1002', 'device': '0x744c', 'subsystem_vendor': '0x1eae',
        'subsystem_device': '0x7901', 'class': '0x030000', 'revision': '0xc8',
        'current_link_speed': 'Unknown', 'current_link_width': '255',
        'max_link_speed': '16.0 GT/s PCIe', 'max_link_width': '16',
        'numa_node': '-1'}
INTEL = {'vendor': '0x8086', 'device': '0x4680', 'class': '0x030000'}
NETWORK = {'vendor': '0x10de', 'device': '0x1234', 'class': '0x020000'}
VERSION = ('NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  '
           'Release Build  (a@b)\n')


class Machine:
    """The files of a machine, below a folder."""

    def __init__(self, folder):
        self.root = tempfile.mkdtemp(dir=folder)
        os.chmod(self.root, 0o755)
        self.file('/proc/sys/kernel/osrelease', '6.1.0-test\n')

    def file(self, path, text='', mode=0o644):
        whole = self.root + path
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, 'w', encoding='utf-8') as file:
            file.write(text)
        os.chmod(whole, mode)

    def link(self, path, target):
        os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
        os.symlink(target, self.root + path)

    def card(self, address, files, driver=None, iommu=None):
        folder = f'/sys/bus/pci/devices/{address}'
        for name, text in files.items():
            self.file(f'{folder}/{name}', text + '\n')
        if driver:
            self.link(f'{folder}/driver', f'../../../bus/pci/drivers/{driver}')
        if iommu is not None:
            self.link(f'{folder}/iommu_group', f'../../iommu_groups/{iommu}')

    def nvidia(self, version='580.159.04', minor=0, nodes=True, mode=0o666):
        self.card('0000:41:00.0', H100, 'nvidia', 17)
        self.file('/proc/driver/nvidia/version', VERSION.format(version))
        self.file('/sys/module/nvidia/version', version + '\n')
        self.file('/proc/driver/nvidia/gpus/0000:41:00.0/information',
                  f'Model: \t\t NVIDIA H100\nDevice Minor: \t {minor}\n')
        if nodes:
            self.file('/dev/nvidiactl', '', 0o666)
            self.file(f'/dev/nvidia{minor}', '', mode)
        return self

    def amd(self, gfx=110000, heap=1, listed=True, mode=0o666, capability=0,
            heap_bytes=0):
        nodes = '/sys/devices/virtual/kfd/kfd/topology/nodes'
        self.card('0000:03:00.0', NAVI, 'amdgpu')
        self.file('/sys/bus/pci/devices/0000:03:00.0/drm/renderD129/dev', '')
        self.file(f'{nodes}/0/gpu_id', '0\n')
        self.file('/dev/kfd', '', mode)
        self.file('/dev/dri/renderD129', '', 0o666)
        if listed:
            self.file(f'{nodes}/1/gpu_id', '4711\n')
            self.file(f'{nodes}/1/properties',
                      f'location_id 768\ndomain 0\ndrm_render_minor 129\n'
                      f'gfx_target_version {gfx}\n'
                      f'capability {capability}\n')
            self.file(f'{nodes}/1/mem_banks/0/properties',
                      f'heap_type {heap}\nsize_in_bytes {heap_bytes}\n')
        return self


def look(tap, name, machine, want, why='', fix=''):
    """The machine's only GPU is as wanted, in text, JSON and to doctor."""
    done = run('devices', '--root', machine.root, '--json')
    complaints = expect(done, 0) + schema_complaints('devices', done.stdout)
    gpus = json.loads(done.stdout)['gpus'] if not complaints else []
    if len(gpus) != 1:
        complaints.append(f'{len(gpus)} GPUs')
    for gpu in gpus:
        want = dict(want, usable=not why)
        complaints += [f'{key} is {gpu[key]!r}, not {value!r}'
                       for key, value in want.items() if gpu[key] != value]
        for key, part in (('why_not', why), ('fix', fix)):
            if part not in (gpu[key] or '') or (not part and gpu[key]):
                complaints.append(f'{key} is {gpu[key]!r}')
        text = run('devices', '--root', machine.root)
        complaints += expect(text, 0, out=gpu['address'])
        complaints += [f'text lacks {part}' for part in (
            gpu['why_not'], gpu['fix'], gpu['driver']) if part and
            part not in text.stdout]
    doctor = run('doctor', '--root', machine.root, '--json')
    broken = bool(why) and want.get('vendor_id') != '8086'
    complaints += expect(doctor, 1 if broken else 0)
    complaints += schema_complaints('doctor', doctor.stdout)
    fixes = [f['fix'] for f in json.loads(doctor.stdout)['findings']]
    if fixes != [gpu['fix'] for gpu in gpus]:
        complaints.append(f'doctor says {fixes}')
    tap.check(name, complaints)


def check_nvidia(tap, folder):
    machine = Machine(folder).nvidia()
    machine.card('0000:01:00.0', NETWORK)
    look(tap, 'an H100', machine, {
        'address': '0000:41:00.0', 'vendor_id': '10de', 'device_id': '2330',
        'subsystem_device_id': '16c1', 'revision': 'a1', 'class': '030200',
        'link_gt_s': 16, 'link_lanes': 8, 'link_max_gt_s': 32,
        'link_max_lanes': 16, 'numa_node': 1, 'iommu_group': 17,
        'driver': 'nvidia', 'driver_version': '580.159.04',
        'bars': [
            {'index': 0, 'address': 'a0000000', 'size_bytes': 16 << 20,
             'kind': 'memory', 'is_64bit': False, 'prefetchable': False},
            {'index': 2, 'address': '40000000000', 'size_bytes': 128 << 30,
             'kind': 'memory', 'is_64bit': True, 'prefetchable': True},
            {'index': 3, 'address': '3000', 'size_bytes': 128,
             'kind': 'ports', 'is_64bit': False, 'prefetchable': False}]})
    look(tap, 'a driver of an unknown branch',
         Machine(folder).nvidia(version='999.10'), {}, '999.10 is of no branch')
    machine = Machine(folder).nvidia(minor=3, nodes=False)
    machine.file('/dev/nvidiactl', '', 0o666)
    look(tap, 'a node that is missing', machine, {},
         '/dev/nvidia3 is missing', 'nvidia-modprobe -c 3')
    machine.file('/.dockerenv')
    look(tap, 'the same in a container', machine, {},
         '/dev/nvidia3 is missing', '--device=/dev/nvidia3')
    machine = Machine(folder)
    machine.card('0000:41:00.0', H100, 'nouveau')
    look(tap, 'nouveau', machine, {'driver': 'nouveau'}, 'held by nouveau',
         'apt-get install nvidia-open-kernel-dkms')
    machine = Machine(folder)
    machine.card('0000:41:00.0', H100, 'vfio-pci')
    look(tap, 'a card of a virtual machine', machine, {}, 'held by vfio-pci',
         'echo 0000:41:00.0 > drivers_probe')
    machine = Machine(folder)
    machine.card('0000:41:00.0', H100)
    look(tap, 'no driver', machine, {'driver': None}, 'no kernel driver',
         'apt-get install nvidia-open-kernel-dkms')
    machine.file('/lib/modules/6.1.0-test/modules.dep',
                 'updates/dkms/nvidia.ko.xz: a.ko\n')
    look(tap, 'a driver that is installed and not loaded', machine, {},
         'no kernel driver', 'modprobe nvidia')


def check_containers(tap, folder):
    """Each kind by each of its marks, and how it is given a card's node."""
    kinds = (
        ('podman', '/run/.containerenv', '', '--device=/dev/nvidia3'),
        ('another of OCI', '/proc/1/environ', 'A=b\0container=oci\0',
         '--device=/dev/nvidia3'),
        ('Kubernetes', '/var/run/secrets/kubernetes.io/serviceaccount/token',
         'x', 'nvidia.com/gpu: 1'),
        ('Kubernetes by its cgroup', '/proc/1/cgroup',
         '0::/kubepods/burstable/pod1/2\n', 'nvidia.com/gpu: 1'),
        ('LXC', '/proc/1/environ', 'container=lxc\0', 'lxc config device add'),
        ('LXD', '/dev/lxd/sock', '', 'source=/dev/nvidia3'),
        ('Apptainer', '/.singularity.d/runscript', '', 'apptainer run --nv'),
        ('nspawn', '/run/systemd/container', 'systemd-nspawn\n',
         '--bind=/dev/nvidia3'),
    )
    for name, path, text, fix in kinds:
        machine = Machine(folder).nvidia(minor=3, nodes=False)
        machine.file('/dev/nvidiactl', '', 0o666)
        machine.file(path, text)
        look(tap, f'a missing node in {name}', machine, {},
             '/dev/nvidia3 is missing', fix)
    # a pod whose engine left its own mark
    machine = Machine(folder).nvidia(minor=3, nodes=False)
    machine.file('/dev/nvidiactl', '', 0o666)
    machine.file('/.dockerenv')
    machine.file('/proc/1/cgroup', '0::/kubepods/pod1\n')
    look(tap, 'a pod of Docker', machine, {}, '/dev/nvidia3 is missing',
         'nvidia.com/gpu: 1')


def check_asleep(tap, folder):
    """What would wake a card that sleeps is not read."""
    machine = Machine(folder).nvidia()
    card = '/sys/bus/pci/devices/0000:41:00.0'
    machine.file(f'{card}/power/runtime_status', 'suspended\n')
    look(tap, 'a card that sleeps', machine, {
        'asleep': True, 'link_gt_s': None, 'link_lanes': None,
        'link_max_gt_s': 32, 'link_max_lanes': 16, 'usable': True})
    machine.file(f'{card}/power/runtime_status', 'active\n')
    look(tap, 'a card that is awake', machine,
         {'asleep': False, 'link_gt_s': 16, 'usable': True})


def check_amd(tap, folder):
    look(tap, 'an RX 7900', Machine(folder).amd(), {
        'vendor_id': '1002', 'driver': 'amdgpu', 'device': 'AMD:0',
        'drm_node': '/dev/dri/renderD129', 'link_gt_s': None,
        'link_lanes': None, 'link_max_gt_s': 16, 'numa_node': None,
        'iommu_group': None, 'driver_version': 'of Linux 6.1.0-test',
        'nodes': [{'path': path, 'there': True, 'may_open': True,
                   'mode': '0666', 'group': 'root'}
                  for path in ('/dev/kfd', '/dev/dri/renderD129')]
        if os.getuid() == 0 else json.loads(run(
            'devices', '--json', '--root', Machine(folder).amd().root).stdout)[
                'gpus'][0]['nodes']})
    look(tap, 'a generation that is not known', Machine(folder).amd(gfx=90005),
         {}, 'generation 90005 is not known')
    look(tap, 'a kernel that does not tell the chip', Machine(folder).amd(gfx=0),
         {}, 'the kernel is too old', 'Linux 5.17')
    look(tap, 'a generation that is refused', Machine(folder).amd(gfx=90500),
         {}, 'gfx950 (MI350X, MI355X) needs LLVM 20')
    for verb in 'doctor', 'devices':
        done = run(verb, '--root', Machine(folder).amd(heap=2).root)
        tap.check(f'memory that the CPU does not see: {verb}', expect(
            done, 0, out='a part of its memory only') + expect(
            done, 0, out='resizable BAR'))
    for verb in 'doctor', 'devices':
        done = run(verb, '--root', Machine(folder).amd(
            gfx=90402, capability=1 << 28, heap_bytes=96 << 30).root)
        tap.check(f"memory that is the host's: {verb}", expect(
            done, 0, out="its memory is the host's: the kernel lends 96"))
    look(tap, 'a card that KFD does not list',
         Machine(folder).amd(listed=False), {}, 'KFD does not list it')
    machine = Machine(folder)
    machine.card('0000:03:00.0', NAVI)
    look(tap, 'amdgpu is not loaded', machine, {}, 'amdgpu would',
         'firmware-amd-graphics')


def check_link(tap, folder):
    """A card with fewer lanes than it has is told, one with all is well."""
    done = run('doctor', '--root', Machine(folder).nvidia().root)
    tap.check('a narrow link', expect(
        done, 0, out='note     GPU             0000:41:00.0: PCIe x8 of x16'))
    machine = Machine(folder).nvidia()
    machine.file('/sys/bus/pci/devices/0000:41:00.0/current_link_width', '16\n')
    done = run('doctor', '--root', machine.root)
    tap.check('a whole one', expect(done, 0) + [
        done.stdout] * ('PCIe' in done.stdout))


def check_passed_over(tap, folder):
    """A card that cannot be used is no problem where another can."""
    machine = Machine(folder).nvidia(minor=1)
    machine.card('0000:51:00.0', H100, 'nvidia')
    machine.file('/proc/driver/nvidia/gpus/0000:51:00.0/information',
                 'Model: \t\t NVIDIA H100\nDevice Minor: \t 0\n')
    done = run('doctor', '--root', machine.root)
    tap.check('a card that the container lacks', expect(
        done, 0, out='note     GPU             0000:51:00.0 is passed over: '
        '/dev/nvidia0 is missing'))
    os.remove(machine.root + '/dev/nvidia1')
    done = run('doctor', '--root', machine.root)
    tap.check('both', expect(
        done, 1, out='problem  GPU             0000:51:00.0: /dev/nvidia0'))
    # numbers are of the cards whose nodes are there
    machine = Machine(folder).amd()
    nodes = '/sys/devices/virtual/kfd/kfd/topology/nodes'
    machine.file(f'{nodes}/2/gpu_id', '4712\n')
    machine.file(f'{nodes}/2/properties', 'location_id 1024\ndomain 0\n'
                 'drm_render_minor 130\ngfx_target_version 110000\n')
    machine.card('0000:04:00.0', NAVI, 'amdgpu')
    machine.file('/sys/bus/pci/devices/0000:04:00.0/drm/renderD130/dev', '')
    for there, want in (((129, 130), ['AMD:0', 'AMD:1']),
                        ((129,), ['AMD:0', None]), ((130,), [None, 'AMD:0'])):
        for minor in (129, 130):
            path = f'/dev/dri/renderD{minor}'
            if minor in there:
                machine.file(path, '', 0o666)
            elif os.path.exists(machine.root + path):
                os.remove(machine.root + path)
        done = run('devices', '--root', machine.root, '--json')
        got = [gpu['device'] for gpu in json.loads(done.stdout)['gpus']]
        tap.check(f'numbers where {there} are', [f'{got}'] * (got != want))


def check_others(tap, folder):
    machine = Machine(folder)
    machine.card('0000:00:02.0', INTEL, 'i915')
    look(tap, 'a GPU of another vendor', machine,
         {'vendor_id': '8086', 'driver': 'i915'}, 'no driver for GPUs of vendor 8086')
    machine = Machine(folder)
    tap.check('no GPU', expect(run('doctor', '--root', machine.root), 0,
                               out='PCI shows none'))
    machine.file('/dev/dxg')
    tap.check('WSL2', expect(run('doctor', '--root', machine.root), 0,
                             out='GPUs behind /dev/dxg alone'))
    tap.check('no folder', expect(
        run('devices', '--root', folder + '/none'), 1, err='none'))
    tap.check('a folder and a device', expect(
        run('devices', 'CPU', '--root', folder), 2, err='CPU was named'))


def check_permission(tap, folder):
    """Root may open everything, so this is tried as somebody else."""
    user = {'user': 65534, 'group': 65534, 'extra_groups': []} if (
        os.getuid() == 0) else {}
    machine = Machine(folder).amd(mode=0o660)
    if not user:
        tap.skip('a node of a group', 'needs root to make one')
        return
    os.chmod(folder, 0o755)
    video = machine.root + '/dev/kfd'
    os.chown(video, 0, 44)
    argv = [DOORBELL, 'devices', '--root', machine.root, '--json']
    try:
        done = subprocess.run(argv, capture_output=True, text=True,
                              check=False, **user)
    except OSError:
        tap.skip('a node of a group', 'the program may not be read by nobody')
        return
    if done.returncode == 126 or not done.stdout:
        tap.skip('a node of a group', 'the program does not start for nobody')
        return
    gpu = json.loads(done.stdout)['gpus'][0]
    tap.check('a node of a group', [
        f'{gpu}' for _ in [0] if gpu['usable'] or
        'mode 660' not in gpu['why_not'] or 'usermod -aG' not in gpu['fix']])


def adreno(tap, name, machine, want, fix=None):
    """What doctor says of the Adreno alone; `want` is a part of it."""
    done = run('doctor', '--root', machine.root, '--json')
    complaints = expect(done, 1 if fix else 0)
    complaints += schema_complaints('doctor', done.stdout)
    found = [f for f in json.loads(done.stdout)['findings']
             if f['what'] == 'Adreno GPU']
    if [(f['verdict'], f['fix']) for f in found] != [
            ('problem' if fix else 'ok', fix)] or want not in found[0]['detail']:
        complaints.append(f'{found}')
    tap.check(name, complaints)


def check_adreno(tap, folder):
    machine = Machine(folder)
    machine.file('/dev/kgsl-3d0', '', 0o666)
    adreno(tap, "Adreno by the vendor's kernel", machine,
           '/dev/kgsl-3d0, kernel driver kgsl')
    machine = Machine(folder)
    machine.file('/sys/class/kgsl/kgsl-3d0/dev')
    machine.file('/.dockerenv')
    adreno(tap, 'the same in a container without its node', machine,
           '/dev/kgsl-3d0 is missing',
           'start this container with --device=/dev/kgsl-3d0')
    machine = Machine(folder)
    machine.file('/sys/class/drm/renderD128/device/uevent', 'DRIVER=i915\n')
    machine.file('/sys/class/drm/renderD129/device/uevent',
                 'DRIVER=msm_dpu\nOF_NAME=display\n')
    machine.file('/dev/dri/renderD129', '', 0o666)
    adreno(tap, 'Adreno by msm', machine,
           '/dev/dri/renderD129, kernel driver msm')
    machine = Machine(folder)
    machine.file('/sys/bus/platform/devices/1d84000.ufs/uevent',
                 'OF_COMPATIBLE_0=qcom,ufshc\n')
    tap.check('another chip of the same maker', expect(
        run('doctor', '--root', machine.root), 0, out='PCI shows none'))
    machine.file('/sys/bus/platform/devices/5000000.gpu/uevent',
                 'OF_NAME=gpu\nOF_COMPATIBLE_0=qcom,adreno-630.2\n')
    adreno(tap, 'Adreno without a kernel driver', machine,
           'no kernel driver holds it', 'modprobe msm')


def check_junk(tap, folder):
    """Files that hold anything: an answer, and no crash."""
    chance = random.Random(16)
    complaints = []
    for _ in range(30):
        machine = Machine(folder).nvidia().amd()
        paths = [os.path.join(top, name)
                 for top, _, names in os.walk(machine.root) for name in names
                 if not os.path.islink(os.path.join(top, name))]
        for path in chance.sample(paths, 6):
            with open(path, 'wb') as file:
                file.write(chance.randbytes(chance.choice([0, 1, 9, 9000])))
        done = run('devices', '--root', machine.root, '--json')
        complaints += expect(done, 0)
        if done.returncode == 0:
            complaints += schema_complaints('devices', done.stdout)
    tap.check('files with junk', complaints)


def check_here(tap, with_sim):
    done = run('devices', '--all', '--json')
    complaints = expect(done, 0) + schema_complaints('devices', done.stdout)
    devices = json.loads(done.stdout)['devices'] if not complaints else []
    if with_sim and len(devices) < 15:
        complaints.append(f'{len(devices)} devices')
    complaints += [f'{d["name"]}: {d["why_not"]}' for d in devices
                   if '@sim' in d['name'] and d['name'].startswith('NV') and
                   not d['usable']]
    tap.check('devices --all', complaints)
    for device in 'CPU', 'NV@sim:h100' if with_sim else 'CPU:0':
        done = run('devices', device, '--json')
        tap.check(f'devices {device} --json', expect(done, 0) +
                  schema_complaints('devices', done.stdout))
    if with_sim:
        tap.check('a chip that is taken for another', expect(
            run('devices', 'NV@sim:sm_120,sm=0xc77'), 0,
            out='0xc77 is not known: the device is used as sm_120'))
    done = run('eval', '--device', 'NV:0', '1 + 1')
    tap.check('where to ask about a device that is not there', [
        done.stderr for _ in [0] if 'there are 0 of NV' in done.stderr and
        'doorbell doctor says what is missing' not in done.stderr])
    names = run('devices', '--names')
    done = run('devices', '--names', '--json')
    tap.check('devices --names', expect(names, 0) + expect(done, 0) +
              schema_complaints('devices', done.stdout) + [
        'text has others' for _ in [0]
        if json.loads(done.stdout)['names'] != names.stdout.split()])
    done = run('doctor', '--json')
    tap.check('doctor --json', schema_complaints('doctor', done.stdout))
    findings = json.loads(run('doctor', '--json',
                              BELL_DEVICE='NV:9').stdout)['findings']
    fixes = {f['fix'] for f in findings if f['verdict'] == 'problem'}
    tap.check('one remedy for a device that is not there', [
        f'{fixes}' for _ in [0] if len(fixes) != 1])


def check_boxes(tap):
    """All cards of a simulated box, and what is between them."""
    for box, n, kinds, said in (
            ('NV@sim:sm_90*3,link=0-1:pcie', 3, ['pcie'] + ['nvlink'] * 2,
             'no atomics'),
            ('NV@sim:rtx4090*2', 2, ['host'], 'this kind of card'),
            ('NV@sim:h100*2,fabric=absent', 2, ['host'], 'fabric manager')):
        done, text = run('devices', box, '--json'), run('devices', box)
        complaints = expect(done, 0) + expect(text, 0, out=said) + (
            schema_complaints('devices', done.stdout))
        document = {'devices': [], 'links': []} if complaints else (
            json.loads(done.stdout))
        links = {(l['device'][3], l['other'][3]): l['kind']
                 for l in document['links']}
        complaints += [
            f'{links}' for _ in [0] if len(document['devices']) != n or
            len(links) != n * (n - 1) or
            sorted(links[p] for p in links if p[0] < p[1]) != sorted(kinds) or
            any(links[p] != links[p[::-1]] for p in links)]
        tap.check(f'links of {box}', complaints)
    one = run('devices', 'NV:1@sim:sm_90*3', '--json')
    tap.check('one card of a box', expect(one, 0) + [
        one.stdout for _ in [0] if len(json.loads(one.stdout)['devices']) != 1
        or json.loads(one.stdout)['links']])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        check_nvidia(tap, folder)
        check_containers(tap, folder)
        check_asleep(tap, folder)
        check_amd(tap, folder)
        check_link(tap, folder)
        check_passed_over(tap, folder)
        check_others(tap, folder)
        check_adreno(tap, folder)
        check_permission(tap, folder)
        check_junk(tap, folder)
    check_here(tap, '--sim' in sys.argv)
    if '--sim' in sys.argv:
        check_boxes(tap)
    tap.finish()


if __name__ == '__main__':
    main()
