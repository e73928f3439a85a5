"""Pages as trees of components: what they say, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def walk(component: Any) -> Iterator[Any]:
    """A component and all that it holds, texts included, in order."""
    yield component
    children = getattr(component, "children", None)
    for child in children if isinstance(children, list | tuple) else [children]:
        if child is not None:
            yield from walk(child)


def words(component: Any) -> str:
    """All texts, with single spaces between them."""
    texts = [str(one) for one in walk(component) if isinstance(one, str | int | float)]
    return " ".join(" ".join(texts).split())


def all_of(component: Any, kind: str, name: str | None = None) -> list[Any]:
    """The components of a type (`Tr`, `Link` …), with a class name if one is given, in order."""
    return [
        one
        for one in walk(component)
        if type(one).__name__ == kind and (name is None or name in str(getattr(one, "className", "")).split())
    ]
