"""Skills for the workspace: `m` is this module; one call a step, with a level of 1, 2 or 3.

S1 plan      m.smooth  m.despeck  m.destripe  m.flatten
S2 setup     m.window  m.scale    m.invert    m.signed
S3 pilot     m.mean    m.vote     m.peak      m.base
S4 run       m.keep    m.flip     m.turn      m.swap
S5 submit    m.area    m.width    m.height    m.edge
Any time     m.scan() renews worklist.csv from the request; m.drop() declares unreadable cases as failed.

What a skill does to files stands in steps.py, to images in image.py, what is said of lesions in answers.py. Needs numpy only.
"""

from . import image, steps
from .steps import drop, scan

__all__ = [
    "area",
    "base",
    "despeck",
    "destripe",
    "drop",
    "edge",
    "flatten",
    "flip",
    "height",
    "image",
    "invert",
    "keep",
    "mean",
    "peak",
    "scale",
    "scan",
    "signed",
    "smooth",
    "steps",
    "swap",
    "turn",
    "vote",
    "width",
    "window",
]


def smooth(level: int) -> None:
    """Plan to remove grain: frequencies of one ring."""
    steps.plan("smooth", level)


def despeck(level: int) -> None:
    """Plan to remove bright specks of one width."""
    steps.plan("despeck", level)


def destripe(level: int) -> None:
    """Plan to remove stripes along the rows."""
    steps.plan("destripe", level)


def flatten(level: int) -> None:
    """Plan to remove a shading wave."""
    steps.plan("flatten", level)


def window(level: int) -> None:
    """Decode the fixed CT window."""
    steps.setup("window", level)


def scale(level: int) -> None:
    """Decode a gain and offset of each case's own."""
    steps.setup("scale", level)


def invert(level: int) -> None:
    """Decode inverted values."""
    steps.setup("invert", level)


def signed(level: int) -> None:
    """Decode signed values that were stored as unsigned."""
    steps.setup("signed", level)


def mean(level: int) -> None:
    """Merge frames by their mean."""
    steps.pilot("mean", level)


def vote(level: int) -> None:
    """Merge frames by their median."""
    steps.pilot("vote", level)


def peak(level: int) -> None:
    """Merge frames by their maximum."""
    steps.pilot("peak", level)


def base(level: int) -> None:
    """Merge frames by their minimum."""
    steps.pilot("base", level)


def keep(level: int) -> None:
    """Leave the pose."""
    steps.run("keep", level)


def flip(level: int) -> None:
    """Turn the image upside down."""
    steps.run("flip", level)


def turn(level: int) -> None:
    """Turn by a quarter, counter-clockwise."""
    steps.run("turn", level)


def swap(level: int) -> None:
    """Swap rows and columns."""
    steps.run("swap", level)


def area(level: int) -> None:
    """Report the area."""
    steps.submit("area", level)


def width(level: int) -> None:
    """Report the number of columns."""
    steps.submit("width", level)


def height(level: int) -> None:
    """Report the number of rows."""
    steps.submit("height", level)


def edge(level: int) -> None:
    """Report the length of the edge."""
    steps.submit("edge", level)
