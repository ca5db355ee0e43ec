#!/usr/bin/env python3
"""Runs an example on files that it is given here.

usage: test_example.py PROGRAM bundle|gguf|gpt2|mnist_conv|resnet18|transformer [RUNNER]
"""
import gzip
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

from cli import Tap, data_dir, expect, run
from gguf_write import gguf, gguf_text


# ---- mnist_conv: blurred blots, each class's in its places -----------------

def draw(places, rng):
    dx, dy = rng.randint(-2, 2), rng.randint(-2, 2)
    image = bytearray(28 * 28)
    for x, y in places:
        for i in range(-2, 3):
            for k in range(-2, 3):
                at = (y + dy + i) * 28 + x + dx + k
                image[at] = min(255, image[at] + 60 * (3 - max(abs(i), abs(k)))
                                + rng.randint(0, 40))
    return bytes(image)


def learn(tap, name, paths, n_steps, least):
    done = run(*paths, n_steps, BELL_DEVICE='CPU:0')
    complaints = expect(done, 0, out=' right')
    if not complaints and float(done.stdout.split()[0]) < least:
        complaints = [f'{done.stdout.strip()}, less than {least}']
    tap.check(name, complaints)


def mnist_conv(tap, folder):
    rng = random.Random(1)
    classes = [[(rng.randint(5, 22), rng.randint(5, 22)) for _ in range(4)]
               for _ in range(10)]
    labels = bytes(i % 10 for i in range(2000))
    paths = [os.path.join(folder, name) for name in ('images', 'labels')]
    with open(paths[0], 'wb') as file:
        file.write(struct.pack('>4I', 0x803, 2000, 28, 28))
        file.write(b''.join(draw(classes[label], rng) for label in labels))
    with open(paths[1], 'wb') as file:
        file.write(struct.pack('>2I', 0x801, 2000) + labels)
    learn(tap, 'drawn blots', paths, '100', 0.95)
    tap.check('without files', expect(run(), 2, err='mnist_conv IMAGES'))
    real = data_dir('mnist')
    if not real or '--small' in sys.argv:
        tap.skip('MNIST', 'no real data (BELL_TEST_DATA), or too slow here')
        return
    for path, name in zip(paths, ('images-idx3', 'labels-idx1')):
        source = os.path.join(real, f't10k-{name}-ubyte.gz')
        with gzip.open(source) as packed, open(path, 'wb') as file:
            file.write(packed.read())
    learn(tap, 'MNIST', paths, '900', 0.965)


# ---- resnet18: PyTorch's on the same numbers -------------------------------

def build_resnet(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, n_in, n_out, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(n_out)
            self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(n_out)
            self.downsample = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False),
                nn.BatchNorm2d(n_out)) if stride > 1 else None

        def forward(self, x):
            y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
            return torch.relu(y + (self.downsample or nn.Identity())(x))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(64)
            for k, (n_in, n_out) in enumerate(
                    [(64, 64), (64, 128), (128, 256), (256, 512)], 1):
                setattr(self, f'layer{k}', nn.Sequential(
                    Block(n_in, n_out, 1 + (k > 1)), Block(n_out, n_out, 1)))
            self.fc = nn.Linear(512, 10)

        def forward(self, x):
            x = torch.relu(self.bn1(self.conv1(x)))
            x = nn.functional.max_pool2d(x, 3, 2, 1)
            for k in range(1, 5):
                x = getattr(self, f'layer{k}')(x)
            return self.fc(x.mean((2, 3)))

    return ResNet()


