# SPDX-License-Identifier: Apache-2.0
"""Print the types of a page's data as TypeScript, for `make lint`: `pages/contract.py` alone has them."""

import sys
import typing
from types import NoneType, UnionType

from tpcsweep.pages import contract

_PLAIN = {str: "string", bool: "boolean", int: "number", float: "number", NoneType: "null"}


def of(kind: typing.Any) -> str:
    """Return a type's words in TypeScript."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if typing.is_typeddict(kind):
        return str(kind.__name__)
    inside, origin = typing.get_args(kind), typing.get_origin(kind)
    if origin in (UnionType, typing.Union):
        return " | ".join(map(of, inside))
    if origin is dict:
        return f"Record<{', '.join(map(of, inside))}>"
    if origin is list:
        return f"({of(inside[0])})[]"
    if origin is tuple:
        return f"[{', '.join(map(of, inside))}]"
    raise TypeError(f"no words for {kind}")


if __name__ == "__main__":
    for each in vars(contract).values():
        if typing.is_typeddict(each) and each.__module__ == contract.__name__:
            fields = (f"  {name}: {of(kind)};" for name, kind in typing.get_type_hints(each).items())
            sys.stdout.write("\n".join((f"interface {each.__name__} {{", *fields, "}\n")))
