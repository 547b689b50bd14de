#!/usr/bin/env python3
"""Converts Parquet files to JSON lines, which `hexad prepare` reads.

  python3 -m venv venv && venv/bin/pip install pyarrow
  venv/bin/python tools/parquet_to_jsonl.py data/*.parquet --output texts --columns text
  hexad prepare --input texts --output data/mine

Each row becomes one object in one line. Rows without a value in any of the columns are left out, and counted on standard
error. NAME.parquet becomes OUTPUT/NAME.jsonl.gz. Rows are converted in batches, so
memory does not grow with the file. Existing files are not replaced, so an interrupted conversion can be continued.
"""

import argparse
import gzip
import json
import os
import sys

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    sys.exit("parquet_to_jsonl: pyarrow is missing: python3 -m venv venv && venv/bin/pip install pyarrow")


def chosen_columns(path, file, wanted):
    """Returns the columns to convert. Exits if the file lacks a wanted column."""
    there = file.schema_arrow.names
    for name in wanted:
        if name not in there:
            sys.exit(f"{path}: has no column {name!r}, expected one of: {', '.join(there)}")
    return wanted or there


def write_rows(path, file, columns, out):
    """Writes the rows of a file, except those that are null in all columns. Returns the numbers of written and null rows."""
    rows = empty = 0
    for batch in file.iter_batches(batch_size=1024, columns=columns):
        for row in batch.to_pylist():
            if all(value is None for value in row.values()):
                empty += 1
                continue
            try:
                out.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
            except (TypeError, ValueError) as error:
                sys.exit(f"{path}: row {rows + empty}: {error}; choose text columns with --columns")
            rows += 1
    return rows, empty


def convert(path, target, wanted):
    """Converts one file. The target appears only when it is complete."""
    part = target + ".part"
    try:
        file = pyarrow.parquet.ParquetFile(path)
        columns = chosen_columns(path, file, wanted)
        with gzip.open(part, "wt", encoding="utf-8", compresslevel=3) as out:
            rows, empty = write_rows(path, file, columns, out)
        os.rename(part, target)
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        sys.exit(f"{path}: {error}")
    finally:
        if os.path.exists(part):
            os.remove(part)
    print(f"{target}: {rows} rows of {path}")
    if empty:
        print(f"{path}: {empty} rows are null in all of these columns and were left out: {', '.join(columns)}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description="Converts Parquet files to JSON lines for `hexad prepare`.")
    parser.add_argument("files", nargs="+", help="Parquet files")
    parser.add_argument("--output", required=True, help="output folder")
    parser.add_argument("--columns", nargs="+", default=[], help="columns to convert; default: all")
    options = parser.parse_args()
    os.makedirs(options.output, exist_ok=True)
    targets = {}
    for path in options.files:
        name = os.path.splitext(os.path.basename(path))[0] + ".jsonl.gz"
        target = os.path.join(options.output, name)
        if target in targets:
            sys.exit(f"{path}: has the same target {target} as {targets[target]}; convert it to another --output")
        targets[target] = path
    for target, path in targets.items():
        if os.path.exists(target):
            print(f"{target}: exists already; skipped")
        else:
            convert(path, target, options.columns)


if __name__ == "__main__":
    main()
