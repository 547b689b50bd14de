#!/usr/bin/env bash
# Tests tools/parquet_to_jsonl.py with a Parquet file that pyarrow writes. Without pyarrow, tests only the message about
# its absence, and is skipped.
set -uo pipefail
tool=$(cd "$(dirname "$0")/../.." && pwd)/tools/parquet_to_jsonl.py
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

failed() {
  echo "FAILED: $*"
  exit 1
}
# `expect CODE TEXT COMMAND...`: expects the command to end with this code and to print the text.
expect() {
  local wanted=$1 text=$2 code
  shift 2
  "$@" >out 2>&1
  code=$?
  [ "$code" -eq "$wanted" ] || failed "exit code $code, expected $wanted: $*: $(cat out)"
  grep -qF -- "$text" out || failed "'$text' is not in: $(cat out)"
}

if ! python3 -c "import pyarrow" 2>/dev/null; then
  expect 1 "pyarrow is missing: python3 -m venv" python3 "$tool" a.parquet --output out-folder
  exit 77
fi

python3 - <<'END'
import pyarrow, pyarrow.parquet
table = pyarrow.table({"text": ["one", "zwei \u00e4\n", "3"] * 1000, "id": list(range(3000)), "raw": [b"\x00"] * 3000})
pyarrow.parquet.write_table(table, "a.parquet")
END
expect 0 "texts/a.jsonl.gz: 3000 rows of a.parquet" python3 "$tool" a.parquet --output texts --columns text id
gzip -dc texts/a.jsonl.gz >lines
[ "$(sed -n 2p lines)" == '{"text": "zwei ä\n", "id": 1}' ] || failed "line 2 is $(sed -n 2p lines)"
[ "$(wc -l <lines)" -eq 3000 ] || failed "$(wc -l <lines) lines, expected 3000"
expect 0 "texts/a.jsonl.gz: exists already" python3 "$tool" a.parquet --output texts
expect 1 "a.parquet: has no column 'body', expected one of: text, id, raw" python3 "$tool" a.parquet --output b --columns body
expect 1 "a.parquet: row 0: Object of type bytes is not JSON serializable; choose text columns" python3 "$tool" a.parquet --output b
python3 - <<'END'
import pyarrow, pyarrow.parquet
table = pyarrow.table({"text": ["one", None, "", None], "id": [1, 2, 3, None]})
pyarrow.parquet.write_table(table, "null.parquet")
END
expect 0 "null.parquet: 2 rows are null in all of these columns and were left out: text" \
  python3 "$tool" null.parquet --output null --columns text
[ "$(gzip -dc null/null.jsonl.gz)" == $'{"text": "one"}\n{"text": ""}' ] ||
  failed "null/null.jsonl.gz does not hold exactly the two rows with a text: $(gzip -dc null/null.jsonl.gz)"
grep -qF "null/null.jsonl.gz: 2 rows of null.parquet" out || failed "the output does not report 2 rows: $(cat out)"
expect 0 "null.parquet: 1 rows are null in all of these columns and were left out: text, id" \
  python3 "$tool" null.parquet --output both
[ "$(gzip -dc both/null.jsonl.gz | wc -l)" -eq 3 ] ||
  failed "both/null.jsonl.gz does not have 3 lines: $(gzip -dc both/null.jsonl.gz)"
head -c 100 a.parquet >cut.parquet
expect 1 "cut.parquet: " python3 "$tool" cut.parquet --output b
[ -z "$(ls b)" ] || failed "files were left in b: $(ls b)"
mkdir other && cp a.parquet other
expect 1 "other/a.parquet: has the same target c/a.jsonl.gz" python3 "$tool" a.parquet other/a.parquet --output c
