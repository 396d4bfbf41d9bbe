// The numbers of the page: from base64 text to levels, masks and rows. Nothing here touches the page.

/** The bytes of a compressed blob. */
async function inflate(base64) {
  try {
    const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new Error("its numbers cannot be unpacked"); // browsers say it each in their own way, or as a failure to fetch
  }
}

/** Reads the LEB128 numbers of bytes, one after the other. */
class Varints {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  next() {
    let value = 0;
    let unit = 1;
    for (;;) {
      if (this.at >= this.bytes.length) throw new Error("its numbers end too early");
      const byte = this.bytes[this.at++];
      value += (byte & 127) * unit;
      if (byte < 128) return value;
      unit *= 128;
    }
  }
}

/** Codes of 8 bits, or of 16 bits as all low bytes and then all high bytes. */
function codesOf(bytes, bits, count) {
  if (bytes.length !== (count * bits) / 8) throw new Error("its numbers are too few or too many");
  if (bits === 8) return bytes;
  const codes = new Uint16Array(count);
  for (let i = 0; i < count; i++) codes[i] = bytes[i] | (bytes[count + i] << 8);
  return codes;
}

/** What the codes of a level mean. */
function meaningOf(entry, weights) {
  const steps = 2 ** entry.bits - 3;
  const { low, high } = entry;
  if (!(high > low)) return (code) => (code < 2 ? NaN : low);
  const growth = weights ? Math.log(high / low) / steps : 0;
  const value = weights
    ? (code) => (code < 2 ? NaN : low * Math.exp(growth * (code - 2)))
    : (code) => (code < 2 ? NaN : low + ((high - low) * (code - 2)) / steps);
  if (entry.bits > 8) return value;
  const table = Float64Array.from({ length: 256 }, (_, code) => value(code));
  return (code) => table[code];
}

/** A matrix of codes; each cell stands for `factor` rows and columns of the whole matrix. */
class Level {
  constructor(entry, weights) {
    Object.assign(this, { rows: entry.rows, columns: entry.columns, factor: entry.factor, bits: entry.bits });
    this.floor = weights ? entry.floor ?? entry.low : 0; // from here on every weight is there
    this.costly = false;
    this.bounds = new Map();
    this.value = meaningOf(entry, weights);
    const relative = entry.high > entry.low && weights ? Math.log(entry.high / entry.low) / (2 ** entry.bits - 3) : 0;
    this.rough = entry.bits === 8 && (!weights || relative > 0.005);
  }

  get exact() {
    return this.factor[0] === 1 && this.factor[1] === 1;
  }

  /** The number of a cell, NaN for what is no number, undefined where nothing is there. */
  at(row, column) {
    const code = this.code(row, column);
    return code ? this.value(code) : undefined;
  }

  /** What a visible weight that is not there is smaller than: the floor, or a smaller weight that its row does have. */
  bound(row) {
    if (!this.bounds.has(row)) {
      let least = this.floor;
      this.each(row, 0, this.columns, (_, value) => {
        if (value < least) least = value;
      });
      this.bounds.set(row, least);
    }
    return this.bounds.get(row);
  }
}

/** All codes, row by row. */
class DenseLevel extends Level {
  constructor(entry, weights, bytes) {
    super(entry, weights);
    this.codes = codesOf(bytes, entry.bits, entry.rows * entry.columns);
  }

  code(row, column) {
    return this.codes[row * this.columns + column];
  }

  /** Calls `visit(column, value)` for what a row has from one column up to another; NaN for what is no number. */
  each(row, from, to, visit) {
    const start = row * this.columns;
    for (let column = from; column < to; column++) {
      const code = this.codes[start + column];
      if (code) visit(column, this.value(code));
    }
  }
}

/** Only the entries of each row that have something to show, by ascending columns. */
class SparseLevel extends Level {
  constructor(entry, weights, bytes) {
    super(entry, weights);
    const sizes = new DataView(bytes.buffer, bytes.byteOffset, 8);
    const first = 8 + sizes.getUint32(0, true);
    const second = first + sizes.getUint32(4, true);
    if (second > bytes.length) throw new Error("its numbers end too early");
    const counts = new Varints(bytes.subarray(8, first));
    this.starts = new Uint32Array(entry.rows + 1);
    for (let row = 0; row < entry.rows; row++) this.starts[row + 1] = this.starts[row] + counts.next();
    const total = this.starts[entry.rows];
    this.codes = codesOf(bytes.subarray(second), entry.bits, total);
    this.places = new Uint32Array(total);
    const steps = new Varints(bytes.subarray(first, second));
    for (let row = 0; row < entry.rows; row++) {
      let column = -1;
      for (let i = this.starts[row]; i < this.starts[row + 1]; i++) this.places[i] = column += steps.next() + 1;
      if (column >= entry.columns) throw new Error("an entry lies outside of its matrix");
    }
  }

  /** The first entry of a row at or after a column. */
  find(row, column) {
    let low = this.starts[row];
    let high = this.starts[row + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.places[middle] < column) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  code(row, column) {
    const at = this.find(row, column);
    return at < this.starts[row + 1] && this.places[at] === column ? this.codes[at] : 0;
  }

  each(row, from, to, visit) {
    for (let i = this.find(row, from); i < this.starts[row + 1] && this.places[i] < to; i++) {
      visit(this.places[i], this.value(this.codes[i]));
    }
  }
}

async function decodeLevel(entry, weights) {
  const kind = { dense: DenseLevel, sparse: SparseLevel }[entry.encoding];
  if (!kind) throw new Error(`a level has the unknown encoding ${entry.encoding}`);
  return new kind(entry, weights, await inflate(entry.data));
}

/** Which cells of the whole matrix can be seen: runs of columns, row by row. */
class Mask {
  constructor(bytes, rows) {
    const numbers = new Varints(bytes);
    this.starts = new Uint32Array(rows + 1);
    const ends = [];
    for (let row = 0; row < rows; row++) {
      let at = 0;
      for (let run = numbers.next(); run > 0; run--) {
        const first = at + numbers.next();
        at = first + numbers.next();
        ends.push(first, at);
      }
      this.starts[row + 1] = ends.length;
    }
    this.ends = Uint32Array.from(ends);
  }

  /** Where each run of a row begins and ends. */
  runs(row) {
    return this.ends.subarray(this.starts[row], this.starts[row + 1]);
  }

  sees(row, column) {
    for (let i = this.starts[row]; i < this.starts[row + 1]; i += 2) {
      if (column < this.ends[i]) return false;
      if (column < this.ends[i + 1]) return true;
    }
    return false;
  }

  /** Sets `shown[cell - from]` for each cell of a level's row that holds anything visible. */
  show(level, row, from, to, shown) {
    const [high, wide] = level.factor;
    const last = Math.min(this.starts.length - 1, (row + 1) * high);
    for (let i = this.starts[row * high]; i < this.starts[last]; i += 2) {
      const first = Math.max(from, Math.floor(this.ends[i] / wide));
      const end = Math.min(to, Math.ceil(this.ends[i + 1] / wide));
      if (first < end) shown.fill(1, first - from, end - from);
    }
  }
}

/** The logarithm of each row's sum, by which weights become scores again. */
class RowSums {
  constructor(entry, bytes, rows) {
    this.codes = codesOf(bytes, 16, rows);
    this.low = entry.low;
    this.step = (entry.high - entry.low) / 65534;
  }

  at(row) {
    const code = this.codes[row];
    return code ? this.low + this.step * (code - 1) : null;
  }
}
