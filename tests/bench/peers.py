#!/usr/bin/env python3
"""Doorbell's CPU beside OpenBLAS and PyTorch (oneDNN), turn by turn in one
process. What is not installed is said and skipped.

usage: peers.py BUILD_DIR [--threads N] [--seconds S] [--filter TEXT]
                [--cpu-time]

Prints medians and minima of both sides and their ratios: above 1, Doorbell is
faster. --cpu-time counts the time of the process on all processors instead:
for one thread on a busy machine. bench_ops has what is compared with plain C.
"""
import argparse
import ctypes
import os
import statistics
import struct
import sys
import time

DTYPES = {'int8': 2, 'int32': 6, 'int64': 8, 'float16': 10, 'bfloat16': 11,
          'float32': 12, 'float64': 13, 'float8_e4m3fn': 14}
NONE, BOOL, INT, FLOAT, DTYPE, TENSOR, LIST = 0, 1, 2, 3, 4, 6, 7


class Value(ctypes.Structure):
    """struct bell_value"""
    _fields_ = [('kind', ctypes.c_int), ('n_items', ctypes.c_uint32),
                ('bits', ctypes.c_uint64)]


class Arg(ctypes.Structure):
    """struct bell_arg"""
    _fields_ = [('name', ctypes.c_char_p), ('value', Value)]


class Call(ctypes.Structure):
    """struct bell_call"""
    _fields_ = [('function', ctypes.c_void_p), ('args', ctypes.POINTER(Arg)),
                ('n_args', ctypes.c_uint32), ('results', ctypes.c_void_p * 64),
                ('n_results', ctypes.c_uint32), ('bad_arg', ctypes.c_int32)]


class Doorbell:
    """The table of functions (include/doorbell/functions.h) by ctypes."""

    def __init__(self, build_dir, device='CPU'):
        self.lib = ctypes.CDLL(os.path.join(build_dir, 'libdoorbell.so'))
        for name in ('bell_from_data', 'bell_function_find',
                     'bell_error_last', 'bell_keep_forever'):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.ctx = ctypes.c_void_p()
        self.check(self.lib.bell_context_create(device.encode(),
                                                ctypes.byref(self.ctx)))
        self.fence = self.tensor(bytes(4), (1,), 'float32')
        self.item = ctypes.byref(ctypes.c_double())

    def check(self, status):
        if status:
            error = self.lib.bell_error_last()
            raise RuntimeError(ctypes.string_at(error + 8).decode())

    def tensor(self, data, shape, dtype):
        """A tensor that stays, of bytes or an address."""
        dims = (ctypes.c_int64 * len(shape))(*shape)
        return ctypes.c_void_p(self.lib.bell_keep_forever(ctypes.c_void_p(
            self.lib.bell_from_data(
                self.ctx, dims, len(shape), DTYPES[dtype],
                data if isinstance(data, bytes) else ctypes.c_void_p(data)))))

    def record(self, make):
        """The calls that `make` makes: what of them is Python's is done once."""
        record = Record(self)
        make(record)
        return record

    def run(self, record):
        """Makes the last call's result, computes it and waits."""
        lib, ctx = self.lib, self.ctx
        self.check(lib.bell_scope_begin(ctx))
        self.check(lib.bell_realize1(ctypes.c_void_p(record.play())))
        self.check(lib.bell_item_f64(self.fence, self.item))
        self.check(lib.bell_scope_end(ctx))


class Record:
    """Calls of functions, made once and played again and again."""

    def __init__(self, bell):
        self.bell = bell
        self.steps = []  # (call, pointer to it, [(value, step that makes it)])
        self.held = []

    def value(self, x, links):
        if isinstance(x, Result):
            value = Value(TENSOR, 0, 0)
            links.append(x.step)
            return value
        if isinstance(x, ctypes.c_void_p):
            return Value(TENSOR, 0, x.value)
        if x is None:
            return Value(NONE, 0, 0)
        if isinstance(x, bool):
            return Value(BOOL, 0, x)
        if isinstance(x, int):
            return Value(INT, 0, x)
        if isinstance(x, float):
            return Value(FLOAT, 0, struct.unpack('Q', struct.pack('d', x))[0])
        if isinstance(x, str):
            return Value(DTYPE, 0, DTYPES[x])
        items = (Value * len(x))(*(self.value(item, links) for item in x))
        assert not any(isinstance(item, Result) for item in x)
        self.held.append(items)
        return Value(LIST, len(x), ctypes.addressof(items))

    def call(self, name, *args, **named):
        """The first result of a function."""
        pairs = [(None, x) for x in args] + list(named.items())
        array, links = (Arg * len(pairs))(), []
        for arg, (key, x) in zip(array, pairs):
            sources = []
            arg.name, arg.value = key and key.encode(), self.value(x, sources)
            links += [(arg.value, step) for step in sources]
        call = Call(self.bell.lib.bell_function_find(name.encode()), array,
                    len(pairs))
        self.held.append(array)
        self.steps.append((call, ctypes.byref(call), links))
        return Result(len(self.steps) - 1)

    def play(self):
        bell, steps = self.bell, self.steps
        function_call = bell.lib.bell_function_call
        for call, pointer, links in steps:
            for value, step in links:
                value.bits = steps[step][0].results[0]
            bell.check(function_call(bell.ctx, pointer))
        return call.results[0]


