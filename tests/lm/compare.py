#!/usr/bin/env python3
"""The library's language models beside transformers', on small models of every
family with random weights: logits of prompts, and 200 tokens of greedy text.

usage: compare.py LIBDOORBELL.so [--kinds A,B] [--tokens N] [--seed S]
                  [--device DEVICE] [--type TYPE]
Needs `pip install torch transformers gguf`. For each family the model is saved
as a folder and as GGUF. Logits are compared behind prompts of several lengths,
by chunks of 32, in relation to the greatest; texts token by token. A token may
differ where transformers' own two likeliest are nearer than the difference of
the logits: then the comparison goes on with its token, and the line says so.
--type: matrices are of that type in GGUF, and rounded to it everywhere.
"""
import argparse
import os
import random
import sys
import tempfile
import warnings

import torch
import transformers

import kinds
from liblm import Bell, Model, Session


def judge_text(model, prompt, n):
    """Greedy tokens, and the logits in front of each."""
    tokens, cache, logits = list(prompt), None, []
    step = torch.tensor([tokens])
    with torch.no_grad():
        for _ in range(n):
            out = model(step, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            logits.append(out.logits[0, -1].numpy())
            tokens.append(int(logits[-1].argmax()))
            step = torch.tensor([tokens[-1:]])
    return tokens[len(prompt):], logits


def difference(got, want):
    return float(abs(got - want).max() / abs(want).max())


def compare_text(model, path, bell, prompt, n, judged):
    want, logits = judged
    own = Model(bell, path)
    session = Session(own, context=480, chunk=32)
    session.feed(prompt)
    worst, different, near = 0, 0, 0
    for i in range(n):
        session.run()
        got = session.logits()
        worst = max(worst, difference(got, logits[i]))
        if session.choose() != want[i]:
            pair = sorted(logits[i])[-2:]
            if pair[1] - pair[0] <= 2 * abs(got - logits[i]).max():
                near += 1
            else:
                different += 1
        session.feed([want[i]])
    session.close()
    own.close()
    return worst, different, near


def compare_prompts(model, path, bell, rng, long_rope):
    """Prompts of odd lengths in one batch, then one more of each."""
    own = Model(bell, path)
    lengths = [1, 2, 33, 70]
    session = Session(own, n_sequences=len(lengths), context=480, chunk=32)
    prompts = [[rng.randrange(3, kinds.VOCAB) for _ in range(n)]
               for n in lengths]
    worst = 0
    for turn in range(3):
        for i, prompt in enumerate(prompts):
            more = prompt if turn == 0 else [
                rng.randrange(3, kinds.VOCAB)
                for _ in range(1 if turn == 1 else 1 + 2 * i)]
            if turn:
                prompt += more
            session.feed(more, i)
        session.run()
        for i, prompt in enumerate(prompts):
            if long_rope and len(prompt) <= 128:
                continue # there the session's context decides
            with torch.no_grad():
                want = model(torch.tensor([prompt])).logits[0, -1].numpy()
            worst = max(worst, difference(session.logits(i), want))
    session.close()
    own.close()
    return worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('library')
    parser.add_argument('--kinds')
    parser.add_argument('--tokens', type=int, default=200)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--device', default='CPU')
    parser.add_argument('--type', choices=kinds.TYPES)
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.simplefilter('ignore')
    bad = 0
    for kind in args.kinds.split(',') if args.kinds else kinds.KINDS:
        model = kinds.make(kind, args.seed)
        if args.type:
            kinds.quantise(model, kind, args.type)
        long_rope = kind == 'phi3-long'
        rng = random.Random(args.seed)
        prompt = [rng.randrange(3, kinds.VOCAB)
                  for _ in range(130 if long_rope else 40)]
        judged = judge_text(model, prompt, args.tokens)
        with tempfile.TemporaryDirectory() as folder:
            paths = {'folder': os.path.join(folder, 'hf')}
            if kind == 'gpt-oss' and args.type == 'MXFP4':
                kinds.mxfp4_folder_of(model, paths['folder'])
            else:
                kinds.folder_of(model, paths['folder'])
            if kinds.KINDS[kind][2]:
                paths['gguf'] = os.path.join(folder, 'model.gguf')
                kinds.gguf_of(model, kind, paths['gguf'], args.type)
            for name, path in paths.items():
                bell = Bell(args.library, args.device)
                try:
                    worst, different, near = compare_text(
                        model, path, bell, prompt, args.tokens, judged)
                    batch = compare_prompts(model, path, bell, rng, long_rope)
                except ValueError as error:
                    print(f'{kind:14} {name:7} {error}', flush=True)
                    bad += 1
                    bell.close()
                    continue
                bell.close()
                ok = worst < 1e-3 and batch < 1e-3 and not different
                bad += not ok
                print(f'{kind:14} {name:7} logits {worst:.1e} batch '
                      f'{batch:.1e} tokens {args.tokens - different - near}/'
                      f'{args.tokens}' + f' ({near} near)' * bool(near) +
                      ('' if ok else '  DIFFERENT'), flush=True)
    sys.exit(bad > 0)


if __name__ == '__main__':
    main()
