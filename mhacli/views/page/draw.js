// Pixels: numbers become colours, what is hidden or no number gets its own pattern. Knows no page but its colours.

const HIDDEN = 0; // pixels are opaque, so no colour is 0 or 1 and both can stand for a pattern
const BROKEN = 1;

function packed(hex) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** 256 packed colours in even steps between the stops. */
function ramp(stops) {
  return Uint32Array.from({ length: 256 }, (_, step) => {
    const at = (step / 255) * (stops.length - 1);
    const first = Math.min(Math.floor(at), stops.length - 2);
    const part = (stop, from) => parseInt(stops[stop].slice(from, from + 2), 16);
    const mixed = [1, 3, 5].map((from) => {
      const between = part(first, from) + (part(first + 1, from) - part(first, from)) * (at - first);
      return Math.round(between).toString(16).padStart(2, "0");
    });
    return packed(`#${mixed.join("")}`);
  });
}

/** Whether dark text is legible on a packed colour. */
function isBright(colour) {
  const parts = [0, 8, 16].map((shift) => (((colour >>> shift) & 255) / 255) ** 2.2);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] > 0.18;
}

/** From numbers to places on the colour bar, 0 to 1. */
class Scale {
  constructor({ low, high, signed = false, floor = 0 }) {
    const most = Math.max(Math.abs(low), Math.abs(high));
    this.signed = signed;
    this.low = signed ? -most : low;
    this.high = signed ? most : high;
    this.floor = floor; // above 0: even steps of the logarithm, from here on
  }

  place(value) {
    let place = (value - this.low) / (this.high - this.low);
    if (this.floor > 0) place = Math.log(value / this.floor) / Math.log(this.high / this.floor);
    return place >= 0 ? Math.min(1, place) : place < 0 ? 0 : this.signed ? 0.5 : 0;
  }

  /** The number at a place on the colour bar. */
  at(place) {
    return this.floor > 0 ? this.floor * (this.high / this.floor) ** place : this.low + (this.high - this.low) * place;
  }
}

/** One head's numbers as a painter reads them: at the level whose cells fit `pixels` best. */
class HeadSource {
  constructor(head, signed) {
    this.head = head;
    this.signed = signed;
    this.rows = head.item.rows.count;
    this.columns = head.item.columns.count;
  }

  level(view, width, height) {
    return this.head.level(view, width, height);
  }

  get finest() {
    return this.head.finest;
  }

  each(level, row, from, to, visit) {
    level.each(row, from, to, visit);
  }

  show(level, row, from, to, shown) {
    if (this.head.mask) this.head.mask.show(level, row, from, to, shown);
    else shown.fill(1);
  }

  /** What a weight is smaller than that is left out, undefined where none is. */
  below(row, column) {
    const cell = this.head.floor ? this.head.cell(row, column) : null;
    return cell?.kind === "below" ? cell.value : undefined;
  }

  /** What stands for a visible cell that has no number of its own: no weight, so at most a bound. */
  rest(row, column) {
    return this.head.weights ? this.head.bound(row, column) : NaN;
  }
}

/**
 * Second head minus first, cell by cell of their finest levels, or of pooled ones where those are too many to be made
 * at once; what is below the floor counts as 0.
 */
class DifferenceSource {
  constructor(first, second) {
    this.pair = [first, second];
    this.signed = true;
    this.rows = first.item.rows.count;
    this.columns = first.item.columns.count;
    this.sums = new Float64Array(this.columns);
    this.seen = new Uint8Array(this.columns);
  }

  get finest() {
    return this.pair[0].finest;
  }

  level(view, width, height) {
    const costly = this.pair.find(({ finest }) => finest.costly);
    const level = costly ? costly.level(view, width, height) : this.finest;
    return this.pair.every((head) => head.like(level)) ? level : costly.levels[0];
  }

  each(level, row, from, to, visit) {
    const touched = [];
    this.pair.forEach((head, which) => {
      head.like(level).each(row, from, to, (column, value) => {
        if (!this.seen[column]) touched.push(column);
        this.seen[column] |= 1 << which;
        this.sums[column] += which ? value : -value;
      });
    });
    for (const column of touched) {
      // Numbers that are no weights have no 0 to stand for what one side lacks.
      if (this.pair[0].weights || this.seen[column] === 3) visit(column, this.sums[column]);
      this.sums[column] = this.seen[column] = 0;
    }
  }

  show(level, row, from, to, shown) {
    for (const head of this.pair) {
      if (head.mask) head.mask.show(level, row, from, to, shown);
      else shown.fill(1);
    }
  }

  rest() {
    return this.pair[0].weights ? 0 : NaN;
  }

  get costly() {
    return this.pair.some(({ finest }) => finest.costly);
  }

  /** The largest difference either way; where cells are made anew, of the pooled ones and of some rows: maybe not all. */
  most() {
    let most = 0;
    const look = (level, step) => {
      for (let row = 0; row < level.rows; row += step) {
        this.each(level, Math.floor(row), 0, level.columns, (_, value) => {
          if (Math.abs(value) > most) most = Math.abs(value);
        });
      }
    };
    const ready = (level) => this.pair.every((head) => head.like(level)?.costly === false);
    look(this.pair[0].levels.findLast(ready), 1);
    if (this.costly) look(this.finest, Math.max(1, this.rows / 64, (this.rows * this.columns) / MOST_PRODUCTS));
    return most;
  }
}

