#!/usr/bin/env python3
"""`doorbell demo llama`: the text of a real model to the letter, a small one
against plain Python, every device, every way to fail.

usage: test_llama.py DOORBELL [--small] [--sim] [--generate PROGRAM]
    --small: few tokens   --sim: there are simulated cards
    --generate: examples/generate.c
"""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

from cli import (Tap, data_dir, expect, expect_json_error, run,
                 schema_complaints)
from gguf_write import gguf, gguf_list, gguf_meta, gguf_text, text

SMALL = '--small' in sys.argv
SIMULATED = '--sim' in sys.argv
GENERATE = (sys.argv[sys.argv.index('--generate') + 1]
            if '--generate' in sys.argv else None)
DEVICES = ('NV@sim:sm_80', 'NV@sim:sm_90', 'NV@sim:sm_120',
           'AMD@sim:gfx90a', 'AMD@sim:gfx942', 'AMD@sim:gfx1100',
           'AMD@sim:gfx1201')

# dim, hidden, layers, heads, heads of keys, tokens, context
SHAPE = (12, 20, 2, 6, 2, 23, 16)


def make_model(rng, shape, shared):
    """Weights by name: lists of rows."""
    dim, hidden, layers, heads, kv_heads, tokens, _ = shape
    kv = dim // heads * kv_heads

    def rows(n, m):
        return [[rng.gauss(0, 1 / math.sqrt(m)) for _ in range(m)]
                for _ in range(n)]

    def norm():
        return [1 + rng.gauss(0, 0.1) for _ in range(dim)]

    model = {'embedding': [[rng.gauss(0, 1) for _ in range(dim)]
                           for _ in range(tokens)],
             'layers': [{'attn_norm': norm(), 'wq': rows(dim, dim),
                         'wk': rows(kv, dim), 'wv': rows(kv, dim),
                         'wo': rows(dim, dim), 'ffn_norm': norm(),
                         'w1': rows(hidden, dim), 'w2': rows(dim, hidden),
                         'w3': rows(hidden, dim)} for _ in range(layers)],
             'norm': norm()}
    model['classifier'] = (model['embedding'] if shared
                           else rows(tokens, dim))
    return model


def flat(value):
    if isinstance(value, list):
        for item in value:
            yield from flat(item)
    else:
        yield value


def write_model(path, shape, model):
    shared = model['classifier'] is model['embedding']
    head = shape[0] // shape[3]
    numbers = list(flat(model['embedding']))
    for name in ('attn_norm', 'wq', 'wk', 'wv', 'wo', 'ffn_norm', 'w1', 'w2',
                 'w3'):
        for layer in model['layers']:
            numbers += flat(layer[name])
    numbers += model['norm'] + [0.0] * (shape[6] * head)
    if not shared:
        numbers += flat(model['classifier'])
    words = list(shape)
    words[5] *= 1 if shared else -1
    with open(path, 'wb') as file:
        file.write(struct.pack('<7i', *words))
        file.write(struct.pack(f'<{len(numbers)}f', *numbers))


def product(rows, x):
    return [sum(a * b for a, b in zip(row, x)) for row in rows]


def rms_norm(x, weight):
    scale = 1 / math.sqrt(sum(a * a for a in x) / len(x) + 1e-5)
    return [a * scale * w for a, w in zip(x, weight)]


