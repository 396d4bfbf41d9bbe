// Heads as they are shown, and the store that opens them when they are first asked for. Nothing here touches the page.

/** From where on a head's weights are all there, where that leaves out what one would miss; else 0. */
function floorOf({ levels }, weights) {
  const { encoding, floor, low } = levels.at(-1);
  const from = weights && encoding !== "product" ? floor ?? low : 0;
  return from > 1.01e-6 ? from : 0;
}

const MOST_PRODUCTS = 2 ** 20; // cells that are made anew for one picture

/** A head as it is shown: its decoded levels, coarse to fine, its mask and its axes. */
class OpenHead {
  constructor(parts, weights) {
    Object.assign(this, parts);
    this.weights = weights;
    this.finest = this.levels.at(-1);
    this.floor = floorOf(this.entry, weights);
  }

  /** The coarsest level of which no cell is larger than a pixel, else the finest that can be drawn at once. */
  level({ top, bottom, left, right }, width, height) {
    const [tall, wide] = [(bottom - top) / height, (right - left) / width];
    const fitting = this.levels.find(({ factor }) => factor[0] <= tall && factor[1] <= wide) ?? this.finest;
    return fitting.costly && (bottom - top) * (right - left) > MOST_PRODUCTS ? this.levels.at(-2) ?? fitting : fitting;
  }

  /** The finest of its levels that pools as another does. */
  like({ factor }) {
    return this.levels.findLast((level) => String(level.factor) === String(factor));
  }

  /** What one cell of the finest level holds: `value`, or why there is none. */
  cell(row, column) {
    const [high, wide] = this.finest.factor;
    const value = this.finest.at(Math.floor(row / high), Math.floor(column / wide));
    if (value !== undefined) return Number.isNaN(value) ? { kind: "nan" } : { kind: "value", value };
    if (!this.sees(row, column)) return { kind: "hidden" };
    return this.weights ? { kind: "below", value: this.finest.bound(Math.floor(row / high)) } : { kind: "hidden" };
  }

  /** Whether a cell, or with a pooled level any cell of its block, is not hidden. */
  sees(row, column) {
    if (!this.mask) return true;
    if (this.finest.exact) return this.mask.sees(row, column);
    const [high, wide] = this.finest.factor;
    const shown = new Uint8Array(1);
    const at = Math.floor(column / wide);
    this.mask.show(this.finest, Math.floor(row / high), at, at + 1, shown);
    return shown[0] === 1;
  }

  /** The score of a cell of this weight, where the row's sum is known. */
  score(row, weight) {
    const sum = this.finest.exact ? this.sums?.at(row) ?? null : null;
    return sum === null ? null : Math.log(weight) + sum;
  }

  /** At most how large a cell is that the finest level leaves out. */
  bound(row, column) {
    const coarse = this.levels[0];
    const largest = coarse.at(Math.floor(row / coarse.factor[0]), Math.floor(column / coarse.factor[1])) ?? coarse.floor;
    return Math.min(largest, this.finest.bound(Math.floor(row / this.finest.factor[0])));
  }
}

/** What is made once for each item and number, and shared by its heads. */
function once(kept, item, number, make) {
  if (!kept.has(item)) kept.set(item, []);
  return (kept.get(item)[number] ??= make());
}

/** Decodes heads when they are first asked for; keeps all coarse levels and the fine ones of the last few heads. */
class Store {
  constructor(data, keep = 6) {
    this.data = data;
    this.keep = keep;
    this.coarse = new Map();
    this.masks = new Map();
    this.keys = new Map();
    this.opened = new Map();
    this.broken = new Set(); // heads in which something is no number, as far as they are read
  }

  /** The head with its coarsest level only, for a thumbnail. */
  async glance(item, head) {
    const levels = [await this.coarsest(head)];
    const mask = await this.mask(item, head);
    return new OpenHead({ entry: head, item, levels, mask, sums: null }, this.data.weights);
  }

  coarsest(head) {
    if (!this.coarse.has(head)) this.coarse.set(head, this.first(head));
    return this.coarse.get(head);
  }

  async first(head) {
    const level = await decodeLevel(head.levels[0], this.data.weights);
    if (level.codes?.includes(1)) this.broken.add(head);
    return level;
  }

  async open(item, head) {
    const known = this.opened.get(head) ?? this.read(item, head);
    this.opened.delete(head);
    this.opened.set(head, known);
    if (this.opened.size > this.keep) this.opened.delete(this.opened.keys().next().value);
    return known;
  }

  async read(item, head) {
    const { rows } = item;
    const finer = head.levels.slice(1).map((level) => (
      level.encoding === "product" ? this.product(item, head, level) : decodeLevel(level, this.data.weights)));
    const levels = await Promise.all([this.coarsest(head), ...finer]);
    const sums = head.lse ? new RowSums(head.lse, await inflate(head.lse.data), rows.count) : null;
    return new OpenHead({ entry: head, item, levels, mask: await this.mask(item, head), sums }, this.data.weights);
  }

  async product(item, head, level) {
    const keys = once(this.keys, item, level.keys, () => inflate(item.keys[level.keys]));
    return new ProductLevel(level, await inflate(level.data), await keys, await this.mask(item, head));
  }

  async mask(item, head) {
    if (head.mask === null || head.mask === undefined) return null;
    const read = async () => new Mask(await inflate(item.masks[head.mask]), item.rows.count);
    return once(this.masks, item, head.mask, read);
  }
}
