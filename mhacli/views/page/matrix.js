// One matrix on a canvas: its labels, numbers and cursor, and what pointer and keys do to them.

// Pixels are written one by one, which a canvas in the graphics card would have to fetch first.
const ON_CPU = { willReadFrequently: true };
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

class MatrixPlot {
  /** `parts`: frame, source, rows and columns (axes), style (a function), label, onCursor, onChoose, height. */
  constructor(box, parts) {
    Object.assign(this, parts);
    this.box = box;
    box.replaceChildren();
    box.classList.add("plot");
    this.base = make("canvas", box);
    this.over = make("canvas", box);
    this.base.className = "base";
    this.over.className = "over";
    this.over.tabIndex = 0;
    this.over.setAttribute("role", "application");
    this.over.setAttribute("aria-label", `${this.label}. Arrow keys point at cells, + and - zoom, 0 shows all.`);
    this.frame.plots.push(this);
    this.listen();
    this.layout();
  }

  /** Where the matrix lies on the canvas, from the room there is and the labels. */
  layout() {
    const width = this.box.clientWidth;
    const pen = this.base.getContext("2d", ON_CPU);
    pen.font = FONT;
    this.limit = width < 420 ? 9 : 18;
    const widest = (axis) => {
      const step = Math.max(1, Math.floor(axis.count / 400));
      const width = (index) => pen.measureText(axis.label(index, this.limit)).width;
      let most = width(axis.count - 1);
      for (let i = 0; i < axis.count; i += step) most = Math.max(most, width(i));
      return Math.ceil(most);
    };
    const { rows, columns } = this.frame;
    this.left = widest(this.rows) + 28;
    const across = widest(this.columns);
    const room = Math.max(60, width - this.left - 4);
    this.upright = across + 8 > Math.min(46, room / columns);
    this.top = 22 + (this.upright ? across + 6 : 16);
    // As much as fits below what stands above, so that the whole matrix, or the first of them, can be seen at once.
    const above = this.frame.plots[0].box.getBoundingClientRect().top + window.scrollY + this.top;
    const tallest = Math.max(240, Math.min(this.height, window.innerHeight - above - 56));
    let [wide, high] = [Math.min(room, columns * 64), Math.min(tallest, rows * 64)];
    const cell = Math.min(wide / columns, high / rows);
    // A very long or flat matrix is stretched: true to its shape it would be a line.
    if (Math.max(rows / columns, columns / rows) <= 4) [wide, high] = [cell * columns, cell * rows];
    if (across + 8 > wide / columns && !this.upright) {
      this.upright = true;
      this.top = 28 + across;
    }
    this.wide = Math.round(wide);
    this.high = Math.max(24, Math.round(high));
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    for (const canvas of [this.base, this.over]) {
      const size = [this.left + this.wide + 4, this.top + this.high + 4];
      [canvas.width, canvas.height] = size.map((pixels) => Math.round(pixels * this.ratio));
      canvas.style.width = `${size[0]}px`;
      canvas.style.height = `${size[1]}px`;
    }
    this.draw();
  }

  get cellSize() {
    const { top, bottom, left, right } = this.frame.view;
    return [this.high / (bottom - top), this.wide / (right - left)];
  }

  /** The box of a cell, in the canvas' own units. */
  boxOf(row, column) {
    const [high, wide] = this.cellSize;
    const { top, left } = this.frame.view;
    return [this.left + (column - left) * wide, this.top + (row - top) * high, wide, high];
  }