/** Which cells each pixel along one side stands for: from `first[i]` up to `end[i]`, at least one. */
function spans(pixels, low, high, limit) {
  const step = (high - low) / pixels;
  const first = new Int32Array(pixels);
  const end = new Int32Array(pixels);
  for (let i = 0; i < pixels; i++) {
    const from = low + i * step + 1e-9;
    first[i] = Math.max(0, Math.min(limit - 1, Math.floor(step < 1 ? from + step / 2 : from)));
    end[i] = Math.max(first[i] + 1, step < 1 ? 0 : Math.min(limit, Math.floor(from + step)));
  }
  return { first, end };
}

/** The largest number (by size where signed) of some rows, for each column of a window. */
class Pool {
  constructor(source, level, from, to) {
    Object.assign(this, { source, level, from, to });
    this.values = new Float64Array(to - from);
    this.shown = new Uint8Array(to - from);
    const { values } = this;
    const size = source.signed ? Math.abs : (value) => value;
    this.keep = (column, value) => {
      const old = values[column - from];
      // What is no number stays, whatever comes after it.
      if (old === -Infinity || value !== value || size(value) > size(old)) values[column - from] = value;
    };
  }

  read(first, end) {
    this.values.fill(-Infinity);
    this.shown.fill(0);
    for (let row = first; row < end; row++) {
      this.source.each(this.level, row, this.from, this.to, this.keep);
      this.source.show(this.level, row, this.from, this.to, this.shown);
    }
  }
}

/** Paints the part `view` of a source into the pixels of an image; `style` says how numbers and patterns look. */
function paint(image, view, source, style) {
  const { width, height } = image;
  const pixels = new Uint32Array(image.data.buffer);
  const level = source.level(view, width, height);
  const [high, wide] = level.factor;
  const rows = spans(height, view.top / high, view.bottom / high, level.rows);
  const columns = spans(width, view.left / wide, view.right / wide, level.columns);
  const from = columns.first[0];
  const pool = new Pool(source, level, from, columns.end[width - 1]);
  const line = new Uint32Array(width);
  for (let y = 0; y < height; y++) {
    if (y === 0 || rows.first[y] !== rows.first[y - 1] || rows.end[y] !== rows.end[y - 1]) {
      pool.read(rows.first[y], rows.end[y]);
      colourLine(line, columns, pool, rows.first[y] * high, style);
    }
    patternLine(pixels.subarray(y * width, (y + 1) * width), line, y, style);
  }
}

function colourLine(line, columns, pool, row, style) {
  const { values, shown, from, source, level } = pool;
  for (let x = 0; x < line.length; x++) {
    if (x > 0 && columns.first[x] === columns.first[x - 1] && columns.end[x] === columns.end[x - 1]) {
      line[x] = line[x - 1];
      continue;
    }
    let best = -Infinity;
    let seen = 0;
    for (let column = columns.first[x]; column < columns.end[x]; column++) {
      const value = values[column - from];
      seen |= shown[column - from];
      if (value !== value) best = NaN;
      else if (best === -Infinity || (source.signed ? Math.abs(value) > Math.abs(best) : value > best)) {
        if (value !== -Infinity) best = value;
      }
    }
    if (best !== -Infinity) line[x] = best === best ? style.colour(best) : BROKEN;
    else if (!seen) line[x] = HIDDEN;
    else {
      const rest = source.rest(row, columns.first[x] * level.factor[1]);
      line[x] = rest === rest ? style.colour(rest) : HIDDEN;
    }
  }
}

/** Copies a line of colours; hidden pixels get slanted lines, those of no number crossed ones. */
function patternLine(target, line, y, { hatch, marks }) {
  const thick = hatch / 5;
  for (let x = 0; x < line.length; x++) {
    const colour = line[x];
    if (colour > 1) {
      target[x] = colour;
      continue;
    }
    const falling = (x + y) % hatch < thick;
    const rising = (x + (hatch - 1) * y) % hatch < thick; // the same as x - y, but never negative
    if (colour === HIDDEN) target[x] = falling ? marks.hiddenLine : marks.hidden;
    else target[x] = falling || rising ? marks.brokenLine : marks.broken;
  }
}

/** How numbers become colours under one scale; those smaller than `least` stay blank. */
function styleOf(colours, scale, least, ratio, marks) {
  const table = colours[scale.signed ? "signed" : "sequential"];
  return {
    colour: (value) => (Math.abs(value) < least ? marks.blank : table[Math.round(255 * scale.place(value))]),
    hatch: Math.round(6 * ratio),
    marks,
  };
}

/** The packed colours of patterns and of the page that its style sheet has now. */
function marksOf(root) {
  const style = getComputedStyle(root);
  const names = { hidden: "--hidden", hiddenLine: "--hidden-line", broken: "--broken", brokenLine: "--broken-line" };
  const marks = { blank: packed(style.getPropertyValue("--blank").trim()) };
  for (const [name, variable] of Object.entries(names)) marks[name] = packed(style.getPropertyValue(variable).trim());
  return marks;
}
