# SPDX-License-Identifier: Apache-2.0
"""Pictures as a reader sees them: the pixels of a PNG, what there is to see in them, and the words of a figure."""

import base64
import colorsys
import io
from collections import Counter
from pathlib import Path

import numpy as np
from bs4 import BeautifulSoup
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
Colour = tuple[int, int, int]


def pixels(picture: Path | bytes) -> Pixels:
    """Red, green and blue, row by row; what is transparent is white."""
    with Image.open(io.BytesIO(picture) if isinstance(picture, bytes) else picture) as image:
        seen = image.convert("RGBA")
    return np.asarray(Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen).convert("RGB"))


def embedded(page: str) -> list[Pixels]:
    """The PNG pictures that a page has in itself, in its order."""
    images = BeautifulSoup(page, "html.parser").find_all("img")
    data = [str(image.get("src")).partition("data:image/png;base64,")[2] for image in images]
    return [pixels(base64.b64decode(one)) for one in data if one]


def colours(shown: Pixels) -> dict[Colour, float]:
    """Every colour with its share of the picture, the background first."""
    height, width, _ = shown.shape
    counted = Image.fromarray(np.ascontiguousarray(shown)).getcolors(height * width)
    return {colour: count / (height * width) for count, colour in sorted(counted, reverse=True)}


def drawn(shown: Pixels) -> float:
    return 1 - next(iter(colours(shown).values()))


def hues(shown: Pixels, share: float = 1e-3) -> int:
    """How many hues, of twelve, have a share of a picture: text and axes on white have none, what is drawn has."""
    found: Counter[int] = Counter()
    for colour, much in colours(shown).items():
        hue, _, _ = colorsys.rgb_to_hsv(*colour)
        if max(colour) - min(colour) >= 32:
            found[round(12 * hue) % 12] += much
    return sum(much >= share for much in found.values())


def words(figure: Figure) -> str:
    """All words of a figure, in its order."""
    texts = figure.findobj(lambda artist: hasattr(artist, "get_text"))
    return " ".join(" ".join(text.get_text() for text in texts).split())


def filled(shown: Pixels) -> float:
    """The largest share of a picture that has one shade, neither as light as a background nor as dark as text."""
    return max((much for colour, much in colours(shown).items() if 64 <= max(colour) < 224), default=0.0)
