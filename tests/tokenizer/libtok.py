"""The library's tokenizer by ctypes, for the scripts of this folder."""
import ctypes


class Bell:
    SPECIAL, PLAIN = 1, 2

    def __init__(self, library, path):
        self.lib = lib = ctypes.CDLL(library, mode=1)
        lib.bell_error_last.restype = ctypes.POINTER(ctypes.c_int)
        for name in ('close', 'free'):
            getattr(lib, 'bell_tokenizer_' + name).argtypes = [ctypes.c_void_p]
        self.p = ctypes.c_void_p()
        if lib.bell_tokenizer_open(path.encode(), ctypes.byref(self.p)):
            raise ValueError(self.message())

    def message(self):
        """The error's message: the record is text behind a few numbers."""
        raw = ctypes.string_at(ctypes.cast(self.lib.bell_error_last(),
                                           ctypes.c_void_p), 600)
        parts = [x for x in raw.split(b'\0') if len(x) > 12]
        return parts[0].decode('utf-8', 'replace') if parts else '?'

    def encode(self, text, flags=1):
        data = text if isinstance(text, bytes) else text.encode()
        ids, n = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        if self.lib.bell_tokenizer_encode(
                self.p, data, ctypes.c_size_t(len(data)), flags,
                ctypes.byref(ids), ctypes.byref(n)):
            raise ValueError(self.message())
        out = ids[:n.value]
        self.lib.bell_tokenizer_free(ids)
        return out

    def decode(self, ids, flags=0):
        array = (ctypes.c_int32 * max(1, len(ids)))(*ids)
        text, n = ctypes.c_void_p(), ctypes.c_size_t()
        if self.lib.bell_tokenizer_decode(
                self.p, array, ctypes.c_size_t(len(ids)), flags,
                ctypes.byref(text), ctypes.byref(n)):
            raise ValueError(self.message())
        out = ctypes.string_at(text, n.value)
        self.lib.bell_tokenizer_free(text)
        return out

    def stream(self, ids, flags=0):
        s = ctypes.c_void_p()
        if self.lib.bell_token_stream_create(self.p, flags, ctypes.byref(s)):
            raise ValueError(self.message())
        parts = []
        text, n = ctypes.c_void_p(), ctypes.c_size_t()
        for i in ids:
            if self.lib.bell_token_stream_next(
                    s, ctypes.c_int32(i), ctypes.byref(text),
                    ctypes.byref(n)):
                raise ValueError(self.message())
            parts.append(ctypes.string_at(text, n.value))
        self.lib.bell_token_stream_end(s, ctypes.byref(text), ctypes.byref(n))
        parts.append(ctypes.string_at(text, n.value))
        self.lib.bell_token_stream_destroy(s)
        return parts

    def close(self):
        self.lib.bell_tokenizer_close(self.p)
