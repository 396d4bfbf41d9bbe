// Numbers, tokens and labels as people read them. Nothing here touches the page.

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
const SHORT_ESCAPES = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Text from a file with control, bidirectional and other invisible characters written as escapes. */
function visible(text) {
  return isolated(escaped(text));
}

/** Text that runs from right to left set apart, so that what stands about it keeps its order. */
function isolated(text) {
  return RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text;
}

function escaped(text) {
  return String(text).replace(UNSEEN, (sign) => {
    const code = sign.codePointAt(0);
    const digits = code.toString(16);
    if (sign in SHORT_ESCAPES) return SHORT_ESCAPES[sign];
    if (code < 0x100) return `\\x${digits.padStart(2, "0")}`;
    return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
  });
}

/** The text made visible, at most `limit` characters of it. */
function shortened(text, limit) {
  const start = Array.from(String(text).slice(0, 2 * limit + 2));
  const cut = start.length > limit || start.join("").length < text.length;
  const shown = Array.from(escaped(start.slice(0, limit).join("")));
  return isolated(cut || shown.length > limit ? `${shown.slice(0, limit - 1).join("")}…` : shown.join(""));
}

/** A number with so many significant digits; a dash where there is none. */
function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(digits - 1).replace("e+", "e");
  return size >= 10 ** digits ? value.toFixed(0) : value.toPrecision(digits);
}

/** A round number, as scales have them: no zeros at its end. */
function round(value) {
  return Number.isFinite(value) && Math.abs(value) >= 1e-4 ? String(Number(value.toPrecision(3))) : number(value, 2);
}

/** A whole number with its thousands set apart. */
function whole(value) {
  return value.toLocaleString("en-US");
}

/** `1 line`, `3 lines`. */
function counted(value, noun) {
  return `${whole(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** One side of a matrix: what its rows or columns are called. */
class Axis {
  constructor(entry, word) {
    this.word = word;
    this.many = /[^aeiou]y$/.test(word) ? `${word.slice(0, -1)}ies` : `${word}s`;
    this.count = entry.count;
    this.positions = entry.positions;
    this.tokens = entry.tokens;
    this.extra = entry.extra ?? [];
    this.plain = this.count - this.extra.length;
  }

  position(index) {
    return this.positions ? this.positions[index] : index;
  }

  /** `9 it`: the position and its token, or the name of a column that is no position. */
  label(index, limit = 18) {
    if (index >= this.plain) return shortened(this.extra[index - this.plain], limit);
    const token = this.tokens?.[index];
    if (token === undefined || token === null) return String(this.position(index));
    const text = token.trim() === "" && !UNSEEN.test(token) ? `"${token}"` : shortened(token, limit);
    UNSEEN.lastIndex = 0;
    return `${this.position(index)} ${text}`;
  }

  /** The label as far as it fits into so much room; `measure` says how wide a text is. */
  fitted(index, room, measure) {
    let limit = 40;
    let text = this.label(index, limit);
    for (let wide = measure(text); wide > room && limit > 1; wide = measure(text)) {
      limit = Math.max(1, Math.min(limit - 1, Math.floor((limit * room) / wide)));
      text = this.label(index, limit);
    }
    return text;
  }

  /** The label in words: `query 9 it`. */
  named(index) {
    return `${this.word} ${this.label(index, 1000)}`;
  }

  /** `15 queries`. */
  get size() {
    return `${whole(this.count)} ${this.count === 1 ? this.word : this.many}`;
  }

  /** `queries 100–163 of 8,192`, for the indices from `first` up to `end`. */
  span(first, end) {
    if (end - first >= this.count) return this.size;
    const name = (index) => (index < this.plain ? this.position(index) : this.label(index));
    const range = end - first > 1 ? `${name(first)}–${name(end - 1)}` : name(first);
    return `${end - first > 1 ? this.many : this.word} ${range} of ${whole(this.count)}`;
  }

  /** The index whose position is nearest to `position`. */
  nearest(position) {
    if (!this.positions) return Math.max(0, Math.min(this.plain - 1, position));
    let best = 0;
    for (let i = 1; i < this.plain; i++) {
      if (Math.abs(this.positions[i] - position) < Math.abs(this.positions[best] - position)) best = i;
    }
    return best;
  }
}
