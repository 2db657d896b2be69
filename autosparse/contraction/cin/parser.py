"""Parser of printed CIN-P statements such as ``∀ik (∀j A[i,j] += w * C[k:s,j:s] where w = B[i:l,k:s])``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from autosparse.contraction.cin.nodes import Assign, Expression, OperatorCall, Statement, TensorAccess, Where, loop
from autosparse.errors import EinsumError

_TOKEN: Final = re.compile(r"\s*(∀\s*[a-zA-Z]*|where\b|\+=|[A-Za-z]\w*|\d+|[][(),:*+=])")


def parse(text: str) -> Statement:
    """Return the statement whose text is `text`; raise EinsumError on a syntax error."""
    reader = _Reader(text)
    statement = reader.statement()
    reader.expect("")
    return statement


class _Reader:
    """Recursive-descent parser over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [match.group(1) for match in _TOKEN.finditer(text)]
        if "".join(self._tokens).replace(" ", "") != "".join(text.split()):
            raise EinsumError.unreadable(text, at=text)
        self._at = 0

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise EinsumError.unreadable(self._text, at=" ".join(self._tokens[max(0, self._at - 1) :]))

    def statement(self) -> Statement:
        first = self._simple()
        if self.peek() == "where":
            self.take()
            return Where(first, self.statement())
        return first

    def _simple(self) -> Statement:
        if self.peek().startswith("∀"):
            return loop(tuple(self.take()[1:].strip()), self._simple())
        if self.peek() == "(":
            self.take()
            inner = self.statement()
            self.expect(")")
            return inner
        lhs = self._access()
        op = self.take()
        if op not in ("=", "+="):
            self._at -= 1
            self.expect("=")
        return Assign(lhs, op[:-1], self._sum())

    def _sum(self) -> Expression:
        return self._chain("+", self._product)

    def _product(self) -> Expression:
        return self._chain("*", self._factor)

    def _chain(self, op: str, part: Callable[[], Expression]) -> Expression:
        parts = [part()]
        while self.peek() == op:
            self.take()
            parts.append(part())
        return OperatorCall(op, tuple(parts)) if len(parts) > 1 else parts[0]

    def _factor(self) -> Expression:
        if self.peek() == "(":
            self.take()
            inner = self._sum()
            self.expect(")")
            return inner
        return self._access()

    def _access(self) -> TensorAccess:
        name = self.take()
        if not name[:1].isalpha() or name == "where":
            self._at -= 1
            self.expect("a tensor")
        indices, protocols = [], []
        if self.peek() == "[":
            while self.take() in ("[", ","):
                indices.append(self.take())
                if self.peek() == ":":
                    self.take()
                    protocols.append(self.take())
            self._at -= 1
            self.expect("]")
        return TensorAccess(name, tuple(indices), "".join(protocols))