def turned(x, head, place, halves):
    """Pairs of neighbours turned by the place, or of a head's halves."""
    out = list(x)
    for pair in range(len(x) // 2):
        h, j = divmod(pair, head // 2)
        a = h * head + (j if halves else 2 * j)
        b = a + (head // 2 if halves else 1)
        angle = place / 10000 ** (2 * j / head)
        out[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
        out[b] = x[a] * math.sin(angle) + x[b] * math.cos(angle)
    return out


def projected(layer, name, x):
    y = product(layer['w' + name], x)
    return [a + b for a, b in zip(y, layer.get('b' + name, [0] * len(y)))]


def attention(layer, x, shape, cache, place):
    dim, _, _, heads, kv_heads, _, _ = shape
    head, out = dim // heads, []
    halves = 'bq' in layer
    q = turned(projected(layer, 'q', x), head, place, halves)
    cache.append((turned(projected(layer, 'k', x), head, place, halves),
                  projected(layer, 'v', x)))
    for h in range(heads):
        at = h // (heads // kv_heads) * head
        scores = [sum(a * b for a, b in zip(q[h * head:(h + 1) * head],
                                            k[at:at + head])) /
                  math.sqrt(head) for k, _ in cache]
        most = max(scores)
        weights = [math.exp(s - most) for s in scores]
        total = sum(weights)
        out += [sum(w * v[at + i] for w, (_, v) in zip(weights, cache)) / total
                for i in range(head)]
    return product(layer['wo'], out)


def forward(model, shape, caches, token, place):
    x = model['embedding'][token]
    for layer, cache in zip(model['layers'], caches):
        y = attention(layer, rms_norm(x, layer['attn_norm']), shape, cache,
                      place)
        x = [a + b for a, b in zip(x, y)]
        h = rms_norm(x, layer['ffn_norm'])
        gate = [a / (1 + math.exp(-a)) for a in product(layer['w1'], h)]
        y = product(layer['w2'],
                    [a * b for a, b in zip(gate, product(layer['w3'], h))])
        x = [a + b for a, b in zip(x, y)]
    return product(model['classifier'], rms_norm(x, model['norm']))


PIECES = (['<unk>', '<s>', '</s>'] + [f'<0x{i:02X}>' for i in (65, 66, 0xc3)] +
          [' ', 'a', 'b', 'c', 'ab', 'bc', 'abc', ' a', 'é', 'x', 'y', 'z',
           'xy', 'yz', 'q', 'r', 's'])
SCORES = {'ab': -2.0, 'bc': -1.0, 'abc': -3.0, ' a': -4.0, 'xy': -1.5,
          'yz': -1.5}


def write_tokenizer(path, pieces=PIECES):
    with open(path, 'wb') as file:
        file.write(struct.pack('<i', max(map(len, pieces))))
        for piece in pieces:
            text = piece.encode()
            file.write(struct.pack('<fi', SCORES.get(piece, -10.0),
                                   len(text)) + text)


def written(tokens):
    """What these tokens print, behind the beginning."""
    text = b''
    for i, token in enumerate(tokens):
        piece = PIECES[token]
        if token in (1, 2):
            continue
        if piece.startswith('<0x'):
            text += bytes([int(piece[3:5], 16)])
        else:
            text += piece.encode().removeprefix(b' ' if i == 0 else b'')
    return text.decode(errors='replace')


def greedy(model, shape, prompt, n):
    """Token by token; as many as there are before the text begins anew."""
    caches = [[] for _ in model['layers']]
    tokens, margin = list(prompt), math.inf
    for place in range(n):
        logits = forward(model, shape, caches, tokens[place], place)
        if place + 1 < len(tokens):
            continue
        best = sorted(logits)
        margin = min(margin, best[-1] - best[-2])
        tokens.append(logits.index(best[-1]))
        if tokens[-1] in (1, 2):
            break
    return tokens, margin


class Files:
    def __init__(self, folder):
        self.folder = folder
        self.model = os.path.join(folder, 'model.bin')
        self.tokenizer = os.path.join(folder, 'tokenizer.bin')

    def demo(self, *args, **environment):
        if self.tokenizer:
            args = ('--tokenizer', self.tokenizer) + args
        return run('demo', 'llama', '--model', self.model, *args,
                   **environment)


def check_small(tap, files):
    """Models of several shapes, with prompts, as plain Python has them."""
    rng = random.Random(5)
    for shape, shared in ((SHAPE, True), (SHAPE, False),
                          ((8, 5, 1, 2, 2, 23, 16), True),
                          ((16, 33, 3, 4, 1, 23, 16), False)):
        for text, prompt in (('', [1]), ('abc', [1, 6, 12]),
                             ('bca', [1, 6, 11, 7])):
            name = f'{shape}, {shared}, {text!r}'
            while True:
                model = make_model(rng, shape, shared)
                want, margin = greedy(model, shape, prompt, 12)
                if margin > 1e-3:
                    break
            write_model(files.model, shape, model)
            done = files.demo('--prompt', text, '--steps', '12',
                              '--temperature', '0', '--json', '--device',
                              'CPU')
            complaints = expect(done, 0) + schema_complaints('demo',
                                                             done.stdout)
            if not complaints:
                got = json.loads(done.stdout)
                if got['text'] != written(want[1:]):
                    complaints.append(f'{got["text"]!r}, not '
                                      f'{written(want[1:])!r}')
                if got['n_prompt_tokens'] != len(prompt):
                    complaints.append(f'{got["n_prompt_tokens"]} tokens of '
                                      f'the prompt, not {len(prompt)}')
            tap.check(f'as in Python: {name}', complaints)


NAMES = {'attn_norm': 'attn_norm', 'wq': 'attn_q', 'wk': 'attn_k',
         'wv': 'attn_v', 'wo': 'attn_output', 'ffn_norm': 'ffn_norm',
         'w1': 'ffn_gate', 'w2': 'ffn_down', 'w3': 'ffn_up'}


def q8_0(row):
    """Blocks of 32, and the values that they have."""
    data, values = b'', []
    for at in range(0, len(row), 32):
        block = row[at:at + 32]
        scale, = struct.unpack('<e', struct.pack(
            '<e', max(map(abs, block)) / 127))
        q = [max(-127, min(127, round(x / scale))) for x in block]
        data += struct.pack('<e32b', scale, *q)
        values += [x * scale for x in q]
    return data, values


def write_gguf(path, shape, model, kind, metas=None, more=(), extra=(),
               changed=None):
    """The model, whose matrices become what they are in the file; more tensors
    by name and size, extra metas, and others in place of those of a key."""
    dim, hidden, layers, heads, kv_heads, tokens, context = shape
    number = {'F32': 0, 'Q8_0': 8}[kind]
    tensors = []

    def add(name, value):
        is_matrix = isinstance(value[0], list)
        if kind == 'Q8_0' and is_matrix:
            both = [q8_0(row) for row in value]
            data = b''.join(row for row, _ in both)
            value[:] = [row for _, row in both]
        else:
            numbers = list(flat(value))
            data = struct.pack(f'<{len(numbers)}f', *numbers)
        sizes = (len(value), len(value[0])) if is_matrix else (len(value),)
        tensors.append((name, number if is_matrix else 0, sizes, data))

    add('token_embd.weight', model['embedding'])
    for i, layer in enumerate(model['layers']):
        for name, gguf_name in NAMES.items():
            add(f'blk.{i}.{gguf_name}.weight', layer[name])
            if 'b' + name[1:] in layer:
                add(f'blk.{i}.{gguf_name}.bias', layer['b' + name[1:]])
    add('output_norm.weight', model['norm'])
    if model['classifier'] is not model['embedding']:
        add('output.weight', model['classifier'])
    if metas is None:
        family = 'qwen2' if 'bq' in model['layers'][0] else 'llama'
        metas = [
            gguf_text('general.architecture', family),
            gguf_meta(f'{family}.embedding_length', 4, 'I', dim),
            gguf_meta(f'{family}.feed_forward_length', 4, 'I', hidden),
            gguf_meta(f'{family}.block_count', 4, 'I', layers),
            gguf_meta(f'{family}.attention.head_count', 4, 'I', heads),
            gguf_meta(f'{family}.attention.head_count_kv', 4, 'I', kv_heads),
            gguf_meta(f'{family}.context_length', 4, 'I', context),
            gguf_meta(f'{family}.attention.layer_norm_rms_epsilon', 6, 'f',
                      1e-5),
            gguf_text('tokenizer.ggml.model', 'llama'),
            gguf_list('tokenizer.ggml.tokens', 8,
                      [text(p.replace(' ', '\u2581')) for p in PIECES]),
            gguf_list('tokenizer.ggml.scores', 6,
                      [struct.pack('<f', SCORES.get(p, -10.0))
                       for p in PIECES]),
            gguf_list('tokenizer.ggml.token_type', 5,
                      [struct.pack('<i', 3 if p in ('<s>', '</s>') else
                                   6 if p.startswith('<0x') else 1)
                       for p in PIECES]),
            gguf_meta('tokenizer.ggml.bos_token_id', 4, 'I', 1),
            gguf_meta('tokenizer.ggml.eos_token_id', 4, 'I', 2),
        ]
    for key, meta in (changed or {}).items():
        metas = [meta if m.startswith(text(key)) else m for m in metas]
    for name, size in more:
        tensors.append((name, 0, (size,), struct.pack('<f', 1) * size))
    with open(path, 'wb') as file:
        file.write(gguf(tensors, metas + list(extra)))


def uint(key, value):
    return gguf_meta(key, 4, 'I', value)


def real(key, value):
    return gguf_meta(key, 6, 'f', value)


def yes_no(key, value):
    return gguf_meta(key, 7, '?', value)


# Names of tensors that are not used, with their sizes.
OTHER_TENSORS = [
    ('rope_freqs.weight', 4), ('rope_factors_long.weight', 4),
    ('blk.0.attn_output.bias', 32), ('blk.1.ffn_gate.bias', 64),
    ('blk.0.ffn_down.bias', 32), ('blk.0.ffn_up.bias', 64),
    ('output.bias', 23), ('blk.0.attn_q_norm.weight', 8),
    ('blk.1.attn_k_norm.weight', 8), ('blk.0.attn_norm.bias', 32),
    ('output_norm.bias', 32), ('blk.0.ffn_gate_inp.weight', 32),
    ('blk.2.attn_norm.weight', 32), ('blk.00.attn_norm.weight', 32),
    ('token_embd_norm.weight', 32), ('blk.0.attn_sub_norm.weight', 32)]
# Keys that make another model, or other tokens.
OTHER_KEYS = [
    gguf_text('llama.rope.scaling.type', 'linear'),
    gguf_text('llama.rope.scaling.type', 'yarn'),
    real('llama.rope.scaling.factor', 8.0),
    real('llama.rope.scaling.attn_factor', 1.5),
    real('llama.rope.scale_linear', 4.0),
    uint('llama.attention.sliding_window', 4096),
    real('llama.attention.scale', 0.5), real('llama.logit_scale', 0.25),
    real('llama.residual_scale', 0.5), real('llama.embedding_scale', 12.0),
    real('llama.attention.clamp_kqv', 8.0),
    real('llama.attention.max_alibi_bias', 8.0),
    yes_no('llama.attention.causal', False), uint('llama.expert_count', 8),
    uint('llama.expert_used_count', 2), uint('llama.vocab_size', 22),
    uint('llama.attention.key_length', 16),
    uint('llama.attention.value_length', 4),
    yes_no('llama.use_parallel_residual', True),
    real('llama.attention.layer_norm_epsilon', 1e-5),
    gguf_text('llama.tensor_data_layout', 'another'),
    gguf_text('llama.rope.freq_base', '1e4'),
    uint('tokenizer.ggml.merges', 3),
    gguf_list('llama.rope.dimension_sections', 4, [struct.pack('<I', 2)]),
    yes_no('tokenizer.ggml.add_space_prefix', False),
    yes_no('tokenizer.ggml.add_eos_token', True),
    yes_no('tokenizer.ggml.add_sep_token', True),
    yes_no('tokenizer.ggml.remove_extra_whitespaces', True),
    gguf_list('tokenizer.ggml.precompiled_charsmap', 0, [b'a']),
    uint('tokenizer.ggml.unknown_token_id', 3),
    uint('tokenizer.ggml.eot_token_id', 23),
    gguf_list('tokenizer.ggml.added_tokens', 8, [text('a')]),
    uint('tokenizer.ggml.eom_token_id', 4)]
# Keys that make no difference.
PLAIN_KEYS = [
    uint('llama.vocab_size', 23), uint('llama.attention.key_length', 8),
    uint('llama.attention.value_length', 8), uint('llama.expert_count', 0),
    uint('llama.rope.dimension_count', 8), real('llama.rope.freq_base', 1e4),
    yes_no('llama.attention.causal', True), real('llama.logit_scale', 1.0),
    gguf_text('llama.rope.scaling.type', 'none'),
    real('llama.rope.scaling.factor', 0.0),
    yes_no('llama.rope.scaling.finetuned', False),
    uint('llama.rope.scaling.original_context_length', 16),
    real('llama.attention.scale', 8 ** -0.5),
    gguf_text('llama.tensor_data_layout', 'Meta AI original pth'),
    uint('qwen2.attention.sliding_window', 5),
    gguf_text('general.name', 'small'), uint('general.file_type', 0),
    uint('general.quantization_version', 2),
    gguf_text('tokenizer.chat_template', 'x'),
    gguf_text('tokenizer.chat_template.tool_use', 'x'),
    gguf_list('tokenizer.chat_templates', 8, [text('tool_use')]),
    gguf_text('tokenizer.huggingface.json', '{}'),
    uint('tokenizer.ggml.padding_token_id', 0),
    uint('tokenizer.ggml.unknown_token_id', 0),
    uint('tokenizer.ggml.seperator_token_id', 2),
    yes_no('tokenizer.ggml.add_bos_token', True),
    yes_no('tokenizer.ggml.add_eos_token', False),
    yes_no('tokenizer.ggml.add_space_prefix', True),
    yes_no('tokenizer.ggml.remove_extra_whitespaces', False)]


def key_of(meta):
    size, = struct.unpack_from('<Q', meta)
    return meta[8:8 + size].decode()


def check_unknown(tap, files):
    """What a file has beyond what is used is refused by its name, or makes no
    difference."""
    tokenizer, files.tokenizer = files.tokenizer, None
    shape = (32, 64, 2, 4, 2, 23, 16)
    model = make_model(random.Random(8), shape, False)
    args = ('--prompt', 'abc', '--steps', '8', '--temperature', '0', '--json')

    write_gguf(files.model, shape, model, 'F32')
    plain = files.demo(*args)
    tap.check('a plain GGUF', expect(plain, 0))
    write_gguf(files.model, shape, model, 'F32', extra=PLAIN_KEYS)
    done = files.demo(*args)
    complaints = expect(done, 0)
    if not complaints and (json.loads(done.stdout)['text'] !=
                           json.loads(plain.stdout)['text']):
        complaints.append('another text')
    tap.check('keys that make no difference', complaints)
    for name, size in OTHER_TENSORS:
        write_gguf(files.model, shape, model, 'F32', more=[(name, size)])
        tap.check(f'refuses {name}', expect_json_error(
            files.demo(*args), 6, f"'{name}'"))
    for meta in OTHER_KEYS:
        key = key_of(meta)
        write_gguf(files.model, shape, model, 'F32', extra=[meta])
        tap.check(f'refuses {key}', expect_json_error(
            files.demo(*args), 1 if key.endswith('eot_token_id') else 6, key))
    for key in ('llama.attention.head_count_kv', 'llama.rope.freq_base',
                'tokenizer.ggml.bos_token_id'):
        meta = gguf_list(key, 4, [struct.pack('<I', 2)] * 2)
        write_gguf(files.model, shape, model, 'F32', changed={key: meta},
                   extra=[meta] if 'rope' in key else ())
        tap.check(f'refuses a list as {key}', expect_json_error(
            files.demo(*args), 6, key))
    kinds = 'tokenizer.ggml.token_type'
    write_gguf(files.model, shape, model, 'F32', changed={
        kinds: gguf_list(kinds, 5, [struct.pack('<i', 4 if p == 'abc' else 1)
                                    for p in PIECES])})
    tap.check('refuses a text with a user-defined token', expect_json_error(
        files.demo(*args), 6, "'abc'"))
    tap.check('takes one without', expect(
        files.demo('--prompt', 'b', '--steps', '4', '--json'), 0))
    model['norm'][3] = math.nan
    write_gguf(files.model, shape, model, 'F32')
    for heat in ('0', '1'):
        tap.check(f'refuses logits that are NaN, {heat}', expect_json_error(
            files.demo('--prompt', 'abc', '--steps', '8', '--temperature',
                       heat, '--json'), 1, 'damaged'))
    files.tokenizer = tokenizer


def check_gguf(tap, files):
    """The same models from GGUF, with float32 and with blocks."""
    rng = random.Random(8)
    shape = (32, 64, 2, 4, 2, 23, 16)
    tokenizer, files.tokenizer = files.tokenizer, None
    for kind, shared, biases in (('F32', True, False), ('F32', False, False),
                                 ('Q8_0', False, False), ('F32', True, True)):
        while True:
            model = make_model(rng, shape, shared)
            for layer in model['layers'] if biases else ():
                for name in 'qkv':
                    layer['b' + name] = [rng.gauss(0, 0.3)
                                         for _ in layer['w' + name]]
            write_gguf(files.model, shape, model, kind)
            want, margin = greedy(model, shape, [1, 6, 12], 12)
            if margin > 1e-3:
                break
        done = files.demo('--prompt', 'abc', '--steps', '12', '--temperature',
                          '0', '--json')
        complaints = expect(done, 0)
        if not complaints and (json.loads(done.stdout)['text'] !=
                               written(want[1:])):
            complaints.append(f'{done.stdout}, not {written(want[1:])!r}')
        tap.check(f'GGUF of {kind}, {shared}, {biases}', complaints)
    for what, part, code, metas in (
            ('another family', 'mamba', 6,
             [gguf_text('general.architecture', 'mamba')]),
            ('no sizes', 'no such model', 1,
             [gguf_text('general.architecture', 'llama')])):
        write_gguf(files.model, shape, model, 'F32', metas)
        tap.check(f'refuses a GGUF of {what}', expect_json_error(
            files.demo('--json'), code, part))
    model['layers'][1]['wk'].pop()
    write_gguf(files.model, shape, model, 'F32')
    tap.check('refuses a GGUF with a tensor of another shape',
              expect_json_error(files.demo('--json'), 1,
                                'blk.1.attn_k.weight'))
    files.tokenizer = tokenizer


def check_tokens(tap, files):
    """Joined best first, then leftmost; what has no token, by its bytes."""
    write_model(files.model, SHAPE,
                make_model(random.Random(1), SHAPE, True))
    for text, n in (('', 1), (' ', 3), ('abc', 3), ('a', 2), ('xyz', 4),
                    ('é', 3), ('é' * 3, 5), ('AB', 4), ('ñ', 4), ('abab', 4)):
        done = files.demo('--prompt', text, '--steps', '16', '--temperature',
                          '0', '--json')
        complaints = expect(done, 0)
        if not complaints:
            got = json.loads(done.stdout)['n_prompt_tokens']
            if got != n:
                complaints.append(f'{got} tokens, not {n}')
        tap.check(f'tokens of {text!r}', complaints)


def check_choice(tap, files):
    write_model(files.model, SHAPE,
                make_model(random.Random(1), SHAPE, True))

    def text(*args):
        done = files.demo('--json', *args)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)['text']

    complaints = []
    if text('--seed', '7') != text('--seed', '7', '--top-p', '0.9'):
        complaints.append('the same seed gives two texts')
    if len({text('--seed', str(i), '--temperature', '3', '--top-p', '1')
            for i in range(6)}) < 5:
        complaints.append('six seeds give fewer than five texts')
    likeliest = text('--temperature', '0')
    for args in (('--top-p', '0.000001'), ('--temperature', '0.001')):
        if text(*args) != likeliest:
            complaints.append(f'{args} is not the likeliest')
    tap.check('choices', complaints)


def check_refusals(tap, files):
    good = make_model(random.Random(1), SHAPE, True)
    write_model(files.model, SHAPE, good)
    write_tokenizer(files.tokenizer)
    model, tokenizer = (open(path, 'rb').read()
                        for path in (files.model, files.tokenizer))

    def refuses(name, part, new_model=model, new_tokenizer=tokenizer,
                code=1, args=()):
        with open(files.model, 'wb') as file:
            file.write(new_model)
        with open(files.tokenizer, 'wb') as file:
            file.write(new_tokenizer)
        tap.check(name, expect_json_error(
            files.demo('--json', '--steps', '2', *args), code, part))

    for size in (0, 5, 27):
        refuses(f'a model of {size} bytes', 'not a checkpoint', model[:size])
    for size in (28, 29, 1000, len(model) - 1):
        refuses(f'a model of {size} bytes', 'ends before', model[:size])
    refuses('a longer model', '4 bytes behind', model + b'1234')
    for i, values in enumerate(((0, -1, 13, 1 << 30), (0, -5, 1 << 30),
                                (0, -1, 1 << 20), (0, -6, 5, 7, 1 << 30),
                                (0, -2, 4, 7), (0, 2, -2, 1 << 30, -1 << 31),
                                (0, -1, 1 << 30))):
        for value in values:
            words = list(SHAPE)
            words[i] = value
            refuses(f'word {i} is {value}', 'model.bin',
                    struct.pack('<7i', *words) + model[28:])
    for size in (0, 4, 11, 40, len(tokenizer) - 1):
        refuses(f'a tokenizer of {size} bytes', 'tokenizer.bin',
                new_tokenizer=tokenizer[:size])
    refuses('a longer tokenizer', '1 bytes behind',
            new_tokenizer=tokenizer + b'x')
    for length in (-1, 5000, 1 << 30):
        refuses(f'a token of {length} bytes', f'has {length} bytes',
                new_tokenizer=tokenizer[:8] + struct.pack('<i', length) +
                tokenizer[12:])
    refuses('a long prompt', 'context has 16', code=2, args=('--prompt', 'q' * 20))
    refuses('a temperature below 0', 'below 0', code=2,
            args=('--temperature', '-0.5'))
    refuses('a wrong word', 'MATH', code=2, args=('--math', 'MATH'))
    refuses('another device', 'NV', code=3, args=('--device', 'NV:7'))
    damaged = make_model(random.Random(1), SHAPE, True)
    damaged['norm'][3] = math.nan
    write_model(files.model, SHAPE, damaged)
    refuses('weights that are no numbers', 'damaged',
            open(files.model, 'rb').read())
    os.remove(files.model)
    tap.check('no model', expect_json_error(files.demo('--json'), 1,
                                            'model.bin'))
    tap.check('neither file', expect_json_error(
        run('demo', 'llama', '--json'), 2, '--model'))


def check_memory(tap, files):
    """Any allocation may fail: a message, exit code 1, no crash, no leak."""
    write_model(files.model, SHAPE, make_model(random.Random(1), SHAPE, True))
    write_tokenizer(files.tokenizer)
    nth, complaints = 1, []
    while not complaints:
        done = files.demo('--json', '--steps', '4', '--prompt', 'abc',
                          BELL_FAIL_ALLOC=str(nth))
        if done.returncode == 0:
            break
        complaints = expect_json_error(done, 1, '')
        if not complaints:
            status = json.loads(done.stdout)['error']['status']
            if status != 'out of memory':
                complaints.append(f'{nth}: status "{status}": {done.stdout}')
        nth = nth + 1 if nth < 40 else nth + nth // (3 if SMALL else 10)
    tap.check(f'out of memory, up to allocation {nth}', complaints)


def generate(bundle, device, n, tokens):
    """The tokens that the driver half alone makes of a bundle; it has no
    simulated cards, and is shown some."""
    args = [bundle, device.split('@')[0], str(n), *map(str, tokens)]
    if '@sim' in device:
        return run('sim', device, '--', GENERATE, *args)
    return subprocess.run([GENERATE, *args], capture_output=True, text=True,
                          check=False)


def check_bundle(tap, files):
    """A bundle of a small model: as plain Python has it, on every device that
    it is for; no text is written."""
    bundle = os.path.join(files.folder, 'llama.bundle')
    devices = ['CPU'] + (['NV@sim:sm_90', 'AMD@sim:gfx942', 'AMD@sim:gfx1100']
                         if SIMULATED and not SMALL else [])
    prompt = [1, 6, 11, 7]
    rng = random.Random(6)
    while True:
        model = make_model(rng, SHAPE, True)
        want, margin = greedy(model, SHAPE, prompt, 12)
        if margin > 1e-3 and len(want) == 13:
            break
    write_model(files.model, SHAPE, model)
    done = files.demo('--bundle', bundle, '--device', 'CPU',
                      *[arg for device in devices
                        for arg in ('--target', device)])
    tap.check('a bundle is saved', expect(done, 0, err='saved'))
    done = files.demo('--bundle', bundle + '.2', '--device', 'CPU', '--json')
    tap.check('and told', expect(done, 0) + schema_complaints(
        'demo', done.stdout) + [f'{done.stdout}' for _ in [0]
                                if bundle + '.2' not in done.stdout])
    for device in devices:
        done = generate(bundle, device, 12, prompt)
        complaints = expect(done, 0)
        if done.stdout.split() != [str(token) for token in want[:12]]:
            complaints.append(f'{done.stdout!r}, not {want[:12]}')
        tap.check(f'the bundle on {device}', complaints)
    done = files.demo('--target', 'CPU')
    tap.check('a target without a bundle', expect(done, 2))


def read_pieces(path, n):
    """A tokenizer of llama2.c."""
    pieces = []
    with open(path, 'rb') as file:
        file.read(4)
        for _ in range(n):
            _, size = struct.unpack('<fi', file.read(8))
            piece = file.read(size)
            if piece.startswith(b'<0x') and size == 6:
                piece = bytes([int(piece[3:5], 16)])
            pieces.append(piece)
    return pieces


def check_real_bundle(tap, data, want):
    """The same text by a bundle: the logits are those of the jit, or near."""
    pieces = read_pieces(os.path.join(data, 'tok512.bin'), 512)
    devices = ['CPU'] + (['NV@sim:sm_90', 'AMD@sim:gfx942', 'AMD@sim:gfx1100']
                         if SIMULATED and not SMALL else [])
    with tempfile.TemporaryDirectory() as folder:
        bundle = os.path.join(folder, 'llama.bundle')
        done = run('demo', 'llama', '--model',
                   os.path.join(data, 'stories260K.bin'), '--tokenizer',
                   os.path.join(data, 'tok512.bin'), '--bundle', bundle,
                   '--device', 'CPU', *[arg for device in devices
                                        for arg in ('--target', device)])
        tap.check('a bundle of a real model', expect(done, 0, err='saved'))
        for device in devices:
            n = 256 if device == 'CPU' else 24
            done = generate(bundle, device, n, [1])
            complaints = expect(done, 0)
            tokens = [int(token) for token in done.stdout.split()]
            text = b''.join(pieces[token] for token in tokens[1:])
            text = text.decode(errors='replace').removeprefix(' ')
            if len(tokens) != n or not want.startswith(text):
                complaints.append(f'{text!r}, not {want[:len(text)]!r}')
            tap.check(f'{n} tokens of the bundle on {device}', complaints)


def check_real(tap, data):
    with open(os.path.join(data, 'greedy_no_prompt_256.txt'),
              encoding='utf-8') as file:
        want = file.read()
    args = ('demo', 'llama', '--model', os.path.join(data, 'stories260K.bin'),
            '--tokenizer', os.path.join(data, 'tok512.bin'), '--temperature',
            '0')
    done = run(*args, '--prompt', '', '--steps', '256', '--device', 'CPU')
    complaints = expect(done, 0)
    print(f'# {done.stderr.strip()}')
    if done.stdout.rstrip('\n') != want.rstrip('\n'):
        complaints.append(f'another text: {done.stdout}')
    tap.check('256 tokens of a real model', complaints)
    done = run(*args, '--steps', '48', '--device', 'CPU', '--json')
    complaints = expect(done, 0)
    if not complaints and json.loads(done.stdout)['n_kernels_compiled_late']:
        complaints.append('compiled after token 3: ' + done.stdout)
    tap.check('nothing is compiled after token 3', complaints)
    if GENERATE:
        check_real_bundle(tap, data, want)
    if not SIMULATED:
        tap.skip('simulated cards', 'built without them')
        return
    first = run(*args, '--steps', '24', '--device', 'CPU').stdout
    for device in DEVICES[1:2] if SMALL else DEVICES:
        done = run(*args, '--steps', '24', '--device', device)
        complaints = expect(done, 0)
        if done.stdout != first:
            complaints.append(f'{done.stdout!r}, not {first!r}')
        tap.check(f'24 tokens on {device}', complaints)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        write_tokenizer(files.tokenizer)
        check_small(tap, files)
        check_gguf(tap, files)
        check_unknown(tap, files)
        check_tokens(tap, files)
        check_choice(tap, files)
        check_refusals(tap, files)
        check_memory(tap, files)
        if GENERATE:
            check_bundle(tap, files)
    real = data_dir('stories260K')
    if real:
        check_real(tap, real)
    else:
        tap.skip('a real model', 'no real data (BELL_TEST_DATA)')
    tap.finish()


if __name__ == '__main__':
    main()
