"""Bytes that are read from outside: under one checksum, and checked field by field."""
