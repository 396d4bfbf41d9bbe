"""What looks wrong in somebody's attn_weights under their masks."""

from collections.abc import Iterator

from mhacli.masks.checks.evidence import Evidence, Observation
from mhacli.masks.checks.leaks import in_words
from mhacli.text import count


def on_hidden_keys(evidence: Evidence) -> Iterator[Observation]:
    """Weight on keys that the masks hide."""
    leaks = evidence.leaks
    if leaks is None or not leaks.leaking_rows:
        return
    yield Observation(
        f"{count(leaks.leaking_rows, 'row')} of {leaks.rows:,} give weight to hidden keys: {leaks.hidden_mass:.4g} in "
        f"all, at most {leaks.largest:.4g} on one key",
        f"{leaks.label}: most at {leaks.largest_place}",
        "hidden keys reach the output: these weights were not computed under these masks",
        "look for a mask that is the wrong way round, comes after the softmax, or belongs to another batch",
    )


def row_sums(evidence: Evidence) -> Iterator[Observation]:
    """Rows of weights that do not sum to 1."""
    leaks = evidence.leaks
    if leaks is None or leaks.worst_sum is None or not leaks.rows_off:
        return
    yield Observation(
        f"{count(leaks.rows_off, 'row')} of {leaks.rows:,} do not sum to 1 (to within {leaks.sum_tolerance:.1e}): "
        f"{leaks.rows_below:,} less, {leaks.rows_above:,} more",
        f"{leaks.label}: worst {leaks.worst_place}, {leaks.worst_sum:.6g}",
        "the output is scaled by the sum; less than 1 is dropout, a mask after the softmax, or a learned sink"
        if not leaks.rows_above
        else "the output is scaled by the sum; more than 1 is dropout in training, or no softmax over the keys",
        "mask before the softmax, and dump in eval mode; a learned sink leaves rows below 1 and is no mistake",
    )


def nan_rows(evidence: Evidence) -> Iterator[Observation]:
    """Rows of weights that are NaN though their query sees a key."""
    leaks = evidence.leaks
    if leaks is None or leaks.nan_at is None:
        return
    yield Observation(
        f"{count(leaks.nan_rows, 'row')} of {leaks.rows:,} hold NaN, and their queries see keys",
        f"{leaks.label}: first at {in_words(leaks.nan_at)}",
        "the masks do not explain it: the scores held NaN or infinities, or other masks were used",
        "mhacli show FILE counts the NaN of every tensor",
    )
