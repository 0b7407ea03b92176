# SPDX-License-Identifier: Apache-2.0
"""The policy as a Jinja2 template of the host's facts, with the file's line of each rendered line.

A loop or a condition makes the rendered text longer or shorter than the file. So the template is
rendered twice: once unchanged, and once with a mark before each piece of text. A mark holds the
line in the file. If the second text without marks equals the first, the marks give the line of
every rendered line. Otherwise (for example, a macro measured its own text) lines are unknown.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, UndefinedError
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import missing

from iat_nova.model import HostFacts, Message, message
from iat_nova.policy.problems import PolicyError, nearest
from iat_nova.policy.rendered import FACTS, LINE_END, MAX_CHARACTERS, Rendered, facts

_MAX_OPERAND = {"*": 1e18, "**": 64}
# Errors of a template's own code; jinja2 does not wrap these.
_RUNTIME_ERRORS = (
    TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,  # RecursionError too
    SyntaxError,  # blocks nested deeper than Python compiles
    TypeError,
    ValueError,
)
_MARK = re.compile("\x00([0-9]+)\x01")


def render(source: str, host: HostFacts) -> Rendered:
    """Render a policy file with the host's facts. Raises `PolicyError` with the line."""
    context = facts(host)
    plain = _generate(_Environment(), source, context)
    marked = _generate(_Environment(extensions=[_LineMarks]), source, context)
    asked = tuple(sorted(find_undeclared_variables(_Environment().parse(source)) & FACTS.keys()))
    if _MARK.sub("", marked) != plain:
        return Rendered(plain, (), asked)
    return Rendered(plain, tuple(_lines(marked)), asked)


class _Environment(SandboxedEnvironment):
    """Jinja2 without access to Python's internals and without endless arithmetic."""

    # Intercepted operators are not evaluated while compiling either.
    intercepted_binops = frozenset(_MAX_OPERAND)

    def __init__(self, extensions: list[type[Extension]] | None = None) -> None:
        super().__init__(
            extensions=extensions or [], undefined=_Undefined, keep_trailing_newline=True
        )

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        numbers = [value for value in (left, right) if isinstance(value, int | float)]
        if len(numbers) < 2 or max(map(abs, numbers)) > _MAX_OPERAND[operator]:
            raise _TooLarge(operator)
        return super().call_binop(context, operator, left, right)


class _TooLarge(SecurityError):
    """An operand of `*` or `**` is not a number or exceeds `_MAX_OPERAND`."""

    def __init__(self, operator: str) -> None:
        super().__init__(operator)
        self.operator = operator


class _UnknownName(UndefinedError):
    """A template uses an undefined variable, `name`."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


class _Undefined(StrictUndefined):
    """Raise `_UnknownName` at any use of an undefined variable."""

    __slots__ = ()

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        name = self._undefined_name
        if name is not None and self._undefined_hint is None and self._undefined_obj is missing:
            raised: Any = functools.partial(_UnknownName, name)
            self._undefined_exception = raised


class _LineMarks(Extension):
    """Put a mark with the file's line before each piece of text and each expression."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        for token in stream:
            if token.type == "data":
                yield Token(token.lineno, "data", _marked(token.value, token.lineno))
                continue
            if token.type == "variable_begin":
                yield Token(token.lineno, "data", f"\x00{token.lineno}\x01")
            yield token


def _marked(text: str, first_line: int) -> str:
    # The line after a final newline begins with the next token and its mark.
    pieces = text.split("\n")
    marks = [f"\x00{line}\x01" for line in range(first_line, first_line + len(pieces))]
    if len(pieces) > 1 and not pieces[-1]:
        marks[-1] = ""
    return "\n".join(mark + piece for mark, piece in zip(marks, pieces, strict=True))


def _lines(marked: str) -> Iterator[int]:
    """Yield the file's line of each rendered line.

    The last mark before the first visible character gives the line; else the rendered line's first
    mark. A rendered line without a mark (within one expression) has the line of the one before.
    """
    line = 1
    for rendered in LINE_END.split(marked):
        visible = re.search(r"\S", _MARK.sub(lambda mark: " " * len(mark[0]), rendered))
        end = visible.start() if visible else len(rendered)
        marks = list(_MARK.finditer(rendered))
        before = [mark for mark in marks if mark.end() <= end]
        if before or marks:
            line = int((before[-1] if before else marks[0])[1])
        yield line


def _generate(environment: _Environment, source: str, context: Mapping[str, object]) -> str:
    pieces: list[str] = []
    length = 0
    try:
        for piece in environment.from_string(source).generate(context):
            pieces.append(piece)
            length += len(piece)
            if length > MAX_CHARACTERS:
                said = message("rendered-too-long", most=MAX_CHARACTERS)
                raise PolicyError.of(said)
    except TemplateSyntaxError as error:
        said = message("template-error", error=error.message)
        raise PolicyError.of(said, line=error.lineno) from None
    except _RUNTIME_ERRORS as error:
        line = _template_line(error.__traceback__)
        raise PolicyError.of(_explain(error, context), line=line) from None
    return "".join(pieces)


def _template_line(trace: types.TracebackType | None) -> int | None:
    """Return the innermost template line in a traceback that Jinja2 has rewritten, or None."""
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _explain(error: BaseException, context: Mapping[str, object]) -> Message:
    """Return the message of an error; its values are plain, for a child process's JSON answer."""
    if isinstance(error, _TooLarge):
        most = _MAX_OPERAND[error.operator]
        return message("template-operand", operator=error.operator, most=most)
    text = str(error) or type(error).__name__
    if isinstance(error, UndefinedError):
        known = tuple(context)
        near = nearest(error.name, context) if isinstance(error, _UnknownName) else None
        if near is None:
            return message("template-undefined", error=text, facts=known)
        return message("template-misspelt", error=text, near=near, facts=known)
    unknown = tuple(name for name, value in context.items() if value is None)
    if isinstance(error, TypeError) and unknown:
        return message("template-unknown-fact", error=text, facts=unknown)
    return message("template-failed", error=text)
