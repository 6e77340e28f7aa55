"""Texts as vectors, for the leakage gate's optional check: an OpenAI-compatible endpoint, or a local model (may import torch)."""

from bat_events.embedding.interface import Embedder, EmbeddingFailed, embedder

__all__ = ["Embedder", "EmbeddingFailed", "embedder"]
