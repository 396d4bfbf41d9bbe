"""Where everything of a figure stands, in inches from its lower left corner: nothing overlaps, nothing is cut off."""

import math
from collections.abc import Sequence

from mhacli.views.figure.lettering import LINE, Lettering, labels_cut
from mhacli.views.figure.parts import BAR, GAP, MARGIN, PAD, PATCH, SHORTEST, TICK, Box, Content, Layout, Style
from mhacli.views.figure.proportions import across, panel_size

_LEAST_WIDTH = 3.2

_STYLES = (
    *(Style(), Style(characters=12), Style(0.85, 12), Style(0.85, 8), Style(0.85, 1), Style(0.75, 1)),
    *(Style(0.65, 0), Style(0.65, 0, words=False), Style(0.65, 0, titles=False, words=False)),
)


def lay_out(content: Content, size: tuple[float, float] | None, letters: Lettering, dpi: int | None) -> Layout:
    """The places of everything: in the size given, or in the size that the contents need.

    `dpi` is that of an image of pixels: cells then take whole numbers of them where they can.
    """
    count = len(content.titles)
    width, height = panel_size(content, 1, 1)
    first = across(count, (1.25 if size is None else size[0] / size[1]) * height / width)
    if size is None:
        return _Plan(content, letters, Style(), first, None, dpi).layout()
    for style in _STYLES:
        tries = range(max(1, first - 2), min(count, first + 3) + 1)
        plans = [_Plan(content, letters, style, columns, size, dpi) for columns in tries or (1,)]
        plan = max(plans, key=lambda plan: plan.cell)
        if plan.roomy:
            break
    return plan.layout()


