"""The chat protocol over a checkpoint folder's own tokenizer and chat template.

What it promises: text that comes from outside (system, prompt, observations, code of a demonstration) never becomes a
control token, whatever it spells; ids once made are never made again from text; `parse` accepts one spelling of one call
and names what is wrong with anything else.

The folder's jinja template is rendered once, around placeholders; its fixed parts are encoded with the control tokens, the
texts that later stand in the placeholders with a twin of the tokenizer that has none. `bat_chat.json` in the folder names
the wire format of an action (policy.formats); without it the template decides between Qwen3's and Qwen3.5's.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bat_events.policy.formats import FORMATS, TOOL_NAME, TOOL_SCHEMA, WireFormat
from bat_events.policy.interface import Action, ExecuteCode, FinalAnswer, Malformed
from bat_events.policy.tokenizer import CALL_CLOSE, CALL_OPEN, RESPONSE_CLOSE, RESPONSE_OPEN, TURN_END

CHAT_FILE: Final = "bat_chat.json"
# Private-use characters: no template inspects them, and no template text contains them.
_SYSTEM, _PROMPT, _RESULT = "\ue000system\ue001", "\ue000prompt\ue001", "\ue000result\ue001"


class TokenizerChat:
    """`ChatProtocol` for any folder whose tokenizer has Qwen's control tokens and whose template has Qwen's layout."""

    def __init__(self, folder: Path) -> None:
        """Read the tokenizer of `folder`; raises ValueError where its tokens or its template do not fit."""
        from tokenizers import Tokenizer
        from transformers import AutoTokenizer

        wrapper: Any = AutoTokenizer.from_pretrained(str(folder))
        backend: Any = wrapper.backend_tokenizer
        self._full = Tokenizer.from_str(backend.to_str())
        self._full.no_truncation()
        self._full.no_padding()
        spec = json.loads(self._full.to_str())
        added = [dict(token) for token in spec["added_tokens"]]
        # A shared block is text, marked by `normalized` (see policy.tokenizer); everything else added is a control token.
        spec["added_tokens"] = [token for token in added if token["normalized"] and not token["special"]]
        spec["post_processor"] = None
        self._plain = Tokenizer.from_str(json.dumps(spec))
        control = [token for token in added if token not in spec["added_tokens"]]
        ids = {str(token["content"]): int(token["id"]) for token in control}
        missing = [t for t in (TURN_END, CALL_OPEN, CALL_CLOSE) if t not in ids]
        if missing:
            raise ValueError(f"the tokenizer in {folder} lacks the control tokens {', '.join(missing)}")
        self._control_ids = frozenset(ids.values())
        self._end, self._open, self._close = ids[TURN_END], ids[CALL_OPEN], ids[CALL_CLOSE]
        outside = (RESPONSE_OPEN, RESPONSE_CLOSE)
        # Reasoning marks such as <think> may stand in a turn; marks of the chat's structure and of tool results may not.
        self._banned = {
            int(t["id"]): str(t["content"])
            for t in control
            if (t["special"] or t["content"] in outside) and t["content"] not in (CALL_OPEN, CALL_CLOSE)
        }
        self._format = _wire_format(folder, str(wrapper.chat_template))
        self._start_parts, self._observe_parts = self._split_template(wrapper)

    @property
    def action_format(self) -> str:
        """The name of the wire format in use."""
        return self._format.name

    @property
    def end_id(self) -> int:
        """The id of the token that ends a turn."""
        return self._end

    def start(self, system: str, prompt: str) -> list[int]:
        head, middle, tail = self._start_parts
        return [*head, *self._text(system), *middle, *self._text(prompt), *tail]

    def observe(self, observation: str) -> list[int]:
        head, tail = self._observe_parts
        return [*head, *self._text(observation), *tail]

    def render(self, action: ExecuteCode | FinalAnswer) -> list[int]:
        if isinstance(action, FinalAnswer):
            return [*self._text(action.text), self._end]
        return [self._open, *self._text(self._format.body(action)), self._close, self._end]

    def parse(self, token_ids: Sequence[int]) -> Action:
        ids = list(token_ids)
        if not ids or ids[-1] != self._end:
            return Malformed(reason=f"the turn does not end with {TURN_END}")
        ids.pop()
        for token in ids:
            if token in self._banned:
                return Malformed(reason=f"control token {self._banned[token]} inside a turn")
        opened, closed = ids.count(self._open), ids.count(self._close)
        if not opened and not closed:
            text = self._decode(ids)
            return Malformed(reason="the answer is not UTF-8") if text is None else FinalAnswer(text=text)
        if (opened, closed) != (1, 1) or ids.index(self._close) < ids.index(self._open):
            return Malformed(reason=f"{opened} {CALL_OPEN} and {closed} {CALL_CLOSE} in one turn")
        at, end = ids.index(self._open), ids.index(self._close)
        if at and not self._format.allows_preamble:
            return Malformed(reason="text before the call")
        trailing = self._decode(ids[end + 1 :])
        if trailing is None or trailing.strip():
            return Malformed(reason="text after the call")
        body = self._decode(ids[at + 1 : end])
        return Malformed(reason="the call is not UTF-8") if body is None else self._format.read(body)

    def _text(self, text: str) -> list[int]:
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        if not self._control_ids.isdisjoint(ids):
            raise ValueError("this tokenizer spells control tokens from plain text; it cannot carry untrusted text")
        return ids

    def _decode(self, ids: Sequence[int]) -> str | None:
        text: str = self._full.decode(list(ids), skip_special_tokens=False)
        return None if "\ufffd" in text else text

    def _fixed(self, text: str) -> list[int]:
        ids: list[int] = self._full.encode(text, add_special_tokens=False).ids
        return ids

    def _split_template(self, wrapper: Any) -> tuple[tuple[list[int], ...], tuple[list[int], ...]]:
        opening: list[dict[str, Any]] = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _PROMPT}]
        arguments = {"language": "python", "code": "0"}
        call = {"type": "function", "function": {"name": TOOL_NAME, "arguments": arguments}}
        acted = [*opening, {"role": "assistant", "content": "", "tool_calls": [call]}]
        answered = [*acted, {"role": "tool", "name": TOOL_NAME, "content": _RESULT}]
        tools = [TOOL_SCHEMA] if self._format.describes_tools else None

        def rendered(messages: list[dict[str, Any]]) -> str:
            text: str = wrapper.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
            return text

        first = _cut(rendered(opening), (_SYSTEM, _PROMPT))
        before, after = _cut(rendered(answered), (_RESULT,))
        turn_end = before.rfind(TURN_END)
        if turn_end < 0:
            raise ValueError(f"the chat template does not end an assistant turn with {TURN_END}")
        between = before[turn_end + len(TURN_END) :]
        return tuple(self._fixed(part) for part in first), (self._fixed(between), self._fixed(after))


def _cut(text: str, marks: Sequence[str]) -> list[str]:
    parts, rest = [], text
    for mark in marks:
        part, found, rest = rest.partition(mark)
        if not found or mark in rest:
            raise ValueError("the chat template does not show each message's content once and in order")
        parts.append(part)
    return [*parts, rest]


def _wire_format(folder: Path, template: str) -> WireFormat:
    file = folder / CHAT_FILE
    if file.is_file():
        name = json.loads(file.read_text(encoding="utf-8")).get("action_format")
        if name not in FORMATS:
            raise ValueError(f"{file}: action_format {name!r} is none of {', '.join(FORMATS)}")
        return FORMATS[name]
    return FORMATS["qwen3-xml" if "<function=" in template else "qwen3-json"]


def write_chat_file(folder: Path, action_format: str) -> None:
    """Name the wire format of a checkpoint folder."""
    if action_format not in FORMATS:
        raise ValueError(f"action_format {action_format!r} is none of {', '.join(FORMATS)}")
    (folder / CHAT_FILE).write_text(json.dumps({"action_format": action_format}) + "\n", encoding="utf-8")
