"""Trains the small policy's tokenizer on the cold-start corpus, or extends a pretrained model's.

What it promises of the small policy's: any text can be encoded (byte fallback), a run of prompt lines that many
demonstrations share is one token, and what has to be learned stays apart: the value of a card's attribute and each argument
of an action are tokens of their own, because the pre-tokenizer ends a piece at `=`, at an opening bracket with its quote, and
at a closing quote with its comma. The control tokens are those of Qwen3, with the same names, so the same chat protocol
reads both.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
CALL_OPEN = "<tool_call>"
CALL_CLOSE = "</tool_call>"
RESPONSE_OPEN = "<tool_response>"
RESPONSE_CLOSE = "</tool_response>"
CONTROL_TOKENS = (END_OF_TEXT, TURN_START, TURN_END, CALL_OPEN, CALL_CLOSE, RESPONSE_OPEN, RESPONSE_CLOSE)

# Alternatives, in order: a line break with its indentation; a word with its space and, where it has one, its `=`, label
# colon, or call bracket and quote; a closing quote with what follows it; a number; a run of punctuation; white space.
_PIECES = (
    r"\n *"
    r"| ?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*(?:=[\"']?|[(\[{][\"']?|:(?= ))?"
    r"|[\"'][,:)\]}]* ?[\"']?"
    r"|[0-9]+(?:\.[0-9]+)?"
    r"| ?[^\sA-Za-z0-9_\"']+"
    r"|\s+"
)
_ROLE_LINES = ("system\n", "user\n", "assistant\n")  # every chat has them
_KEY_VALUE = re.compile(r"\w+=\S")
_LABEL = re.compile(r"\s*(\w+)\s*:")
_SHORTEST_BLOCK = 12  # characters; shorter lines are left to the merges

# The same layout as Qwen3's template, without what only large models need (tool schemas, thinking) and without line
# breaks around a tool's response, which would be two tokens a turn.
CHAT_TEMPLATE = """\
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>' + message.content + '</tool_response><|im_end|>\\n' }}
    {%- elif message.role == 'assistant' and message.tool_calls %}
        {{- '<|im_start|>assistant\\n' }}
        {%- for call in message.tool_calls %}
            {{- '<tool_call>' + call.function.arguments.code + '</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def shared_blocks(texts: Sequence[str], *, limit: int, min_share: float, max_variants: int = 24) -> list[str]:
    """Runs of whole lines (line breaks included) that many texts share and that never occur apart, longest saving first.

    A line is shared where at least `min_share` of the texts contain it. A line with a `key=value` in it is never taken, nor
    is one of a label (`card: …`) that heads more than `max_variants` different lines: what varies has to stay readable.
    """
    documents = [text.splitlines(keepends=True) for text in texts]
    counts = Counter(line for lines in documents for line in set(lines))
    variants = Counter(label[1] for line in counts if (label := _LABEL.match(line)))
    floor = max(2.0, min_share * len(documents))

    def shared(line: str) -> bool:
        label = _LABEL.match(line)
        frequent = counts[line] >= floor and " " in line and not _KEY_VALUE.search(line)
        return frequent and (label is None or variants[label[1]] <= max_variants)

    neighbours: Counter[tuple[str | None, str | None]] = Counter()
    total: Counter[str | None] = Counter()
    for lines in documents:
        marked = [None, *(line if shared(line) else None for line in lines), None]
        neighbours.update(pairwise(marked))
        total.update(marked)

    def joined(first: str | None, second: str | None) -> bool:
        together = neighbours[first, second]
        return first is not None and second is not None and together == total[first] == total[second]

    blocks: Counter[str] = Counter()
    for lines in documents:
        block = ""
        for line, after in pairwise([*(line if shared(line) else None for line in lines), None]):
            block += line or ""
            if block and not joined(line, after):
                blocks[block] += 1
                block = ""
    taken = [block for block in blocks if len(block) >= _SHORTEST_BLOCK]
    return sorted(taken, key=lambda block: (-blocks[block] * len(block), block))[:limit]


def train_tokenizer(
    prompts: Sequence[str],
    turns: Sequence[str],
    folder: Path,
    *,
    pieces: int,
    max_shared_blocks: int,
    min_line_share: float,
) -> int:
    """Train on prompt texts (system and user, each a text) and turn texts (actions, observations).

    Writes the tokenizer's files into `folder` and returns its size.

    `pieces` is the size of the byte-level BPE vocabulary (bytes and control tokens included); shared blocks come on top.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    blocks = shared_blocks(prompts, limit=max_shared_blocks, min_share=min_line_share)
    tokenizer: Any = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    # Shared blocks are cut out, so that every merge goes to what differs between prompts, and to the turns.
    static = re.compile("|".join(map(re.escape, sorted(blocks, key=len, reverse=True))) or r"(?!)")
    variable = [static.sub("", prompt) for prompt in prompts]
    trainer = trainers.BpeTrainer(
        vocab_size=pieces,
        min_frequency=2,
        special_tokens=[AddedToken(token, normalized=False, special=True) for token in CONTROL_TOKENS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*variable, *turns], trainer)
    # `normalized=True` marks a shared block as text; control tokens are never normalized (policy.chat relies on it).
    tokenizer.add_tokens([AddedToken(line, normalized=True, special=False) for line in (*_ROLE_LINES, *blocks)])
    make: Any = PreTrainedTokenizerFast
    wrapped = make(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    folder.mkdir(parents=True, exist_ok=True)
    wrapped.save_pretrained(str(folder))
    return len(wrapped)


def extend_tokenizer(
    source: Path,
    prompts: Sequence[str],
    folder: Path,
    *,
    max_shared_blocks: int,
    min_line_share: float,
) -> dict[str, int]:
    """Write into `folder` the tokenizer of `source` with what the chat protocol needs; all its own ids stay.

    Added are the control tokens that it lacks and, of `prompts`, the shared blocks. A chat template that can spell tool
    calls is kept; any other gives way to CHAT_TEMPLATE. Returns the tokens that had no id before, with their ids. Raises
    ValueError for a tokenizer that is no byte-level BPE: others do not give back every text that they are given.
    """
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    loaded: Any = AutoTokenizer.from_pretrained(str(source), local_files_only=True)
    backend: Any = getattr(loaded, "backend_tokenizer", None)
    spec: dict[str, Any] = {} if backend is None else json.loads(backend.to_str())
    if spec.get("model", {}).get("type") != "BPE" or "ByteLevel" not in json.dumps(spec["decoder"]):
        raise ValueError(f"the tokenizer in {source} is no byte-level BPE, the only kind that can be extended")
    spec["truncation"] = spec["padding"] = None
    ids: dict[str, int] = spec["model"]["vocab"]
    own = {str(token["content"]): token for token in spec["added_tokens"]}
    # In the model's vocabulary too, a token has its id even in the chat's twin tokenizer, which leaves control tokens out.
    ids |= {content: int(token["id"]) for content, token in own.items()}
    control = [t for t in CONTROL_TOKENS if t not in own and t != END_OF_TEXT]
    blocks = [b for b in shared_blocks(prompts, limit=max_shared_blocks, min_share=min_line_share) if b not in own]
    added: dict[str, int] = {}
    next_id = max(ids.values()) + 1
    for content in (*control, *blocks):
        if content not in ids:
            ids[content] = added[content] = next_id + len(added)
        text = content not in CONTROL_TOKENS  # marked by `normalized`, as in train_tokenizer
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": text, "special": not text}
        spec["added_tokens"].append({"id": ids[content], "content": content, **flags})
    spec["added_tokens"].sort(key=lambda token: token["id"])

    kept = {name: getattr(loaded, name) for name in ("bos_token", "unk_token") if getattr(loaded, name, None)}
    make: Any = PreTrainedTokenizerFast
    wrapped = make(
        tokenizer_object=Tokenizer.from_str(json.dumps(spec)),
        eos_token=TURN_END,
        pad_token=loaded.pad_token or TURN_END,
        clean_up_tokenization_spaces=False,
        **kept,
    )
    template = str(loaded.chat_template or "")
    speaks = CALL_OPEN in template and {TURN_END, CALL_OPEN, CALL_CLOSE} <= own.keys()
    wrapped.chat_template = template if speaks else CHAT_TEMPLATE
    folder.mkdir(parents=True, exist_ok=True)
    wrapped.save_pretrained(str(folder))
    return added
