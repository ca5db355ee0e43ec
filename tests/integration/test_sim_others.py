#!/usr/bin/env python3
"""Drivers of other hands on simulated cards: tinygrad's and ROCm's, where they
are installed. BELL_TINYGRAD_PYTHON names an interpreter that has tinygrad.

usage: test_sim_others.py DOORBELL
"""
import os
import shutil
import subprocess
import sys
import tempfile

from cli import Tap, expect, run

PYTHON = os.environ.get('BELL_TINYGRAD_PYTHON', sys.executable)

# Additions are exact; the product is compared with Python's.
TENSORS = '''
from tinygrad import Tensor
a = Tensor([1., 2, 3, 4]) + Tensor([10., 20, 30, 40])
print('sum', a.tolist())
x = [[(i * 7 + k) % 5 - 2. for k in range(32)] for i in range(16)]
w = [[(k * 3 + j) % 7 - 3. for j in range(24)] for k in range(32)]
want = [[sum(x[i][k] * w[k][j] for k in range(32)) for j in range(24)]
        for i in range(16)]
print('product', (Tensor(x) @ Tensor(w)).tolist() == want)
print('gather', Tensor(list(range(40)))[Tensor([3, 39, 0])].tolist())
'''

# Two cards, each of which reads the other's memory.
SHARDS = '''
from tinygrad import Device, Tensor
cards = Device.DEFAULT + ':0', Device.DEFAULT + ':1'
there = Tensor.arange(256).contiguous().realize().to(cards[1]).realize()
print('to', (there + 1).sum().item())
halves = Tensor([float(i) for i in range(64)]).shard(cards, 0).realize()
print('sum', (halves * 2).sum().item())
w = Tensor([[1.] * 8] * 8).shard(cards, 1).realize()
x = Tensor([[2.] * 8] * 4).shard(cards).realize()
print('product', (x @ w).tolist() == [[16.] * 8] * 4)
'''

HIP = '''
#include <hip/hip_runtime.h>
#include <cstdio>
#define N 4096
__global__ void axpy(float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a * x[i] + y[i];
}
__global__ void total(const float *x, float *out)
{
    __shared__ float s[256];
    int t = threadIdx.x, k;
    s[t] = x[blockIdx.x * 256 + t];
    for (k = 128; k; k >>= 1) {
        __syncthreads();
        if (t < k)
            s[t] += s[t + k];
    }
    if (t == 0)
        atomicAdd(out, s[0]);
}
int main(void)
{
    static float x[N], y[N];
    float *dx, *dy, *out, sum = -1, want = 0;
    for (int i = 0; i < N; i++) {
        x[i] = i % 17;
        y[i] = i % 5;
        want += 3 * x[i] + y[i];
    }
    hipMalloc((void **)&dx, sizeof(x));
    hipMalloc((void **)&dy, sizeof(y));
    hipMalloc((void **)&out, 4);
    hipMemcpy(dx, x, sizeof(x), hipMemcpyHostToDevice);
    hipMemcpy(dy, y, sizeof(y), hipMemcpyHostToDevice);
    hipMemset(out, 0, 4);
    axpy<<<N / 256, 256>>>(3, dx, dy);
    total<<<N / 256, 256>>>(dy, out);
    hipMemcpy(&sum, out, 4, hipMemcpyDeviceToHost);
    printf("%s %g\\n", sum == want ? "right" : "wrong", sum);
    return sum != want;
}
'''


