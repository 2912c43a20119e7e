"""Good files, and how they are changed at random: as bytes, or as the JSON, TOML, XML or arrays that are in them."""

import json
import random
import re
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

Change = Callable[[random.Random], bytes]
"""Another changed form of one good file."""

MARKUP = '<script>x</script>"><img src=x onerror=1>'
"""What must never stand in a page as it is."""
ODD = [
    None, True, False, 0, -1, 1, 2, 7, 2**31, 2**63, 10**400, 1e308, -1e308, 5e-324, -0.0, 0.5, float("nan"),
    float("inf"), "", "x", "²", "\x1b[31m\x1b]0;x\x07", "a" * 10_000, [], [[]], {}, {"a": 1}, [1, "2"], "NaN", "epoch",
    "../..", "../../../etc/passwd", "/dev/zero", "\x00", "\ud800", MARKUP, "%s%n", "{0}", "1" * 5_000,
]  # fmt: skip
WORDS = [b"[", b"{", b"9", b"-", b"e", b'"', b"NaN", b"[" * 10_000, b"\\u0000", b"\xff\xfe", b"1e999", MARKUP.encode()]


def change_value(data: Any, rng: random.Random) -> Any:
    """JSON data with one value, somewhere in it, replaced, dropped, doubled or nested deeply."""
    if isinstance(data, dict) and data and rng.random() < 0.85:
        key = rng.choice(list(data))
        how = rng.random()
        if how < 0.1:
            return {name: value for name, value in data.items() if name != key}
        if how < 0.15:
            return {**data, str(rng.choice(ODD)): rng.choice(ODD)}
        if how < 0.2:
            return {**data, key: data[rng.choice(list(data))]}
        return {**data, key: change_value(data[key], rng)}
    if isinstance(data, list) and data and rng.random() < 0.7:
        at, how = rng.randrange(len(data)), rng.random()
        if how < 0.1:
            return [*data[:at], *data[at + 1 :]]
        if how < 0.2:
            return data * rng.choice([2, 3, 100])
        return [*data[:at], change_value(data[at], rng), *data[at + 1 :]]
    if rng.random() < 0.01:
        deep: Any = data
        for _ in range(500):
            deep = [deep]
        return deep
    if isinstance(data, int | float) and not isinstance(data, bool) and abs(data) < 2**60 and rng.random() < 0.3:
        return rng.choice([data + 1, -data, data * 1000, data / 3, float(data), str(data)])
    return rng.choice(ODD)


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """A few bytes flipped, cut, repeated or inserted."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(5)
        if how == 0 and at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        elif how == 1:
            data = data[:at]
        elif how == 2:
            data = data[:at] + data[at : at + rng.randrange(40)] * rng.randint(2, 50) + data[at:]
        elif how == 3:
            data = data[:at] + rng.randbytes(rng.randint(1, 8)) + data[at:]
        else:
            data = data[:at] + rng.choice(WORDS) + data[at:]
    return data


def dumped(data: Any) -> bytes:
    """As a file has it."""
    try:
        return json.dumps(data).encode()
    except RecursionError:
        return b"[" * 10_000


def of_json(data: bytes) -> Change:
    """Changes of a JSON file, or of one of several lines of it."""
    lines = data.split(b"\n") if data.count(b"\n{") else [data]
    parsed = [json.loads(line) if line.strip() else None for line in lines]

    def change(rng: random.Random) -> bytes:
        if rng.random() < 0.3:
            return change_bytes(data, rng)
        at, values = rng.randrange(len(lines)), parsed[rng.randrange(len(parsed))]
        for _ in range(1 if rng.random() < 0.7 else 3):
            values = change_value(values, rng)
        return b"\n".join([*lines[:at], dumped(values), *lines[at + 1 :]])

    return change


def of_text(data: bytes, pattern: bytes, more: list[bytes]) -> Change:
    """Changes of a text whose words are what matches: exchanged with each other and with `more`."""
    pieces = re.split(b"(" + pattern + b")", data)
    words = [*more, *pieces[1::2], *(dumped(x) for x in ODD)]

    def change(rng: random.Random) -> bytes:
        if rng.random() < 0.3:
            return change_bytes(data, rng)
        made = list(pieces)
        for _ in range(rng.choice([1, 1, 2, 4])):
            at, how = rng.randrange(len(made)), rng.random()
            if how < 0.6:
                made[at] = rng.choice(words)
            elif how < 0.75:
                made[at] = b""
            else:
                made[at] = made[at] * rng.choice([2, 3, 50])
        return b"".join(made)

    return change


TOML = (rb"[\w.-]+|\"[^\"]*\"|[=\[\]{},]", [b"[settings.x]", b"1e400", b"0", b"-1", b"true", b"\n", b"[[", b"nan"])
XML = (
    rb"[\w.-]+|\"[^\"]*\"|[<>/=]",
    [
        b'"' + b"9" * 400 + b'"',
        b'"-1"',
        b'"nan"',
        b'"../../../etc/passwd"',
        b'"/dev/zero"',
        b"<!DOCTYPE x>",
        b"include",
    ],
)


def of_arrays(data: bytes) -> Change:
    """Changes of a safetensors file: bytes, header, metadata, or an array whose checksum then fits again."""
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    about = header["__metadata__"]
    arrays = {name: at for name, at in header.items() if name != "__metadata__"}
    sums = json.loads(about["crc32"])
    nested = {}
    for name, text in about.items():
        try:
            nested[name] = json.loads(text)
        except ValueError:
            nested[name] = text

    def put(header: Any, body: bytes) -> bytes:
        text = dumped(header)
        return len(text).to_bytes(8, "little") + text + body

    def change(rng: random.Random) -> bytes:
        how = rng.random()
        if how < 0.15:
            return change_bytes(data, rng)
        if how < 0.4:
            return put(change_value(header, rng), body)
        if how < 0.75:
            name = rng.choice(list(about))
            value = change_value(nested[name], rng)
            text = value if isinstance(value, str) else json.dumps(value)
            return put({**header, "__metadata__": {**about, name: text}}, body)
        return changed_array(rng)

    def changed_array(rng: random.Random) -> bytes:
        name = rng.choice(list(arrays))
        at = arrays[name]
        first, last = at["data_offsets"]
        how = rng.randrange(4)
        if how == 0:  # other numbers, the checksum fits
            words = rng.choice([b"\x00\x00\xc0\x7f", b"\x00\x00\x80\xff", b"\xff\xff\x7f\x7f", rng.randbytes(4)])
            new = (words * (-(-(last - first) // 4)))[: last - first]
        else:
            new = body[first:last]
        kind, shape = at["dtype"], at["shape"]
        if how == 1:
            kind = rng.choice(["F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "C64", "X", ""])
        elif how == 2:
            shape = rng.choice([[], [0], [-1], [*shape, 1], [1, *shape], shape[::-1], [2**62], [2**32, 2**32], [1.5]])
        elif how == 3:
            return put({**header, name: {**at, "data_offsets": rng.choice([[0, 0], [last, first], [0, 2**63]])}}, body)
        crc = {**sums, name: zlib.crc32(new)}
        known = {**about, "crc32": json.dumps(crc)}
        return put(
            {**header, "__metadata__": known, name: {**at, "dtype": kind, "shape": shape}},
            body[:first] + new + body[last:],
        )

    return change


def as_arrays(arrays: dict[str, Any], about: dict[str, str]) -> bytes:
    """A safetensors file as Wanderlust writes it."""
    import safetensors.numpy

    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    sums = {name: zlib.crc32(array.tobytes()) for name, array in whole.items()}
    return bytes(safetensors.numpy.save(whole, {**about, "crc32": json.dumps(sums)}))
