"""Small models of every family with random weights, made by transformers, as
its folders and as GGUF with llama.cpp's names."""
import os

import gguf
import numpy
import torch
from transformers import AutoConfig, AutoModelForCausalLM

VOCAB = 96
BASE = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96,
            num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=512, pad_token_id=0, bos_token_id=1,
            eos_token_id=2)


def scaled(**kwargs):
    return {'rope_parameters': {'rope_theta': 10000.0, **kwargs}}


LONG = scaled(rope_type='longrope', factor=4.0,
              short_factor=[1.0 + 0.01 * i for i in range(8)],
              long_factor=[1.5 + 0.25 * i for i in range(8)],
              original_max_position_embeddings=128)
# Name: family of transformers, what its configuration has beside BASE, and
# GGUF's family (None: transformers' folder alone).
KINDS = {
    'llama': ('llama', {}, 'llama'),
    'llama-tied': ('llama', {'tie_word_embeddings': True}, 'llama'),
    'llama-bias': ('llama', {'attention_bias': True, 'mlp_bias': True},
                   'llama'),
    'llama-linear': ('llama', scaled(rope_type='linear', factor=4.0), 'llama'),
    'llama3': ('llama', scaled(rope_type='llama3', factor=8.0,
                               low_freq_factor=1.0, high_freq_factor=4.0,
                               original_max_position_embeddings=64), 'llama'),
    'llama-yarn': ('llama', scaled(rope_type='yarn', factor=4.0,
                                   original_max_position_embeddings=128),
                   'llama'),
    'llama-head': ('llama', {'head_dim': 24}, 'llama'),
    'mistral': ('mistral', {'sliding_window': 16}, 'llama'),
    'mixtral': ('mixtral', {'num_local_experts': 4, 'num_experts_per_tok': 2},
                'llama'),
    'qwen2': ('qwen2', {}, 'qwen2'),
    'qwen2-window': ('qwen2', {'use_sliding_window': True,
                               'sliding_window': 16, 'max_window_layers': 1},
                     None),
    'qwen3': ('qwen3', {'head_dim': 24}, 'qwen3'),
    'qwen3-moe': ('qwen3_moe', {'num_experts': 8, 'num_experts_per_tok': 3,
                                'moe_intermediate_size': 40, 'head_dim': 16,
                                'norm_topk_prob': True}, 'qwen3moe'),
    'gemma': ('gemma', {'head_dim': 16}, 'gemma'),
    'gemma2': ('gemma2', {'head_dim': 24, 'query_pre_attn_scalar': 24,
                          'sliding_window': 16}, 'gemma2'),
    'gemma3': ('gemma3_text', {'head_dim': 24, 'query_pre_attn_scalar': 24,
                               'sliding_window': 16, 'num_hidden_layers': 7},
               'gemma3'),
    'phi3': ('phi3', {'sliding_window': 16}, 'phi3'),
    'phi3-long': ('phi3', {**LONG, 'original_max_position_embeddings': 128},
                  'phi3'),
    'olmo2': ('olmo2', {}, 'olmo2'),
    'granite': ('granite', {'embedding_multiplier': 3.0,
                            'residual_multiplier': 0.4,
                            'attention_multiplier': 0.2,
                            'logits_scaling': 2.0}, 'granite'),
    'gpt-oss': ('gpt_oss', {'num_local_experts': 8, 'num_experts_per_tok': 3,
                            'head_dim': 16, 'sliding_window': 16,
                            'rope_parameters': {
                                'rope_type': 'yarn', 'rope_theta': 150000.0,
                                'factor': 4.0, 'beta_fast': 32.0,
                                'beta_slow': 1.0, 'truncate': False,
                                'original_max_position_embeddings': 128}},
                'gpt-oss'),
}


def make(kind, seed=0):
    """The model, with weights large enough that each part shows in logits."""
    family, more, _ = KINDS[kind]
    config = AutoConfig.for_model(family, **{**BASE, **more})
    config._attn_implementation = 'eager'
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).eval().float()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith('bias') or 'norm' in name or 'sinks' in name:
                p.add_(torch.randn_like(p) * 0.3)
            elif 'embed_tokens' in name:
                p.copy_(torch.randn_like(p))
            else:
                p.copy_(torch.randn_like(p) * 1.5 / p.shape[-1] ** 0.5)
    return model


