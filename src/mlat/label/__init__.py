"""Labelling a recording: its spans of known states, as a table, and which span to label next.

A *span* is a part of a recording that is in one state. ``label_table`` reads, checks and writes
tables of spans, and makes the states of a stream of them and back; ``active_learning`` finds the
span whose label would help most.
"""

from .active_learning import Query, QueryStrategy, next_span
from .label_table import Span, check_spans, read_spans, spans_of, with_spans, write_spans

__all__ = [
    "Query",
    "QueryStrategy",
    "Span",
    "check_spans",
    "next_span",
    "read_spans",
    "spans_of",
    "with_spans",
    "write_spans",
]