def check_tinygrad_ptx(tap, home):
    """Its PTX instead of the machine code that an assembler makes of it."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          'tinygrad_ptx.py')
    for chip in ('sm_86*2', 'sm_89*2', 'sm_120*2,ordered'):
        for what, text, want in (
                ('one', TENSORS, 'sum [11.0, 22.0, 33.0, 44.0]\n'
                 'product True\ngather [3, 39, 0]'),
                ('two', SHARDS, 'to 32896\nsum 4032.0\nproduct True')):
            done = run('sim', f'NV@sim:{chip},link=pcie,lenient', '--', PYTHON,
                       script, '-c', text, DEV='NV:PTX', **home)
            tap.check(f'tinygrad on {what} of {chip}, PTX',
                      expect(done, 0, out=want))


def check_tinygrad(tap, folder):
    there = subprocess.run([PYTHON, '-c', 'import tinygrad'],
                           capture_output=True, check=False)
    if there.returncode:
        tap.skip('tinygrad', f'{PYTHON} has no tinygrad '
                 '(BELL_TINYGRAD_PYTHON names one that has)')
        return
    home = {'HOME': folder, 'CACHEDB': os.path.join(folder, 'cache.db')}
    for chip in ('gfx1100', 'gfx942', 'gfx1201', 'gfx1151', 'gfx1200'):
        for aql in ('0', '1'):
            done = run('sim', f'AMD@sim:{chip}', '--', PYTHON, '-c', TENSORS,
                       DEV='AMD:LLVM', AMD_AQL=aql, **home)
            name = f'tinygrad on {chip}, {"AQL" if aql == "1" else "PM4"}'
            if 'LLVM' in done.stderr and 'not found' in done.stderr:
                tap.skip(name, 'tinygrad finds no LLVM')
                continue
            tap.check(name, expect(
                done, 0, out='sum [11.0, 22.0, 33.0, 44.0]\nproduct True\n'
                'gather [3, 39, 0]') + [
                    line for line in done.stderr.splitlines()
                    if line.startswith('doorbell sim')])
            if chip not in ('gfx1100', 'gfx942'):
                continue
            path = os.path.join(folder, 'tiny.cas')
            done = run('sim', f'AMD@record:{path}@sim:{chip}', '--', PYTHON,
                       '-c', TENSORS, DEV='AMD:LLVM', AMD_AQL=aql, **home)
            tap.check(f'{name}, recorded with its packets', expect(
                done, 0, out='product True') + expect(
                    run('trace', 'show', path), 0,
                    out='KERNEL_OBJECT = 0x' if aql == '1'
                    else 'DISPATCH_DIRECT DIM_X=') + expect(
                        run('trace', 'replay', path), 0,
                        out=' 0 differences'))
    for chip in ('gfx942', 'gfx1100'):
        done = run('sim', f'AMD@sim:{chip}*2', '--', PYTHON, '-c', SHARDS,
                   DEV='AMD:LLVM', **home)
        name = f'tinygrad on two of {chip}'
        if 'LLVM' in done.stderr and 'not found' in done.stderr:
            tap.skip(name, 'tinygrad finds no LLVM')
            continue
        tap.check(name, expect(
            done, 0, out='to 32896\nsum 4032.0\nproduct True'))
    check_tinygrad_ptx(tap, home)
    # It knows no class of sm_80's, and rings BAR0 without a read.
    for chip in ('sm_89', 'sm_89,branch=610', 'sm_120,ordered'):
        name = f'tinygrad on {chip}, up to its first kernel'
        done = run('sim', f'NV@sim:{chip}', '--', PYTHON, '-c', TENSORS,
                   DEV='NV', HCQDEV_WAIT_TIMEOUT_MS='3000', **home)
        if 'SASS' not in done.stderr and 'doorbell sim' not in done.stderr:
            tap.skip(name, 'it has no compiler for NVIDIA')
            continue
        tap.check(name, [] if 'SASS is not simulated' in done.stderr
                  else done.stderr.splitlines()[-20:])


def check_rocm(tap, folder):
    for chip in ('gfx1030', 'gfx90a'):
        if not shutil.which('rocminfo'):
            tap.skip(f'rocminfo on {chip}', 'it is not installed')
            continue
        done = run('sim', f'AMD@sim:{chip}*2', '--', 'rocminfo')
        tap.check(f'rocminfo on {chip}', expect(
            done, 0, out=f'amdgcn-amd-amdhsa--{chip}') + [
                f'{n} agents' for n in [done.stdout.count('Agent ')]
                if n != 3])
    if not shutil.which('hipcc'):
        tap.skip('HIP', 'there is no hipcc')
        return
    source, program = (os.path.join(folder, n) for n in ('a.cpp', 'a.out'))
    with open(source, 'w', encoding='utf-8') as file:
        file.write(HIP)
    built = subprocess.run(
        ['hipcc', '--offload-arch=gfx1030', '--offload-arch=gfx90a', '-w',
         source, '-o', program], capture_output=True, text=True, check=False,
        env=dict(os.environ, HIP_PLATFORM='amd'))
    if built.returncode:
        tap.skip('HIP', 'hipcc builds nothing: ' + built.stderr[-200:]
                 .replace('\n', ' '))
        return
    for chip in ('gfx1030', 'gfx90a'):
        done = run('sim', f'AMD@sim:{chip}', '--', program)
        tap.check(f'a HIP program on {chip}', expect(done, 0, out='right'))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        check_tinygrad(tap, folder)
        check_rocm(tap, folder)
    tap.finish()


if __name__ == '__main__':
    main()
