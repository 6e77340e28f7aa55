"""Texts and folders that the policy tests share."""

from pathlib import Path

from bat_events.policy.chat import TokenizerChat, write_chat_file

SYSTEM = "You work in a workspace.\nAnswer with one call."


def card(modality: str, noise: str) -> str:
    """A prompt with a line that all prompts share, and a card."""
    return f"Plan the work now, please.\ncard: modality={modality} noise={noise}"


def chat_with(folder: Path, action_format: str, tmp_path: Path) -> TokenizerChat:
    """The protocol over a copy of `folder` that names another wire format."""
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    write_chat_file(tmp_path, action_format)
    return TokenizerChat(tmp_path)