  draw() {
    const pen = this.base.getContext("2d", ON_CPU);
    const style = this.style();
    const image = pen.createImageData(Math.round(this.wide * this.ratio), Math.round(this.high * this.ratio));
    paint(image, this.frame.view, this.source, style);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.base.width, this.base.height);
    pen.putImageData(image, Math.round(this.left * this.ratio), Math.round(this.top * this.ratio));
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.font = FONT;
    this.colours = getComputedStyle(this.box);
    this.drawCells(pen, style);
    this.drawLabels(pen);
    this.drawCursor();
    this.over.classList.toggle("zoomed", !this.frame.whole);
    this.onView?.(this.frame);
  }

  /** Gaps between large cells, and their numbers where there is room for them. */
  drawCells(pen, style) {
    const [high, wide] = this.cellSize;
    const { top, bottom, left, right } = this.frame.view;
    if (Math.min(high, wide) < 9 || !this.source.finest.exact) return;
    pen.save();
    pen.beginPath();
    pen.rect(this.left, this.top, this.wide, this.high);
    pen.clip();
    pen.fillStyle = this.colours.getPropertyValue("--surface");
    for (let row = Math.ceil(top); row <= bottom; row++) {
      pen.fillRect(this.left, Math.round(this.top + (row - top) * high) - 0.5, this.wide, 1);
    }
    for (let column = Math.ceil(left); column <= right; column++) {
      pen.fillRect(Math.round(this.left + (column - left) * wide) - 0.5, this.top, 1, this.high);
    }
    if (wide >= 28 && high >= 15) this.drawNumbers(pen, style);
    pen.restore();
  }

  drawNumbers(pen, style) {
    const { top, bottom, left, right } = this.frame.view;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const first = Math.floor(left);
    const last = Math.min(Math.ceil(right), this.frame.columns);
    for (let row = Math.floor(top); row < bottom; row++) {
      const found = new Map();
      this.source.each(this.source.finest, row, first, last, (column, value) => found.set(column, value));
      for (let column = first; column < last; column++) {
        const value = found.get(column) ?? this.source.below?.(row, column);
        if (value === undefined || value !== value) continue;
        const colour = style.colour(value);
        if (colour === style.marks.blank) continue;
        const [x, y, wide, high] = this.boxOf(row, column);
        pen.fillStyle = isBright(colour) ? "#101216" : "#ffffff";
        const texts = [2, 1].map((digits) => number(value, digits)).flatMap((one) => [one, one.replace("0.", ".")]);
        const text = (found.has(column) ? texts : ["<"]).find((one) => pen.measureText(one).width <= wide - 5);
        if (text) pen.fillText(text, x + wide / 2, y + high / 2 + 0.5);
      }
    }
  }

  drawLabels(pen) {
    const [high, wide] = this.cellSize;
    const { top, bottom, left, right } = this.frame.view;
    pen.fillStyle = this.colours.getPropertyValue("--quiet");
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.fillText(this.columns.word, this.left, 8);
    pen.save();
    pen.translate(8, this.top);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "right";
    pen.fillText(this.rows.word, 0, 0);
    pen.restore();
    pen.fillStyle = this.colours.getPropertyValue("--text");
    const downward = this.step(high, 14);
    for (let row = Math.ceil((top - 0.5) / downward) * downward; row + 0.5 <= bottom; row += downward) {
      if (row + 0.5 >= top) this.rowLabel(pen, row);
    }
    const sideward = this.step(wide, this.upright ? 14 : 0);
    for (let column = Math.ceil((left - 0.5) / sideward) * sideward; column + 0.5 <= right; column += sideward) {
      if (column + 0.5 >= left) this.columnLabel(pen, column);
    }
  }

  /** How many rows or columns apart labels are, so that each has its room. */
  step(size, room) {
    const least = room / size;
    if (least <= 1) return 1;
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least);
  }

  rowLabel(pen, row) {
    const [, y, , high] = this.boxOf(row, 0);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillText(this.rows.label(row, this.limit), this.left - 6, y + high / 2 + 0.5);
  }

  columnLabel(pen, column) {
    const [x, , wide] = this.boxOf(0, column);
    pen.save();
    pen.textBaseline = "middle";
    pen.translate(x + wide / 2, this.top - 6);
    if (this.upright) pen.rotate(-Math.PI / 2);
    pen.textAlign = this.upright ? "left" : "center";
    pen.fillText(this.columns.label(column, this.limit), 0, this.upright ? 0.5 : -6);
    pen.restore();
  }

  drawCursor() {
    const pen = this.over.getContext("2d");
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.over.width, this.over.height);
    const { cursor, view } = this.frame;
    if (!cursor || !this.colours) return;
    const [row, column] = cursor;
    if (row + 1 <= view.top || row >= view.bottom || column + 1 <= view.left || column >= view.right) return;
    const [x, y, wide, high] = this.boxOf(row, column);
    pen.font = FONT;
    for (const [colour, thick] of [["--surface", 4], ["--accent", 2]]) {
      pen.strokeStyle = this.colours.getPropertyValue(colour);
      pen.lineWidth = thick;
      pen.strokeRect(x - 1, y - 1, Math.max(3, wide) + 2, Math.max(3, high) + 2);
    }
    const [down, across] = [[this.rows, row], [this.columns, column]].map(
      ([axis, index]) => pen.measureText(axis.label(index, this.limit)).width + 8);
    this.tag(pen, () => this.rowLabel(pen, row), this.left - 2 - down, y + high / 2 - 8, down, 16);
    const [centre, end] = [x + wide / 2, this.top - 2];
    const box = this.upright ? [centre - 8, end - across, 16, across] : [centre - across / 2, end - 18, across, 16];
    this.tag(pen, () => this.columnLabel(pen, column), ...box);
  }

  /** A label of the cell pointed at, on its own ground above the others. */
  tag(pen, write, x, y, wide, high) {
    pen.fillStyle = this.colours.getPropertyValue("--accent");
    pen.beginPath();
    pen.roundRect(x, y, wide, high, 3);
    pen.fill();
    pen.fillStyle = this.colours.getPropertyValue("--on-accent");
    write();
  }

  /** The place under a pointer: exact row and column, not yet whole cells. */
  locate(event) {
    const box = this.over.getBoundingClientRect();
    const { top, bottom, left, right } = this.frame.view;
    const y = (event.clientY - box.top - this.top) / this.high;
    const x = (event.clientX - box.left - this.left) / this.wide;
    const inside = y >= 0 && y < 1 && x >= 0 && x < 1;
    return { row: top + y * (bottom - top), column: left + x * (right - left), inside };
  }

  /** The cell under a pointer; where a pixel holds many cells, the largest of them, which is what its colour shows. */
  pick({ row, column }) {
    const [high, wide] = this.cellSize;
    const first = [Math.floor(row), Math.floor(column)];
    if (high >= 1 && wide >= 1) return first;
    const end = [row + 1 / high, column + 1 / wide].map(Math.floor);
    const level = this.source.finest;
    const [fr, fc] = level.factor;
    let best = first;
    let most = -Infinity;
    for (let y = Math.floor(row / fr); y < Math.min(level.rows, Math.max(end[0], first[0] + 1) / fr); y++) {
      const last = Math.min(level.columns, Math.ceil(Math.max(end[1], first[1] + 1) / fc));
      this.source.each(level, y, Math.floor(first[1] / fc), last, (x, value) => {
        const size = this.source.signed ? Math.abs(value) : value;
        if (size > most) [most, best] = [size, [y * fr, x * fc]];
      });
    }
    return best;
  }

  listen() {
    const { over, frame } = this;
    let drag = null;
    over.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, y: event.clientY, moved: false };
      over.setPointerCapture(event.pointerId);
    });
    over.addEventListener("pointermove", (event) => {
      const [high, wide] = this.cellSize;
      if (drag && !frame.whole) {
        const [down, aside] = [event.clientY - drag.y, event.clientX - drag.x];
        if (!drag.moved && Math.hypot(down, aside) < 4) return;
        frame.pan(-down / high, -aside / wide);
        drag = { x: event.clientX, y: event.clientY, moved: true };
      } else this.hover(event);
    });
    over.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) {
        this.hover(event);
        if (this.locate(event).inside) this.onChoose?.(...frame.cursor);
      }
      drag = null;
    });
    over.addEventListener("pointercancel", () => (drag = null));
    over.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    over.addEventListener("keydown", (event) => this.key(event));
    over.addEventListener("focus", () => {
      if (!frame.cursor) this.moveTo(Math.floor(frame.view.top), Math.floor(frame.view.left));
    });
  }

  hover(event) {
    const place = this.locate(event);
    if (place.inside) this.moveTo(...this.pick(place));
  }

  moveTo(row, column) {
    const { cursor } = this.frame;
    if (cursor && cursor[0] === row && cursor[1] === column) return;
    this.frame.point(row, column);
    this.onCursor?.(...this.frame.cursor);
  }

  wheel(event) {
    const place = this.locate(event);
    // Where all is large enough to read, or there is nothing more to see, the page scrolls as ever.
    const legible = Math.min(...this.cellSize) >= 16;
    if (!place.inside || !this.frame.zoomable || (this.frame.whole && (event.deltaY > 0 || legible))) return;
    event.preventDefault();
    this.frame.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * 0.002))), place.row, place.column);
  }

  zoomBy(factor) {
    const { top, bottom, left, right } = this.frame.view;
    const [row, column] = this.frame.cursor ?? [(top + bottom) / 2 - 0.5, (left + right) / 2 - 0.5];
    this.frame.zoom(factor, row + 0.5, column + 0.5);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [row, column] = this.frame.cursor ?? [0, 0];
    const page = Math.max(1, Math.floor((this.frame.view.bottom - this.frame.view.top) / 2));
    const moves = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      PageUp: [row - page, column], PageDown: [row + page, column], Home: [row, 0], End: [row, this.frame.columns - 1],
    };
    if (event.key in moves) {
      this.moveTo(...moves[event.key]);
      this.onChoose?.(...this.frame.cursor);
    } else if (event.key === "+" || event.key === "=") this.zoomBy(0.5);
    else if (event.key === "-") this.zoomBy(2);
    else if (event.key === "0") this.frame.reset();
    else if (event.key === "Enter") this.onChoose?.(row, column, true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
