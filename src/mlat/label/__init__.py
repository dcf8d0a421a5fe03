"""Labelling a recording: its spans of known states, as a table.

A *span* is a part of a recording that is in one state. ``label_table`` reads, checks and writes
tables of spans, and makes the states of a stream of them and back.
"""

from .label_table import Span, check_spans, read_spans, spans_of, with_spans, write_spans

__all__ = ["Span", "check_spans", "read_spans", "spans_of", "with_spans", "write_spans"]