def write_safetensors(path, tensors):
    header, data = {}, b''
    for name, t in tensors.items():
        raw = t.contiguous().numpy().tobytes()
        header[name] = {
            'dtype': {'float32': 'F32', 'int64': 'I64'}[str(t.dtype)[6:]],
            'shape': list(t.shape),
            'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + data)


def random_resnet(torch):
    torch.manual_seed(1)
    net = build_resnet(torch)
    for name, t in net.state_dict().items():
        if 'running_mean' in name:
            t.normal_(0, 0.1)
        elif 'running_var' in name:
            t.uniform_(0.5, 1.5)
    return net


def train_resnet(torch, net, x, y):
    """The numbers that the example prints, in float64."""
    names = [name for name in net.state_dict() if 'num_batches' not in name]
    want = {'logits': net.double().eval()(x.double()).norm().item()}
    opt = torch.optim.SGD(net.train().parameters(), lr=0.01)
    loss = torch.nn.functional.cross_entropy(net(x.double()), y)
    loss.backward()
    opt.step()
    want['loss'] = loss.item()
    for name in names:
        want[name] = net.state_dict()[name].norm().item()
    return want


def compare(done, want):
    complaints = expect(done, 0)
    got = dict(line.split() for line in done.stdout.splitlines())
    if list(got) != list(want):
        return complaints + [f'other names than {list(want)}']
    return complaints + [
        f'{name}: {got[name]}, not {value}' for name, value in want.items()
        if not math.isclose(float(got[name]), value, rel_tol=2e-5)]


def resnet18(tap, folder):
    tap.check('no such file', expect(run('x.safetensors'), 1,
                                     err='x.safetensors'))
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        tap.skip('as in PyTorch', 'it is not installed')
        return
    net = random_resnet(torch)
    x, y = torch.randn(4, 3, 64, 64), torch.tensor([1, 7, 0, 9])
    path = os.path.join(folder, 'net.safetensors')
    tensors = {name: t for name, t in net.state_dict().items()
               if 'num_batches' not in name}
    write_safetensors(path, dict(tensors, input=x, target=y))
    done = run(path, BELL_DEVICE='CPU:0')
    tap.check('as in PyTorch', compare(done, train_resnet(torch, net, x, y)))


# ---- gpt2: the same ---------------------------------------------------------

LAYERS, HEADS, DIM, TOKENS, PLACES = 3, 4, 32, 61, 24


def random_gpt2(torch):
    torch.manual_seed(2)
    sizes = {'wte.weight': (TOKENS, DIM), 'wpe.weight': (PLACES, DIM)}
    for i in range(LAYERS):
        for name, (n, m) in {'attn.c_attn': (DIM, 3 * DIM),
                             'attn.c_proj': (DIM, DIM),
                             'mlp.c_fc': (DIM, 4 * DIM),
                             'mlp.c_proj': (4 * DIM, DIM)}.items():
            sizes[f'h.{i}.{name}.weight'] = (n, m)
            sizes[f'h.{i}.{name}.bias'] = (m,)
        for name in ('ln_1', 'ln_2'):
            sizes[f'h.{i}.{name}.weight'] = sizes[f'h.{i}.{name}.bias'] = (DIM,)
    sizes['ln_f.weight'] = sizes['ln_f.bias'] = (DIM,)
    return {name: torch.randn(size) * 0.2 + ('ln' in name and 'w' in name)
            for name, size in sizes.items()}


def run_gpt2(torch, net, x):
    def norm(name, x):
        return torch.nn.functional.layer_norm(
            x, (DIM,), net[name + '.weight'], net[name + '.bias'])

    def project(name, x):
        return x @ net[name + '.weight'] + net[name + '.bias']

    n, t = x.shape
    hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
    x = net['wte.weight'][x] + net['wpe.weight'][:t]
    for i in range(LAYERS):
        qkv = project(f'h.{i}.attn.c_attn', norm(f'h.{i}.ln_1', x))
        q, k, v = (a.view(n, t, HEADS, -1).transpose(1, 2)
                   for a in qkv.split(DIM, 2))
        scores = q @ k.transpose(2, 3) / math.sqrt(DIM // HEADS)
        y = scores.masked_fill(hidden, -math.inf).softmax(-1) @ v
        x = x + project(f'h.{i}.attn.c_proj',
                        y.transpose(1, 2).reshape(n, t, DIM))
        y = project(f'h.{i}.mlp.c_fc', norm(f'h.{i}.ln_2', x))
        y = torch.nn.functional.gelu(y, approximate='tanh')
        x = x + project(f'h.{i}.mlp.c_proj', y)
    return norm('ln_f', x) @ net['wte.weight'].T


def train_gpt2(torch, tensors, x, y):
    """The numbers that the example prints, in float64."""
    net = {name: t.double().requires_grad_() for name, t in tensors.items()}
    logits = run_gpt2(torch, net, x)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
    loss.backward()
    want = {'logits': logits.norm().item(), 'loss': loss.item()}
    for name, t in net.items():
        want[name] = (t - 0.01 * t.grad).norm().item()
    return want


def gpt2(tap, folder):
    tap.check('no such file', expect(run('x.safetensors'), 1,
                                     err='x.safetensors'))
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        tap.skip('as in PyTorch', 'it is not installed')
        return
    tap.check('no number of heads', expect(run('x', '0'), 2, err='usage'))
    tensors = random_gpt2(torch)
    x, y = (torch.randint(TOKENS, (2, 17)) for _ in range(2))
    path = os.path.join(folder, 'net.safetensors')
    write_safetensors(path, dict(tensors, input=x, target=y))
    done = run(path, str(HEADS), BELL_DEVICE='CPU:0')
    tap.check('as in PyTorch', compare(done, train_gpt2(torch, tensors, x, y)))
    tap.check('heads that do not fit',
              expect(run(path, '5', BELL_DEVICE='CPU:0'), 2, err='reshape'))
    del tensors['h.1.mlp.c_fc.bias']
    write_safetensors(path, dict(tensors, input=x, target=y))
    tap.check('a tensor less', expect(
        run(path, str(HEADS), BELL_DEVICE='CPU:0'), 2, err='NULL'))


# ---- gguf: 4-bit weights stay so -------------------------------------------

def read_gguf(tap, folder):
    rng = random.Random(6)
    rows, columns, data, total = 96, 512, b'', 0
    for _ in range(rows * columns // 32):
        scale, q = rng.choice((0.25, 0.5, 1)), rng.randbytes(16)
        data += struct.pack('<e', scale) + q
        total += scale * sum((x & 15) + (x >> 4) - 16 for x in q)
    path = os.path.join(folder, 'model.gguf')
    with open(path, 'wb') as file:
        file.write(gguf([('a', 2, (rows, columns), data)],
                        [gguf_text('general.architecture', 'none')]))
    done = run(path, 'a', BELL_DEVICE='CPU:0')
    complaints = expect(done, 0, out='a Q4_0 96x512 27648 bytes')
    if not complaints:
        words = done.stdout.splitlines()[-1].split()
        if float(words[3].rstrip(';')) != total or float(words[4]) > 7:
            complaints.append(f'{done.stdout}, not {total}')
    tap.check('Q4_0', complaints)
    tap.check('no tensor', expect(run(path, 'b', BELL_DEVICE='CPU:0'), 2,
                                  err="'b'"))
    tap.check('no file', expect(run(path + 'x'), 1, err='model.ggufx'))
    tap.check('no argument', expect(run(), 2, err='usage'))


# ---- transformer: sentences of few words ------------------------------------

def transformer(tap, folder):
    rng = random.Random(1)
    path = os.path.join(folder, 'text')
    with open(path, 'w', encoding='ascii') as file:
        for _ in range(2000):
            who, does, whom = (rng.choice(words.split()) for words in (
                'cats dogs owls mice', 'see hear follow', 'me you them us'))
            file.write(f'{who} {does} {whom}. ')
    done = run(path, '100', '40', BELL_DEVICE='CPU:0')
    complaints = expect(done, 0, err='nats a byte')
    loss = float(done.stderr.split()[-4])
    if not complaints and not loss < 0.7:  # 0.26 is in the choices
        complaints = [f'{loss} nats a byte']
    tap.check('sentences', complaints)
    tap.check('without a text', expect(run(), 2, err='transformer TEXT'))


# ---- bundle: what one program saves, another runs ---------------------------

def bundle(tap, folder):
    def use(name, device):
        path = os.path.join(folder, name)
        return subprocess.run([sys.argv[3], path, device], text=True,
                              capture_output=True, check=False)

    for name, target in ('sine', 'CPU'), ('other', 'NV@sim:sm_90'):
        tap.check(f'saved for {target}', expect(
            run(os.path.join(folder, name), target, BELL_DEVICE='CPU:0'), 0))
    done = use('sine', 'CPU')
    complaints = expect(done, 0, err='kernels for')
    points = [[float(word) for word in line.split()]
              for line in done.stdout.splitlines()]
    if not complaints and len(points) != 16:
        complaints = [f'{len(points)} points']
    complaints += [f'the sine of {x} is not {y}' for x, y in points
                   if not abs(math.sin(x) - y) < 0.05]
    tap.check('the sine', complaints)
    tap.check('no kernels for it', expect(use('other', 'CPU'), 6, err='sm_90'))
    tap.check('no file', expect(use('none', 'CPU'), 1, err='none'))
    tap.check('without targets', expect(run('x'), 1, err='usage'))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        {'bundle': bundle, 'gguf': read_gguf, 'gpt2': gpt2, 'mnist_conv': mnist_conv,
         'resnet18': resnet18, 'transformer': transformer}[sys.argv[2]](
             tap, folder)
    tap.finish()


main()