class Result:
    """The first result of a step of a record."""

    def __init__(self, step):
        self.step = step


class Gradients:
    """A record's gradients by some of its inputs, played like a record.
    cotangent: of the result's shape; None: ones."""

    def __init__(self, bell, record, targets, cotangent=None):
        self.bell, self.record, self.cotangent = bell, record, cotangent
        self.targets = (ctypes.c_void_p * len(targets))(*targets)
        self.grads = (ctypes.c_void_p * len(targets))()
        bell.lib.bell_ones_like.restype = ctypes.c_void_p

    def play(self):
        lib, n = self.bell.lib, len(self.targets)
        out = ctypes.c_void_p(self.record.play())
        cotangent = self.cotangent or ctypes.c_void_p(
            lib.bell_ones_like(out, 0))
        self.bell.check(lib.bell_vjp(out, cotangent, self.targets, n,
                                     self.grads))
        self.bell.check(lib.bell_realize(self.grads, n))
        return self.grads[0]


JIT_FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p))


class JitDesc(ctypes.Structure):
    """struct bell_jit_desc"""
    _fields_ = [('struct_size', ctypes.c_uint32), ('name', ctypes.c_char_p),
                ('fn', JIT_FUNCTION), ('user', ctypes.c_void_p),
                ('n_in', ctypes.c_uint32), ('n_out', ctypes.c_uint32)]


class TrainingStep:
    """Gradient descent by one step, captured by a jit; plays the loss."""

    def __init__(self, bell, make_loss, weights, rate):
        self.bell, self.make_loss, self.rate = bell, make_loss, rate
        self.weights = (ctypes.c_void_p * len(weights))(
            *(w.value for w in weights))
        self.fn = JIT_FUNCTION(self.run)
        self.jit, self.loss = ctypes.c_void_p(), ctypes.c_void_p()
        desc = JitDesc(ctypes.sizeof(JitDesc), None, self.fn, None, 0, 1)
        bell.check(bell.lib.bell_jit_create(bell.ctx, ctypes.byref(desc),
                                            ctypes.byref(self.jit)))

    def run(self, _ctx, _user, _inputs, out):
        bell, n = self.bell, len(self.weights)
        grads = (ctypes.c_void_p * n)()
        loss = ctypes.c_void_p(bell.record(self.make_loss).play())
        status = bell.lib.bell_gradient(loss, self.weights, n, grads)
        for weight, grad in zip(self.weights, grads):
            if status == 0:
                less = bell.record(lambda r, w=weight, g=grad: r.call(
                    'sub', ctypes.c_void_p(w), ctypes.c_void_p(g),
                    alpha=self.rate))
                bell.lib.bell_assign(ctypes.c_void_p(weight),
                                     ctypes.c_void_p(less.play()))
        out[0] = loss.value
        return status

    def play(self):
        self.bell.check(self.bell.lib.bell_jit_call(
            self.jit, None, ctypes.byref(self.loss)))
        return self.loss.value


def run_resnet18(call, x, weights):
    """Its logits. call(name, ...) is PyTorch's function of that name or ours."""
    weights = iter(weights)

    def conv(x, stride=1, padding=1):
        x = call('conv2d', x, next(weights), stride=stride, padding=padding)
        return call('batch_norm', x, None, None, next(weights), next(weights),
                    training=True)

    x = call('relu', conv(x, 2, 3))
    x = call('max_pool2d', x, 3, 2, 1)
    for stride in (1, 1, 2, 1, 2, 1, 2, 1):
        y = conv(call('relu', conv(x, stride)))
        x = call('relu', call('add', y, conv(x, 2, 0) if stride == 2 else x))
    return call('linear', call('mean', x, [2, 3]), next(weights),
                next(weights))


