"""What pictures are made of: matrices pooled to a size, their labels and scales, and their packing for a page.

The document of a page, which `document` writes and the page's script reads, is JSON:

- `title`, `what` (the stage), `weights` (whether its numbers are weights), `signed`, `axes` (words for rows and
  columns), `metrics` (name and meaning of each), `sort` (a metric, with - before it the smallest first) and `dumps`.
- A dump has a `name`, a `layer` or null, a `caption`, `notes` and `items`.
- An item has its `index`; `rows` and `columns`, each with `count`, `positions` (null for 0, 1, 2 …) and `tokens` or
  null, and `extra`, the names of the last ones that are no positions; `masks` and `keys`, which its
  heads share; and `heads`.
- A head has a `name`, its `index`, its `metrics`, the bounds `low` and `high` of its numbers, the number of its
  `mask` or null, `lse` or null, and `levels`, coarse to fine.
- A level has `rows` and `columns` of cells, each cell the largest of `factor` rows and columns of the matrix, the
  coding (`bits`, `low`, `high`), an `encoding` and its `data`. The finest of weights has `floor`: from there on all
  are there, below it only the few largest of each row.

All data are base64 of zlib. A code of `bits` is 0 for nothing to show (hidden, or a weight that is left out), 1 for
no finite number, and c from 2 to top = 2^bits - 1 for low·(high/low)^((c-2)/(top-2)) of weights and low +
(high-low)·(c-2)/(top-2) of other numbers; codes of 16 bits lie as all low bytes, then all high bytes. The encodings:

- `dense`: all codes, row by row.
- `sparse`: two numbers of 32 bits, the lengths of the next two parts; how many entries each row has; each entry's
  column less that of the one before it in its row, less 1 (the first counts from -1); the entries' codes. The middle
  parts are whole numbers of seven bits a byte, the low ones first, the eighth bit for more.
- `product`: `features` numbers for each row in 16 bits around 2^15, then for each row what they are multiplied by and
  its shift, as float32; the item's `keys` of that number hold the same of each column. The weight of a cell that is
  not hidden is exp(row · column + the column's shift - the row's), at most `error` off where that was measured.

A mask says for each row how many visible runs it has, then for each the gap before it and its length. `lse` is one
code of 16 bits a row, 0 for none, else low + (high-low)·(c-1)/65534: a score is ln(weight) + lse.
"""
