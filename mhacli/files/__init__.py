"""Files of tensors: the only code that opens files. It gives validated arrays, and knows no attention."""

from mhacli.files.opening import open_tensors, read_text
from mhacli.files.paths import looks_like_file, split_reference
from mhacli.files.summary import Summary, summarise
from mhacli.files.tensor_file import TensorFile, TensorInfo
from mhacli.files.writing import Bfloat16, check_destination, check_place, write_bytes, write_tensors

__all__ = [
    "Bfloat16",
    "Summary",
    "TensorFile",
    "TensorInfo",
    "check_destination",
    "check_place",
    "looks_like_file",
    "open_tensors",
    "read_text",
    "split_reference",
    "summarise",
    "write_bytes",
    "write_tensors",
]
