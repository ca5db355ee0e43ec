"""Writes GGUF files, for tests.

src: docs/gguf.md of the ggml project.
"""
import struct


def text(value):
    return struct.pack('<Q', len(value.encode())) + value.encode()


def gguf_meta(key, kind, letter, value):
    return text(key) + struct.pack('<I' + letter, kind, value)


def gguf(tensors, metas=(), align=32, version=3):
    """tensors: (name, number, sizes with the outermost first, bytes)."""
    head = struct.pack('<4sIQQ', b'GGUF', version, len(tensors), len(metas))
    head += b''.join(metas)
    data = b''
    for name, number, shape, content in tensors:
        head += text(name) + struct.pack('<I', len(shape))
        head += struct.pack(f'<{len(shape)}Q', *reversed(shape))
        head += struct.pack('<IQ', number, len(data))
        data += content + bytes(-len(content) % align)
    return head + bytes(-len(head) % align) + data


def gguf_text(key, value):
    return text(key) + struct.pack('<I', 8) + text(value)


def gguf_list(key, kind, items):
    """items: bytes of each."""
    return (text(key) + struct.pack('<IIQ', 9, kind, len(items)) +
            b''.join(items))
