"""The wire formats of a tool call: what stands between `<tool_call>` and `</tool_call>`.

Each format is strict and total: a body is the one call in its one spelling, or `Malformed` with a reason.
"""

import json
import re
from typing import Any, Final, Protocol

from bat_events.policy.interface import ExecuteCode, Malformed

TOOL_NAME: Final = "execute_code"
TOOL_SCHEMA: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Run code in the workspace and return its output.",
        "parameters": {
            "type": "object",
            "properties": {
                "language": {"type": "string", "enum": ["python", "bash"]},
                "code": {"type": "string"},
            },
            "required": ["language", "code"],
        },
    },
}


class WireFormat(Protocol):
    """One spelling of a call."""

    name: str
    describes_tools: bool  # whether the chat template is given the tool's schema
    allows_preamble: bool  # whether text (reasoning) may stand before the call

    def body(self, action: ExecuteCode) -> str:
        """The text between the call tokens; raises ValueError for a call that this format cannot spell."""
        ...

    def read(self, body: str) -> ExecuteCode | Malformed:
        """The call that `body` spells."""
        ...


class Compact:
    """`<tool_call>code</tool_call>`: python only, nothing but the code, for a small policy with few tokens a turn."""

    name = "compact"
    describes_tools = False
    allows_preamble = False

    def body(self, action: ExecuteCode) -> str:
        if action.language != "python":
            raise ValueError("the compact format carries python only; use qwen3-json for other languages")
        return action.code

    def read(self, body: str) -> ExecuteCode | Malformed:
        if not body.strip():
            return Malformed(reason="empty code")
        return ExecuteCode(language="python", code=body)


class Qwen3Json:
    """Qwen3's Hermes style: a JSON object with name and arguments on a line of its own."""

    name = "qwen3-json"
    describes_tools = True
    allows_preamble = True

    def body(self, action: ExecuteCode) -> str:
        arguments = {"language": action.language, "code": action.code}
        return "\n" + json.dumps({"name": TOOL_NAME, "arguments": arguments}, ensure_ascii=False) + "\n"

    def read(self, body: str) -> ExecuteCode | Malformed:
        try:
            call = json.loads(body, object_pairs_hook=_no_duplicates)
        except (ValueError, RecursionError) as error:
            return Malformed(reason=f"the call is not JSON: {error}"[:200])
        if not isinstance(call, dict) or set(call) != {"name", "arguments"}:
            return Malformed(reason="the call must have exactly the keys name and arguments")
        if call["name"] != TOOL_NAME:
            return Malformed(reason=f"unknown tool {str(call['name'])[:60]!r}")
        return _checked(call["arguments"])


class Qwen3Xml:
    """Qwen3.5's style: `<function=…>` with one `<parameter=…>` block per argument."""

    name = "qwen3-xml"
    describes_tools = True
    allows_preamble = True
    _CALL = re.compile(r"\s*<function=([^>\n]*)>\n(.*)</function>\s*", re.DOTALL)
    _PARAMETER = re.compile(r"<parameter=([^>\n]*)>\n(.*?)\n</parameter>\s*", re.DOTALL)

    def body(self, action: ExecuteCode) -> str:
        if "\n</parameter>" in action.code:
            raise ValueError("code that contains a closing parameter tag cannot be spelled in qwen3-xml")
        parameters = (("language", action.language), ("code", action.code))
        inner = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in parameters)
        return f"\n<function={TOOL_NAME}>\n{inner}</function>\n"

    def read(self, body: str) -> ExecuteCode | Malformed:
        call = self._CALL.fullmatch(body)
        if call is None:
            return Malformed(reason="the call is not one function block")
        if call[1] != TOOL_NAME:
            return Malformed(reason=f"unknown tool {call[1][:60]!r}")
        inner, arguments, position = call[2], {}, 0
        while position < len(inner):
            parameter = self._PARAMETER.match(inner, position)
            if parameter is None:
                return Malformed(reason="text between parameters")
            if parameter[1] in arguments:
                return Malformed(reason=f"parameter {parameter[1][:60]!r} given twice")
            arguments[parameter[1]] = parameter[2]
            position = parameter.end()
        return _checked(arguments)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key is given twice")
    return dict(pairs)


def _checked(arguments: Any) -> ExecuteCode | Malformed:
    if not isinstance(arguments, dict) or set(arguments) != {"language", "code"}:
        return Malformed(reason="the arguments must be exactly language and code")
    language, code = arguments["language"], arguments["code"]
    if language not in ("python", "bash"):
        return Malformed(reason=f"language {str(language)[:40]!r} is neither python nor bash")
    if not isinstance(code, str) or not code.strip():
        return Malformed(reason="code must be text that is not blank")
    return ExecuteCode(language=language, code=code)


FORMATS: Final[dict[str, WireFormat]] = {f.name: f for f in (Compact(), Qwen3Json(), Qwen3Xml())}