class _Plan:
    """One try: widths from left to right, then heights from top to bottom."""

    def __init__(
        self,
        content: Content,
        letters: Lettering,
        style: Style,
        across: int,
        size: tuple[float, float] | None,
        dpi: int | None,
    ) -> None:
        self.content, self.letters, self.style, self.size, self.dpi = content, letters, style, size, dpi
        self.count = len(content.titles)
        self.rows = tuple(map(self._labels, content.rows))
        self.columns = tuple(map(self._labels, content.columns))
        self.across, self.down = across, -(-self.count // across)
        self.wanted = panel_size(content, self.across, self.down)
        self.line = style.label * LINE
        self._widths()
        self._heights()

    @property
    def roomy(self) -> bool:
        """Whether the panels get enough of the size that was asked for."""
        if self.size is None:
            return True
        width, height = self.size
        least = 0.25 if self.content.bars else 0.38
        return self.panel[0] * self.across >= 0.38 * width and self.panel[1] * self.down >= least * height

    @property
    def cell(self) -> float:
        """The shorter side of a cell; of a panel of bars."""
        rows, columns = (1, 1) if self.content.bars else self.content.shape
        return min(self.panel[0] / max(1, columns), self.panel[1] / max(1, rows))

    def _labels(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Labels as the style has them; names, which no position tells apart, may be twice as long."""
        if any(label[:1].isdigit() for label in labels):
            if self.style.characters < SHORTEST:
                labels = [label.split(" ")[0] for label in labels]
            return labels_cut(labels, self.letters, max(self.style.characters, SHORTEST))
        return labels_cut(labels, self.letters, max(2 * self.style.characters, SHORTEST))

    def _widths(self) -> None:
        content, style, letters = self.content, self.style, self.letters
        self.word = (2 if content.bars else 1) * style.title * LINE + PAD if style.words else 0.0
        self.lefts = [0.0] + [GAP] * (self.across - 1)
        for place in range(self.count):
            if self.has_rows(place) and style.characters:
                column = place % self.across
                room = letters.widest(self.rows[place], style.label) + TICK + PAD / 2 + (GAP if column else 0)
                self.lefts[column] = max(self.lefts[column], room)
        self.bar_room = self.bar_ticks = 0.0
        if content.bar:
            self.bar_ticks = letters.widest(content.bar, style.label) + TICK + PAD if style.titles else 0.0
            self.bar_room = (
                GAP + BAR + self.bar_ticks + (self._bar_lines() * style.title * LINE + PAD if style.words else 0.0)
            )
        fixed = 2 * MARGIN + self.word + sum(self.lefts) + (self.bar_room or PAD)
        if self.size is None:
            width = self._whole(self.wanted[0], content.shape[1])
            self.width = max(_LEAST_WIDTH, fixed + self.across * width)
        else:
            self.width = self.size[0]
            width = max(0.02, (self.width - fixed) / self.across)
        self.fixed = fixed
        self.upright = self._stands_upright(width)
        self.panel = (width, 0.0)

    def _bar_lines(self) -> int:
        """How many lines the colour bar's words will take: it is about as high as the panels."""
        height = self.down * self.wanted[1] if self.size is None else 0.5 * self.size[1]
        return 1 if self.letters.width(self.content.bar_word, self.style.title) <= height else 2

    def _stands_upright(self, width: float) -> bool:
        """Whether the labels of the columns stand on end: tokens that have no room to lie side by side."""
        most = max(map(len, self.columns), default=0)
        widest = max((self.letters.widest(columns, self.style.label) for columns in self.columns), default=0.0)
        labels = dict.fromkeys(label for columns in self.columns for label in columns)
        return most * (widest + PAD) > width and any(" " in label for label in labels)

    def _heights(self) -> None:
        content, style = self.content, self.style
        room = self.width - 2 * MARGIN
        caption = self.letters.wrapped(content.caption, style.caption, room, 8) if style.words else []
        self.caption = tuple(caption)
        self.legend = self._legend(room) if style.words else ()
        titles = [self._title(title) if style.titles else [] for title in content.titles]
        self.titles = tuple(map(tuple, titles))
        self.tops = [
            max(len(lines) for lines in titles[row * self.across : (row + 1) * self.across]) * style.title * LINE + PAD
            for row in range(self.down)
        ]
        head = len(caption) * style.caption * LINE + (PAD if caption else 0)
        self.foot = MARGIN + len(self.legend) * self.line * 1.15
        foot = self.foot + (2 * PAD if self.legend else 0) + (style.title * LINE if style.words else 0)
        fixed = MARGIN + head + foot + sum(self.tops)
        height = self.wanted[1]
        self.belows = self._belows(height)
        if self.size is None:
            height = self._whole(height, content.shape[0])
            self.height = fixed + sum(self.belows) + self.down * height
        else:
            self.height = self.size[1]
            height = max(0.02, (self.height - fixed - sum(self.belows)) / self.down) if self.down else 0.02
            self.belows = self._belows(height)
            height = max(0.02, (self.height - fixed - sum(self.belows)) / max(1, self.down))
        self.head = MARGIN + head
        self.panel = self._squarer(self.panel[0], height)
        self._spread(self.down * (height - self.panel[1]))

    def _title(self, text: str) -> list[str]:
        """A panel's title in lines; that of a panel that stands alone may be wider than it."""
        beside = 2 * min(self.word + self.lefts[0], self.bar_room) if self.across == 1 else 0.0
        return self.letters.wrapped(text, self.style.title, self.panel[0] + beside, 2 if self.across > 1 else 3)

    def _spread(self, high: float) -> None:
        """Room that the panels leave of a size goes between them."""
        wide = self.width - self.fixed - self.across * self.panel[0]
        if self.across > 1 and wide > 0:
            more = min(wide / (self.across - 1), GAP)
            self.lefts[1:] = [left + more for left in self.lefts[1:]]
            self.fixed += more * (self.across - 1)
        if self.down > 1 and high > 0:
            self.tops[1:] = [top + min(high / (self.down - 1), GAP) for top in self.tops[1:]]

    def _belows(self, height: float) -> list[float]:
        """The room below each row of panels: labels hang into the place of a panel that is not there."""
        rooms = [PAD] * self.down
        for place in range(self.count):
            if not (self.has_columns(place) and self.style.characters):
                continue
            labels = self.columns[place]
            row = place // self.across
            room = self.letters.widest(labels, self.style.label) if self.upright else self.line
            if row < self.down - 1 and place + self.across >= self.count:
                room -= height + self.tops[row + 1]
            rooms[row] = max(rooms[row], room + TICK + PAD)
        return rooms

    def has_rows(self, place: int) -> bool:
        """Whether a panel needs labels at its left: the first has them, and each whose left neighbour's are others."""
        return place % self.across == 0 or self.content.rows[place] != self.content.rows[place - 1]

    def has_columns(self, place: int) -> bool:
        """Whether a panel needs labels below it: the last has them, and each whose lower neighbour's are others."""
        below = place + self.across
        return below >= self.count or self.content.columns[place] != self.content.columns[below]

    def _whole(self, inches: float, cells: int) -> float:
        """A length that gives each cell a whole number of pixels, where each has at least one."""
        if self.dpi is None:
            return inches
        pixels = inches * self.dpi
        return (max(1, math.floor(pixels / cells)) * cells if 0 < cells <= pixels else round(pixels)) / self.dpi

    def _squarer(self, width: float, height: float) -> tuple[float, float]:
        """In a size that was asked for, cells are at most half as long again as they are wide, or the other way."""
        rows, columns = self.content.shape
        if self.size is not None and not self.content.bars and rows and columns:
            cell_width, cell_height = width / columns, height / rows
            width = min(width, max(1.5 * cell_height * columns, 1.0))
            height = min(height, max(1.5 * cell_width * rows, 0.5))
            width, height = min(width, self.panel[0]), self._whole(height, rows)
            width = self._whole(width, columns)
        return width, height

    def _legend(self, room: float) -> tuple[tuple[tuple[float, int | None, str], ...], ...]:
        """The parts of the legend side by side, in as many lines as they need."""
        lines: list[list[tuple[float, int | None, str]]] = []
        at = room
        for mark, text in self.content.legend:
            patch = 0.0 if mark is None else PATCH + PAD
            shown = self.letters.cropped(text, self.style.label, room - patch)
            width = patch + self.letters.width(shown, self.style.label)
            if not lines or at + width > room:
                lines.append([])
                at = 0.0
            lines[-1].append((MARGIN + at, mark, shown))
            at += width + 2 * GAP
        return tuple(map(tuple, lines))

    def layout(self) -> Layout:
        """The places, once all lengths are known."""
        width, height = self.panel
        used = self.fixed + self.across * width
        left = MARGIN + max(0.0, self.width - used) / 2 + self.word
        tops = self.height - self.head
        boxes = []
        for place in range(self.count):
            row, column = divmod(place, self.across)
            x = left + sum(self.lefts[: column + 1]) + column * width
            y = tops - sum(self.tops[: row + 1]) - sum(self.belows[:row]) - (row + 1) * height
            boxes.append(Box(self._pixel(x), self._pixel(y), width, height))
        grid = _around(boxes)
        places = range(self.count if self.style.characters else 0)
        bar, bar_lines = self._bar(grid) if boxes else (None, ())
        return Layout(
            size=(self._pixel(self.width), self._pixel(self.height)),
            style=self.style,
            boxes=tuple(boxes),
            grid=grid,
            bar=bar,
            bar_ticks=self.bar_ticks,
            bar_lines=bar_lines,
            left_word=left - self.word,
            left_lines=tuple(self.letters.wrapped(self.content.left_word, self.style.title, grid.height, 2)),
            below_word=grid.bottom - (self.belows[-1] if boxes else 0) - self.style.title * LINE,
            foot=self.foot,
            legend_line=self.line * 1.15,
            caption=self.caption,
            titles=self.titles,
            legend=self.legend,
            rows={place: self.rows[place] for place in places if self.has_rows(place)},
            columns={place: self.columns[place] for place in places if self.has_columns(place)},
            upright=self.upright,
        )

    def _bar(self, grid: Box) -> tuple[Box | None, tuple[str, ...]]:
        """The colour bar, beside all panels, and its words in lines no longer than they are high."""
        if not self.content.bar:
            return None, ()
        height = min(grid.height, 4.0)
        bar = Box(self._pixel(grid.left + grid.width + GAP), grid.bottom + (grid.height - height) / 2, BAR, height)
        return bar, tuple(self.letters.wrapped(self.content.bar_word, self.style.title, grid.height, self._bar_lines()))

    def _pixel(self, inches: float) -> float:
        return inches if self.dpi is None else round(inches * self.dpi) / self.dpi


def _around(boxes: Sequence[Box]) -> Box:
    if not boxes:
        return Box(MARGIN, MARGIN, 0.1, 0.1)
    left, bottom = min(b.left for b in boxes), min(b.bottom for b in boxes)
    right, top = max(b.left + b.width for b in boxes), max(b.bottom + b.height for b in boxes)
    return Box(left, bottom, right - left, top - bottom)