# Names of a layer's tensors, but for those of experts.
NAMES = {
    'input_layernorm.weight': 'attn_norm.weight',
    'self_attn.qkv_proj.weight': 'attn_qkv.weight',
    'self_attn.q_norm.weight': 'attn_q_norm.weight',
    'self_attn.k_norm.weight': 'attn_k_norm.weight',
    'self_attn.sinks': 'attn_sinks.weight',
    'mlp.gate_up_proj.weight': 'ffn_up.weight',
    'mlp.gate.weight': 'ffn_gate_inp.weight',
    'mlp.router.weight': 'ffn_gate_inp.weight',
    'mlp.router.bias': 'ffn_gate_inp.bias',
    'pre_feedforward_layernorm.weight': 'ffn_norm.weight',
    'post_feedforward_layernorm.weight': 'post_ffw_norm.weight',
}
for end in ('weight', 'bias'):
    for own, theirs in (('q_proj', 'attn_q'), ('k_proj', 'attn_k'),
                        ('v_proj', 'attn_v'), ('o_proj', 'attn_output')):
        NAMES[f'self_attn.{own}.{end}'] = f'{theirs}.{end}'
    for own, theirs in (('gate_proj', 'ffn_gate'), ('up_proj', 'ffn_up'),
                        ('down_proj', 'ffn_down')):
        NAMES[f'mlp.{own}.{end}'] = f'{theirs}.{end}'
OWN_POST = ('gemma2', 'gemma3', 'olmo2', 'gpt-oss')


def neighbours(weight, n_heads):
    """Rows of heads in the order in which llama.cpp rotates neighbours."""
    shape = weight.shape
    return weight.reshape(n_heads, 2, shape[0] // n_heads // 2,
                          *shape[1:]).swapaxes(1, 2).reshape(shape)


def layer_tensors(arch, config, rest, value):
    if rest == 'post_attention_layernorm.weight':
        yield ('post_attention_norm.weight' if arch in OWN_POST
               else 'ffn_norm.weight'), value
    elif 'mlp.experts.' in rest:
        name = rest.rsplit('.', 1)[1]
        if arch == 'gpt-oss':
            end = 'bias' if name.endswith('bias') else 'weight'
            if end == 'weight':
                value = value.swapaxes(1, 2)
            if name.startswith('down'):
                yield f'ffn_down_exps.{end}', value
            else:
                yield f'ffn_gate_exps.{end}', value[:, 0::2]
                yield f'ffn_up_exps.{end}', value[:, 1::2]
        elif name == 'down_proj':
            yield 'ffn_down_exps.weight', value
        else:
            half = value.shape[1] // 2
            yield 'ffn_gate_exps.weight', value[:, :half]
            yield 'ffn_up_exps.weight', value[:, half:]
    else:
        name = NAMES[rest]
        if arch in ('llama', 'granite') and name.startswith(('attn_q.',
                                                              'attn_k.')):
            value = neighbours(value, config.num_attention_heads
                               if name.startswith('attn_q.')
                               else config.num_key_value_heads)
        yield name, value


