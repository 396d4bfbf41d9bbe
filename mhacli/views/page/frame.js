// The window that plots look through.

const LEAST_SPAN = 8; // cells that stay in sight at the strongest zoom

/** The window that plots look through and the cell that they point at; several plots may share one. */
class Frame {
  constructor(rows, columns) {
    this.rows = rows;
    this.columns = columns;
    this.cursor = null;
    this.plots = [];
    this.reset();
  }

  get whole() {
    return this.view.bottom - this.view.top >= this.rows && this.view.right - this.view.left >= this.columns;
  }

  get zoomable() {
    return this.rows > LEAST_SPAN || this.columns > LEAST_SPAN;
  }

  reset() {
    this.place(0, 0, this.rows, this.columns);
  }

  place(top, left, tall, wide) {
    const fit = (start, size, all) => Math.max(0, Math.min(all - size, start));
    const first = { top: fit(top, tall, this.rows), left: fit(left, wide, this.columns) };
    this.view = { ...first, bottom: first.top + tall, right: first.left + wide };
    this.changed();
  }

  /** Makes the window `factor` times as large, with one point of the matrix staying where it is. */
  zoom(factor, row, column) {
    const { top, bottom, left, right } = this.view;
    const sized = (span, all) => Math.max(Math.min(LEAST_SPAN, all), Math.min(all, span * factor));
    const tall = sized(bottom - top, this.rows);
    const wide = sized(right - left, this.columns);
    const y = (row - top) / (bottom - top);
    const x = (column - left) / (right - left);
    this.place(row - y * tall, column - x * wide, tall, wide);
  }

  pan(rows, columns) {
    const { top, bottom, left, right } = this.view;
    this.place(top + rows, left + columns, bottom - top, right - left);
  }

  /** Points at a cell and brings it into sight. */
  point(row, column) {
    const { top, bottom, left, right } = this.view;
    this.cursor = [Math.max(0, Math.min(this.rows - 1, row)), Math.max(0, Math.min(this.columns - 1, column))];
    const shift = (at, low, high) => (at < low ? at - low : at + 1 > high ? at + 1 - high : 0);
    const [down, aside] = [shift(this.cursor[0], top, bottom), shift(this.cursor[1], left, right)];
    if (down || aside) this.pan(down, aside);
    for (const plot of this.plots) plot.drawCursor();
  }

  changed() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      for (const plot of this.plots) plot.draw();
    });
  }
}
