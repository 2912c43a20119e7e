"""Whole numbers as people write them: 3, 1e6, 2.5e6, 200_000."""

from typing import Any

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

NUMBERS = ConstructorRegistry()


@NUMBERS.primitive_rule
def _whole(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    if info.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: whole_number(words[0]),
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    )


def whole_number(text: str) -> int:
    """The integer that a text stands for; `ValueError` if it is none."""
    try:
        return int(text)
    except ValueError:
        number: Any = float(text)
        if not number.is_integer() or abs(number) > 2**53:
            raise ValueError(f"{text} is no whole number") from None
        return int(number)