def rope_keys(w, arch, config, tensors):
    rope = config.rope_parameters
    if 'full_attention' in rope:
        w.add_rope_freq_base(rope['full_attention']['rope_theta'])
        return
    w.add_rope_freq_base(rope['rope_theta'])
    kind = rope['rope_type']
    if kind in ('linear', 'yarn'):
        w.add_rope_scaling_type(gguf.RopeScalingType(kind))
        w.add_rope_scaling_factor(rope['factor'])
    if kind == 'yarn':
        w.add_rope_scaling_orig_ctx_len(
            rope['original_max_position_embeddings'])
    half = (config.head_dim if getattr(config, 'head_dim', None) else
            config.hidden_size // config.num_attention_heads) // 2
    if kind == 'llama3':
        low, high = rope['low_freq_factor'], rope['high_freq_factor']
        original = rope['original_max_position_embeddings']
        freqs = rope['rope_theta'] ** -(numpy.arange(half) / half)
        smooth = (original * freqs / (2 * numpy.pi) - low) / (high - low)
        smooth = numpy.clip(smooth, 0, 1)
        tensors['rope_freqs.weight'] = (
            1 / ((1 - smooth) / rope['factor'] + smooth)).astype('f4')
    if kind == 'longrope':
        w.add_rope_scaling_orig_ctx_len(
            rope['original_max_position_embeddings'])
        w.add_rope_scaling_attn_factors(
            (1 + numpy.log(rope['factor']) / numpy.log(
                rope['original_max_position_embeddings'])) ** 0.5)
        for name in ('long', 'short'):
            tensors[f'rope_factors_{name}.weight'] = numpy.array(
                rope[name + '_factor'], 'f4')


def gguf_of(model, kind, path, quantise=None):
    """Writes the model as GGUF; quantise: a type's name for the matrices."""
    arch, config = KINDS[kind][2], model.config
    w = gguf.GGUFWriter(path, arch)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_block_count(config.num_hidden_layers)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    head = getattr(config, 'head_dim', None) or (
        config.hidden_size // config.num_attention_heads)
    w.add_key_length(head)
    w.add_value_length(head)
    w.add_rope_dimension_count(head)
    w.add_vocab_size(config.vocab_size)
    if getattr(config, 'sliding_window', None):
        w.add_sliding_window(config.sliding_window)
    n_experts = getattr(config, 'num_local_experts', None) or getattr(
        config, 'num_experts', None)
    if n_experts:
        w.add_expert_count(n_experts)
        w.add_expert_used_count(config.num_experts_per_tok)
        if getattr(config, 'moe_intermediate_size', None):
            w.add_expert_feed_forward_length(config.moe_intermediate_size)
    if arch == 'gemma2':
        w.add_attn_logit_softcapping(config.attn_logit_softcapping)
        w.add_final_logit_softcapping(config.final_logit_softcapping)
    if arch == 'granite':
        w.add_attention_scale(config.attention_multiplier)
        w.add_embedding_scale(config.embedding_multiplier)
        w.add_residual_scale(config.residual_multiplier)
        w.add_logit_scale(config.logits_scaling)
    tensors = {}
    rope_keys(w, arch, config, tensors)
    for name, p in model.state_dict().items():
        value = p.numpy().astype('f4')
        if arch.startswith('gemma') and 'norm' in name:
            value = value + 1
        if name == 'lm_head.weight':
            if not config.tie_word_embeddings:
                tensors['output.weight'] = value
        elif name == 'model.embed_tokens.weight':
            tensors['token_embd.weight'] = value
        elif name == 'model.norm.weight':
            tensors['output_norm.weight'] = value
        else:
            _, _, layer, rest = name.split('.', 3)
            for own, part in layer_tensors(arch, config, rest, value):
                tensors[f'blk.{layer}.{own}'] = part
    for name, value in tensors.items():
        value = numpy.ascontiguousarray(value)
        if quantise and is_quantised(name, value):
            kind_of = gguf.GGMLQuantizationType[quantise]
            w.add_tensor(name, gguf.quantize(value, kind_of),
                         raw_dtype=kind_of)
        else:
            w.add_tensor(name, value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def folder_of(model, path):
    os.makedirs(path, exist_ok=True)
    model.save_pretrained(path)


# Types of matrices that the gguf package writes and whose blocks fit.
TYPES = ('F16', 'BF16', 'Q8_0', 'Q5_1', 'MXFP4')


def quantised(value, name):
    """What a matrix is once it was written in blocks."""
    kind = gguf.GGMLQuantizationType[name]
    return gguf.dequantize(gguf.quantize(numpy.ascontiguousarray(value), kind),
                           kind).astype('f4')


def quantise(model, kind, name):
    """Rounds the model's matrices as gguf_of writes them."""
    swapped = KINDS[kind][2] == 'gpt-oss'
    with torch.no_grad():
        for own, p in model.named_parameters():
            if not is_quantised(own, p):
                continue
            value = p.numpy()
            if swapped and 'experts' in own:
                value = quantised(value.swapaxes(1, 2), name).swapaxes(1, 2)
            else:
                value = quantised(value, name)
            p.copy_(torch.from_numpy(numpy.ascontiguousarray(value)))


def is_quantised(name, value):
    return value.ndim > 1 and not any(
        part in name for part in ('norm', 'bias', 'router', 'mlp.gate.weight',
                                  'inp'))


def mxfp4_folder_of(model, path):
    """gpt-oss as its makers save it: experts in blocks and scales."""
    import json

    from safetensors.torch import load_file, save_file
    folder_of(model, path)
    file = os.path.join(path, 'model.safetensors')
    tensors = load_file(file)
    for name in list(tensors):
        if not name.endswith(('experts.gate_up_proj', 'experts.down_proj')):
            continue
        value = tensors.pop(name).numpy().swapaxes(1, 2)
        data = gguf.quantize(numpy.ascontiguousarray(value),
                             gguf.GGMLQuantizationType.MXFP4)
        data = data.reshape(*value.shape[:2], -1, 17)
        low, high = data[..., 1:] & 15, data[..., 1:] >> 4
        q = numpy.concatenate([low, high], -1) # in order
        tensors[name + '_blocks'] = torch.from_numpy(
            (q[..., 0::2] | q[..., 1::2] << 4).copy())
        tensors[name + '_scales'] = torch.from_numpy(data[..., 0].copy())
    save_file(tensors, file)
    config = json.load(open(os.path.join(path, 'config.json')))
    config['quantization_config'] = {'quant_method': 'mxfp4',
                                     'modules_to_not_convert': ['lm_head']}
    json.dump(config, open(os.path.join(path, 'config.json'), 'w'))
