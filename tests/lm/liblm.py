"""The library's language models by ctypes, for the scripts of this folder."""
import ctypes

import numpy


class SessionDesc(ctypes.Structure):
    _fields_ = [('struct_size', ctypes.c_uint32),
                ('n_sequences', ctypes.c_uint32),
                ('context', ctypes.c_int64), ('chunk', ctypes.c_int64)]


class Info(ctypes.Structure):
    _fields_ = [('struct_size', ctypes.c_uint32),
                ('n_layers', ctypes.c_uint32), ('family', ctypes.c_char_p),
                ('n_tokens', ctypes.c_int64), ('context', ctypes.c_int64),
                ('size', ctypes.c_int64), ('n_heads', ctypes.c_uint32),
                ('n_kv_heads', ctypes.c_uint32),
                ('n_experts', ctypes.c_uint32),
                ('n_used_experts', ctypes.c_uint32),
                ('token_bytes', ctypes.c_double)]


class Bell:
    def __init__(self, library, device='CPU'):
        self.lib = lib = ctypes.CDLL(library, mode=1)
        lib.bell_error_last.restype = ctypes.c_void_p
        lib.bell_lm_length.restype = ctypes.c_size_t
        self.ctx = ctypes.c_void_p()
        self.check(lib.bell_context_create(device.encode(),
                                           ctypes.byref(self.ctx)))

    def check(self, status):
        if status:
            raw = ctypes.string_at(self.lib.bell_error_last(), 600)
            parts = [x for x in raw.split(b'\0') if len(x) > 12]
            raise ValueError(parts[0].decode('utf-8', 'replace')
                             if parts else f'status {status}')

    def close(self):
        self.lib.bell_context_destroy(self.ctx)


class Model:
    def __init__(self, bell, path):
        self.bell, self.lib = bell, bell.lib
        self.p = ctypes.c_void_p()
        bell.check(self.lib.bell_lm_open(bell.ctx, path.encode(), None,
                                         ctypes.byref(self.p)))
        self.info = Info(struct_size=ctypes.sizeof(Info))
        self.lib.bell_lm_get_info(self.p, ctypes.byref(self.info))

    def close(self):
        self.lib.bell_lm_close(self.p)


class Session:
    def __init__(self, model, n_sequences=1, context=0, chunk=0):
        self.model, self.lib = model, model.lib
        self.check = model.bell.check
        self.p = ctypes.c_void_p()
        desc = SessionDesc(ctypes.sizeof(SessionDesc), n_sequences, context,
                           chunk)
        self.check(self.lib.bell_lm_session_create(
            model.p, ctypes.byref(desc), ctypes.byref(self.p)))

    def feed(self, tokens, sequence=0):
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        self.check(self.lib.bell_lm_feed(self.p, sequence, array,
                                         ctypes.c_size_t(len(tokens))))

    def run(self):
        self.check(self.lib.bell_lm_run(self.p))

    def feed_text(self, tokens, sequence=0):
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        reused = ctypes.c_size_t()
        self.check(self.lib.bell_lm_feed_text(
            self.p, sequence, array, ctypes.c_size_t(len(tokens)),
            ctypes.byref(reused)))
        return reused.value

    def rewind(self, n, sequence=0):
        self.check(self.lib.bell_lm_rewind(self.p, sequence,
                                           ctypes.c_size_t(n)))

    def logits(self, sequence=0):
        out = numpy.empty(self.model.info.n_tokens, numpy.float32)
        self.check(self.lib.bell_lm_logits(
            self.p, sequence, out.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(out.size)))
        return out

    def choose(self, sequence=0):
        token = ctypes.c_int32()
        self.check(self.lib.bell_lm_choose(self.p, sequence, None,
                                           ctypes.byref(token)))
        return token.value

    def close(self):
        self.lib.bell_lm_session_destroy(self.p)
