"""The picture set of the demo model: the colour emoji that Debian ships.

Pictures come from the font of the package `fonts-noto-color-emoji`, their grouping from
`emoji-test.txt` of the package `unicode-data`. Nothing is downloaded and nothing is stored: drawing
all of them takes a few seconds, so every user of this module simply builds the set again.

    python3 scripts/demo_data.py --sheet sheet.png      # a contact sheet, to look at
    python3 scripts/demo_data.py                        # the classes and their sizes
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

FONT = Path("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
EMOJI_LIST = Path("/usr/share/unicode/emoji/emoji-test.txt")

# The font holds bitmaps of one size only; FreeType refuses every other number.
FONT_SIZE = 109
# A glyph's bitmap is 136 x 128. It is drawn on a square of this side before it is scaled down.
CANVAS = 136

# Class name -> the subgroups of emoji-test.txt that it gathers. The order gives the class ids, so a
# new class goes to the end. Grouped by what the pictures look like rather than by what they mean:
# cat and monkey faces are drawn like the other animal heads, for example.
CLASSES = {
    "faces": ["face-smiling", "face-affection", "face-tongue", "face-hand",
              "face-neutral-skeptical", "face-sleepy", "face-unwell", "face-hat", "face-glasses",
              "face-concerned", "face-negative", "face-costume"],
    "hearts": ["heart"],
    "hands": ["hand-fingers-open", "hand-fingers-partial", "hand-single-finger",
              "hand-fingers-closed", "hands", "hand-prop"],
    "body parts": ["body-parts"],
    "people": ["person", "person-gesture", "person-role", "person-fantasy", "person-activity",
               "person-sport", "person-resting", "family", "person-symbol"],
    "mammals": ["animal-mammal", "cat-face", "monkey-face"],
    "birds": ["animal-bird"],
    "sea life": ["animal-marine", "food-marine", "animal-amphibian", "animal-reptile"],
    "bugs": ["animal-bug"],
    "plants": ["plant-flower", "plant-other"],
    "fruit": ["food-fruit"],
    "vegetables": ["food-vegetable"],
    "dishes": ["food-prepared", "food-asian"],
    "sweets": ["food-sweet"],
    "drinks": ["drink", "dishware"],
    "buildings": ["place-building", "place-religious"],
    "landscapes": ["place-map", "place-geographic", "place-other"],
    "vehicles": ["transport-ground", "transport-water", "transport-air"],
    "clocks": ["time"],
    "sky": ["sky & weather"],
    "clothes": ["clothing"],
    "games": ["event", "award-medal", "sport", "game", "arts & crafts"],
    "music": ["sound", "music", "musical-instrument"],
    "devices": ["phone", "computer", "light & video"],
    "stationery": ["book-paper", "money", "mail", "writing", "office"],
    "tools": ["tool", "lock", "science", "medical", "household", "other-object", "hotel"],
    "signs": ["transport-sign", "warning", "arrow", "religion", "zodiac", "av-symbol", "alphanum"],
    "symbols": ["emotion", "gender", "math", "punctuation", "currency", "other-symbol"],
    "shapes": ["geometric"],
}

# Left out on purpose: flags and keycaps (pairs of code points, mostly), skin tones and hair.
LEFT_OUT = {"flag", "country-flag", "subdivision-flag", "keycap", "skin-tone", "hair-style"}

# Mirroring these would teach wrong writing or a clock that runs backwards.
NEVER_MIRRORED = {"clocks", "signs", "symbols", "stationery"}


@dataclass
class Emoji:
    char: str
    name: str
    label: int


@dataclass
class PictureSet:
    pixels: np.ndarray  # uint8 [n, 3, side, side], on white
    labels: np.ndarray  # int64 [n]
    mirrored: np.ndarray  # bool [n]: may this picture be flipped left to right?
    emoji: list[Emoji]

    def class_weights(self) -> np.ndarray:
        """Probability of each picture when drawing for training.

        A class is drawn in proportion to the square root of its size: "sweets" has 14 pictures and
        "signs" 137, and the small ones would otherwise hardly be seen.
        """
        sizes = np.bincount(self.labels, minlength=len(CLASSES))
        weights = 1.0 / np.sqrt(sizes[self.labels])
        return weights / weights.sum()


def class_names() -> list[str]:
    return list(CLASSES)


def read_emoji_list(path: Path = EMOJI_LIST) -> list[Emoji]:
    """Every fully-qualified emoji of a single code point, with its class."""
    if not path.exists():
        raise SystemExit(f"[demo_data] {path} is missing: apt install unicode-data")
    label_of = {sub: i for i, subs in enumerate(CLASSES.values()) for sub in subs}
    found, subgroup = [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# subgroup:"):
            subgroup = line.split(":", 1)[1].strip()
            if subgroup not in label_of and subgroup not in LEFT_OUT:
                raise SystemExit(f"[demo_data] {path}: subgroup '{subgroup}' belongs to no class")
        if not line or line.startswith("#") or subgroup not in label_of:
            continue
        # 263A FE0F ; fully-qualified # <char> E0.6 smiling face
        points, rest = line.split(";", 1)
        status, comment = rest.split("#", 1)
        # FE0F only asks for the coloured form of the character before it.
        points = [p for p in points.split() if p != "FE0F"]
        if status.strip() == "fully-qualified" and len(points) == 1:
            name = comment.split(maxsplit=2)[2]
            found.append(Emoji(chr(int(points[0], 16)), name, label_of[subgroup]))
    return found


def draw(font: ImageFont.FreeTypeFont, char: str) -> np.ndarray | None:
    """The glyph as float RGBA [CANVAS, CANVAS, 4] in 0..1, colours premultiplied by alpha; None where
    the font has no glyph."""
    if font.getmask(char, mode="RGBA").getbbox() is None:
        return None
    left, top, right, bottom = font.getbbox(char)
    canvas = Image.new("RGBA", (CANVAS, CANVAS))
    corner = ((CANVAS - (right - left)) // 2 - left, (CANVAS - (bottom - top)) // 2 - top)
    ImageDraw.Draw(canvas).text(corner, char, font=font, embedded_color=True)
    rgba = np.asarray(canvas, dtype=np.float32) / 255.0
    return np.concatenate([rgba[..., :3] * rgba[..., 3:], rgba[..., 3:]], axis=-1)


def shrink(premultiplied: np.ndarray, side: int) -> np.ndarray:
    """Scales to [side, side] and lays the result on white; uint8 [3, side, side].

    Premultiplied colours are scaled, because the colour of a fully transparent pixel is arbitrary
    and would otherwise bleed into the edge. A margin of 1/32 stays free on every side so that a
    shifted picture is not cut off.
    """
    margin = max(1, side // 32)
    inner = side - 2 * margin
    planes = []
    for c in range(4):
        plane = Image.fromarray(np.ascontiguousarray(premultiplied[..., c]), mode="F")
        planes.append(np.asarray(plane.resize((inner, inner), Image.Resampling.LANCZOS)))
    alpha = np.clip(planes[3], 0.0, 1.0)
    out = np.full((3, side, side), 255, dtype=np.uint8)
    for c in range(3):
        on_white = np.clip(planes[c], 0.0, 1.0) + (1.0 - alpha)
        inside = np.round(255.0 * np.clip(on_white, 0.0, 1.0)).astype(np.uint8)
        out[c, margin:-margin, margin:-margin] = inside
    return out


def build(side: int = 32, font_path: Path = FONT, list_path: Path = EMOJI_LIST) -> PictureSet:
    """Draws the whole set."""
    if not font_path.exists():
        raise SystemExit(f"[demo_data] {font_path} is missing: apt install fonts-noto-color-emoji")
    font = ImageFont.truetype(str(font_path), FONT_SIZE)
    names = class_names()
    # The font draws a code point it does not know as an empty box: compare with one that is
    # certainly unknown.
    unknown = draw(font, "\U000FFFFE")
    emoji, pixels = [], []
    for e in read_emoji_list(list_path):
        glyph = draw(font, e.char)
        if glyph is None or (unknown is not None and np.array_equal(glyph, unknown)):
            continue
        emoji.append(e)
        pixels.append(shrink(glyph, side))
    labels = np.array([e.label for e in emoji], dtype=np.int64)
    mirrored = np.array([names[e.label] not in NEVER_MIRRORED for e in emoji])
    return PictureSet(np.stack(pixels), labels, mirrored, emoji)


def contact_sheet(pixels: np.ndarray, columns: int, gap: int = 2, zoom: int = 1) -> Image.Image:
    """uint8 [n, 3, h, w] -> one picture, row by row."""
    n, _, h, w = pixels.shape
    rows = math.ceil(n / columns)
    sheet = np.full((rows * (h + gap) + gap, columns * (w + gap) + gap, 3), 230, dtype=np.uint8)
    for i in range(n):
        y, x = gap + (i // columns) * (h + gap), gap + (i % columns) * (w + gap)
        sheet[y:y + h, x:x + w] = pixels[i].transpose(1, 2, 0)
    image = Image.fromarray(sheet)
    return image.resize((image.width * zoom, image.height * zoom), Image.Resampling.NEAREST)


def main() -> None:
    parser = argparse.ArgumentParser(description="The emoji the demo model is trained on.")
    parser.add_argument("--sheet", type=Path, help="write all pictures, by class, to this PNG")
    parser.add_argument("--side", type=int, default=32)
    args = parser.parse_args()
    pictures = build(args.side)
    sizes = np.bincount(pictures.labels, minlength=len(CLASSES))
    for i, name in enumerate(class_names()):
        print(f"{i:3d}  {name:12s} {sizes[i]:4d}")
    print(f"{len(pictures.labels)} pictures, {len(CLASSES)} classes")
    if args.sheet:
        order = np.argsort(pictures.labels, kind="stable")
        contact_sheet(pictures.pixels[order], columns=40).save(args.sheet)


if __name__ == "__main__":
    main()