def list_resnet18_shapes():
    """Shapes of the weights, in run_resnet18's order."""
    shapes, n_in = [(64, 3, 7, 7), (64,), (64,)], 64
    for n_out, is_first in ((64, 0), (64, 0), (128, 1), (128, 0), (256, 1),
                            (256, 0), (512, 1), (512, 0)):
        shapes += [(n_out, n_in, 3, 3), (n_out,), (n_out,),
                   (n_out, n_out, 3, 3), (n_out,), (n_out,)]
        if is_first:
            shapes += [(n_out, n_in, 1, 1), (n_out,), (n_out,)]
        n_in = n_out
    return shapes + [(10, 512), (10,)]


def load_openblas(n_threads):
    for name in ('libopenblas.so.0', 'libopenblas.so'):
        try:
            lib = ctypes.CDLL(name)
        except OSError:
            continue
        lib.openblas_set_num_threads(n_threads)
        return lib
    return None


def sgemm(blas, x, y, out, turned):
    """out = x @ y of n x n floats, operands as stored or turned."""
    n = x.shape[0]
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    how = [112 if c == 't' else 111 for c in turned]

    def run():
        blas.cblas_sgemm(101, how[0], how[1], n, n, n, one,
                         ctypes.c_void_p(x.data_ptr()), n,
                         ctypes.c_void_p(y.data_ptr()), n, zero,
                         ctypes.c_void_p(out.data_ptr()), n)
    return run


