// Weights made anew from queries and keys, for matrices too large to be packed. Nothing here touches the page.

/** Vectors of small whole numbers, made real by a number of each, and one more number of each: its shift. */
class Vectors {
  constructor(bytes, count, { features, bits }) {
    const total = count * features;
    const after = (total * bits) / 8;
    const codes = codesOf(bytes.subarray(0, after), bits, total);
    if (bytes.length !== after + 8 * count) throw new Error("its numbers are too few or too many");
    const numbers = new Float32Array(bytes.slice(after).buffer);
    this.shifts = numbers.subarray(count);
    this.features = features;
    this.numbers = Float32Array.from(codes, (code, i) => (code - 2 ** (bits - 1)) * numbers[Math.floor(i / features)]);
  }
}

/** Every weight, made anew from its query and its key when it is looked at: for matrices too large to be packed. */
class ProductLevel {
  constructor(entry, queries, keys, mask) {
    Object.assign(this, { rows: entry.rows, columns: entry.columns, factor: [1, 1], exact: true, mask });
    this.costly = true;
    this.rough = entry.error > 0.005;
    this.floor = 0;
    this.queries = new Vectors(queries, entry.rows, entry);
    this.keys = new Vectors(keys, entry.columns, entry);
  }

  weight(row, column) {
    const { features, numbers, shifts } = this.queries;
    const keys = this.keys.numbers;
    let score = this.keys.shifts[column] - shifts[row];
    for (let i = row * features, j = column * features, end = i + features; i < end; i++, j++) score += numbers[i] * keys[j];
    return Math.exp(score);
  }

  at(row, column) {
    return !this.mask || this.mask.sees(row, column) ? this.weight(row, column) : undefined;
  }

  each(row, from, to, visit) {
    const seen = this.mask ? this.mask.runs(row) : [0, this.columns];
    for (let run = 0; run < seen.length; run += 2) {
      const end = Math.min(to, seen[run + 1]);
      for (let column = Math.max(from, seen[run]); column < end; column++) visit(column, this.weight(row, column));
    }
  }

  /** Nothing that can be seen is left out. */
  bound() {
    return 0;
  }
}