class Bench:
    def __init__(self, torch, bell, options):
        self.torch, self.bell, self.options = torch, bell, options
        self.blas = load_openblas(options.threads)
        if not self.blas:
            print('OpenBLAS: not found, skipped')

    def wants(self, name):
        return self.options.filter in name

    def rand(self, *shape, dtype='float32'):
        torch = self.torch
        if dtype == 'int8':
            return torch.randint(-128, 128, shape, dtype=torch.int8)
        return torch.rand(shape).sub_(0.5).to(getattr(torch, dtype))

    def upload(self, x):
        return self.bell.tensor(x.data_ptr(), tuple(x.shape),
                                str(x.dtype).split('.')[1])

    def compare(self, name, peer_name, make, peer):
        """Times both, turn by turn."""
        times = [], []
        clock = time.process_time if self.options.cpu_time \
            else time.perf_counter
        record = make if hasattr(make, 'play') else self.bell.record(make)
        self.bell.run(record)
        peer()
        end = time.perf_counter() + self.options.seconds
        slow = end + 9 * self.options.seconds  # a peer without a fast way
        while time.perf_counter() < end or (
                len(times[0]) < 5 and time.perf_counter() < slow):
            for i, run in enumerate((lambda: self.bell.run(record), peer)):
                start = clock()
                run()
                times[i].append(clock() - start)
        mid = [statistics.median(t) * 1e3 for t in times]
        low = [min(t) * 1e3 for t in times]
        print(f'{name:34} {mid[0]:9.3f} ms {mid[1]:9.3f} ms '
              f'{mid[1] / mid[0]:6.2f}x {low[1] / low[0]:6.2f}x  {peer_name}',
              flush=True)

    def products(self):
        torch = self.torch
        for n in (512, 1024, 2048, 4096):
            for turned in ('nn', 'nt', 'tn', 'tt'):
                name = f'matmul f32 {n} {turned}'
                if not self.wants(name):
                    continue
                x, y = self.rand(n, n), self.rand(n, n)
                a, b = self.upload(x), self.upload(y)
                tx = x.T if turned[0] == 't' else x
                ty = y.T if turned[1] == 't' else y

                def make(bell, a=a, b=b, turned=turned):
                    p = bell.call('transpose', a, 0, 1) if turned[0] == 't' \
                        else a
                    q = bell.call('transpose', b, 0, 1) if turned[1] == 't' \
                        else b
                    return bell.call('matmul', p, q)
                if self.blas:
                    self.compare(name, 'OpenBLAS', make,
                                 sgemm(self.blas, x, y, torch.empty(n, n),
                                       turned))
                if n < 4096:
                    self.compare(name, 'torch', make, lambda: tx @ ty)
        for n in (512, 1024, 2048):
            for dtype in ('bfloat16', 'float16', 'int8'):
                name = f'matmul {dtype} {n}'
                if not self.wants(name):
                    continue
                x, y = (self.rand(n, n, dtype=dtype) for _ in range(2))
                a, b = self.upload(x), self.upload(y)

                def make(bell, a=a, b=b, dtype=dtype):
                    if dtype == 'int8':
                        return bell.call(
                            'matmul', bell.call('to', a, 'int32'),
                            bell.call('to', b, 'int32'))
                    return bell.call('matmul', a, b)
                if dtype == 'int8':
                    self.compare(name, 'torch', make,
                                 lambda: torch._int_mm(x, y))
                else:
                    self.compare(name, 'torch', make, lambda: x @ y)

        name = 'matmul f32 1x4096 4096x4096'
        if self.wants(name):
            x, y = self.rand(1, 4096), self.rand(4096, 4096)
            a, b = self.upload(x), self.upload(y)
            self.compare(name, 'torch', lambda bell: bell.call('matmul', a, b),
                         lambda: x @ y)

    def convolutions(self):
        torch = self.torch
        for name, shape, kernel, named in (
                ('conv2d 3x3 8x64x56x56', (8, 64, 56, 56), (64, 64, 3, 3),
                 {'padding': 1}),
                ('conv2d 3x3 8x512x7x7', (8, 512, 7, 7), (512, 512, 3, 3),
                 {'padding': 1}),
                ('conv2d 3x3/2 8x64x56x56', (8, 64, 56, 56), (128, 64, 3, 3),
                 {'padding': 1, 'stride': 2}),
                ('conv2d 7x7/2 8x3x224x224', (8, 3, 224, 224), (64, 3, 7, 7),
                 {'padding': 3, 'stride': 2}),
                ('conv2d 1x1 8x256x56x56', (8, 256, 56, 56), (64, 256, 1, 1),
                 {}),
                ('conv2d depthwise 8x128x56x56', (8, 128, 56, 56),
                 (128, 1, 3, 3), {'padding': 1, 'groups': 128})):
            if not self.wants(name):
                continue
            x, w = self.rand(*shape), self.rand(*kernel)
            a, b = self.upload(x), self.upload(w)
            self.compare(name, 'torch',
                         lambda bell, a=a, b=b, named=named:
                         bell.call('conv2d', a, b, **named),
                         lambda: torch.conv2d(x, w, **named))

    def gradients(self):
        """Gradients of convolutions by their inputs and by their weights."""
        torch = self.torch
        for shape, kernel, stride, padding in (
                ((32, 64, 56, 56), (64, 64, 3, 3), 1, 1),
                ((8, 512, 7, 7), (512, 512, 3, 3), 1, 1),
                ((8, 64, 56, 56), (128, 64, 3, 3), 2, 1),
                ((8, 3, 224, 224), (64, 3, 7, 7), 2, 3),
                ((8, 256, 56, 56), (64, 256, 1, 1), 1, 0)):
            what = f'{kernel[2]}x{kernel[3]}/{stride} ' + 'x'.join(
                str(n) for n in shape)
            for i, side in enumerate(('input', 'weight')):
                name = f'grad {side} {what}'
                if not self.wants(name):
                    continue
                x, w = self.rand(*shape), self.rand(*kernel)
                named = {'stride': stride, 'padding': padding}
                v = self.rand(*torch.conv2d(x, w, **named).shape)
                ab = [self.upload(t) for t in (x, w)]
                record = self.bell.record(
                    lambda bell, ab=ab, named=named:
                    bell.call('conv2d', *ab, **named))
                mask = [i == 0, i == 1, False]
                self.compare(
                    name, 'torch',
                    Gradients(self.bell, record, [ab[i].value],
                              self.upload(v)),
                    lambda: torch.ops.aten.convolution_backward(
                        v, x, w, None, [stride] * 2, [padding] * 2, [1, 1],
                        False, [0, 0], 1, mask))

    def training(self):
        torch = self.torch
        for size in (64, 224):
            name = f'train ResNet-18 8x3x{size}x{size}'
            if not self.wants(name):
                continue
            weights = [torch.ones(shape) if len(shape) == 1 else
                       self.rand(*shape) * 6 ** 0.5 * 2 /
                       (torch.Size(shape[1:]).numel() ** 0.5)
                       for shape in list_resnet18_shapes()]
            for beta in weights[2:-1:3] + weights[-1:]:
                beta.zero_()
            x, y = self.rand(8, 3, size, size), torch.arange(8) % 10
            a, b = self.upload(x), self.upload(y)
            ours = [self.upload(w) for w in weights]
            for w in weights:
                w.requires_grad = True
            rate = 1e-3

            def call(name, *args, **named):
                fn = getattr(torch.nn.functional, name, None)
                return (fn or getattr(torch, name))(*args, **named)

            def peer():
                loss = torch.nn.functional.cross_entropy(
                    run_resnet18(call, x, weights), y)
                grads = torch.autograd.grad(loss, weights)
                with torch.no_grad():
                    torch._foreach_sub_(weights, grads, alpha=rate)
                return loss

            step = TrainingStep(
                self.bell, lambda record: record.call(
                    'cross_entropy', run_resnet18(record.call, a, ours), b),
                ours, rate)
            self.compare(name, 'torch', step, peer)

    def attention(self):
        torch = self.torch
        name = 'attention 12x1024x64'
        if not self.wants(name):
            return
        q, k, v = (self.rand(1, 12, 1024, 64) for _ in range(3))
        a, b, c = (self.upload(x) for x in (q, k, v))
        peer = torch.nn.functional.scaled_dot_product_attention
        self.compare(name, 'torch',
                     lambda bell: bell.call('scaled_dot_product_attention',
                                            a, b, c),
                     lambda: peer(q, k, v))

    def functions(self):
        torch = self.torch
        big, rows = (4096, 4096), (16, 4096)
        aten = torch.ops.aten
        for name, shape, make, peer in (
                ('gelu', big, lambda b, x: b.call('gelu', x),
                 lambda x, y: aten.gelu.out(x, out=y)),
                ('silu', big, lambda b, x: b.call('silu', x),
                 lambda x, y: aten.silu.out(x, out=y)),
                ('tanh', big, lambda b, x: b.call('tanh', x),
                 lambda x, y: torch.tanh(x, out=y)),
                ('exp', big, lambda b, x: b.call('exp', x),
                 lambda x, y: torch.exp(x, out=y)),
                ('sin', big, lambda b, x: b.call('sin', x),
                 lambda x, y: torch.sin(x, out=y)),
                ('cumsum', big, lambda b, x: b.call('cumsum', x, 1),
                 lambda x, y: torch.cumsum(x, 1, out=y)),
                ('sum', big, lambda b, x: b.call('sum', x),
                 lambda x, y: torch.sum(x)),
                ('sum of columns', big, lambda b, x: b.call('sum', x, 0),
                 lambda x, y: torch.sum(x, 0)),
                ('softmax', big, lambda b, x: b.call('softmax', x, 1),
                 lambda x, y: aten._softmax.out(x, 1, False, out=y)),
                ('layer_norm', big,
                 lambda b, x: b.call('layer_norm', x, [4096]),
                 lambda x, y: torch.layer_norm(x, [4096])),
                ('sort', rows, lambda b, x: b.call('sort', x, 1),
                 lambda x, y: torch.sort(x, 1))):
            name = f'{name} {shape[0]}x{shape[1]}'
            if not self.wants(name):
                continue
            x = self.rand(*shape)
            a, y = self.upload(x), torch.empty(*shape)
            self.compare(name, 'torch', lambda bell: make(bell, a),
                         lambda: peer(x, y))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('build_dir')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--seconds', type=float, default=1)
    parser.add_argument('--filter', default='')
    parser.add_argument('--cpu-time', action='store_true')
    options = parser.parse_args()
    for name in ('OPENBLAS_CORETYPE', 'OPENBLAS_L2_SIZE',
                 'OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'BELL_DEBUG',
                 'BELL_MATH', 'BELL_FAIL_ALLOC'):
        os.environ.pop(name, None)
    # A side's idle threads would spin through the other's turn.
    os.environ.update(OMP_WAIT_POLICY='PASSIVE', GOMP_SPINCOUNT='0',
                      KMP_BLOCKTIME='0')
    os.environ['BELL_THREADS'] = str(options.threads)
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        print('PyTorch: not installed (pip install torch), nothing to run')
        return 77
    torch.set_num_threads(options.threads)
    bench = Bench(torch, Doorbell(options.build_dir), options)
    print(f'{options.threads} threads, torch {torch.__version__}')
    print(f'{"":34} {"doorbell":>12} {"peer":>12}  median minimum')
    bench.products()
    bench.convolutions()
    bench.gradients()
    bench.training()
    bench.attention()
    bench.functions()
    return 0


if __name__ == '__main__':
    sys.exit(main())
