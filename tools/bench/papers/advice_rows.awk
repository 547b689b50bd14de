# Prints a row for each adviser of a run's choices: run, step, adviser, verdict, extra time, "true" if that time was
# measured, reason. Input: metrics.jsonl. Variable: run.

function text_of(record, key,    rest) {
  if (!match(record, "\"" key "\": *\"")) return ""
  rest = substr(record, RSTART + RLENGTH)
  gsub(/\\"/, "'", rest)
  return substr(rest, 1, index(rest, "\"") - 1)
}

function value_of(record, key,    rest) {
  if (!match(record, "\"" key "\": *")) return ""
  rest = substr(record, RSTART + RLENGTH)
  sub(/[],}].*/, "", rest)
  return rest
}

/"schedule_choice"/ {
  step = value_of($0, "step")
  line = substr($0, index($0, "\"schedule_choice\""))
  count = split(line, records, /\{"adviser": */)
  for (i = 2; i <= count; i++) {
    record = "\"adviser\":" records[i]
    printf "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", run, step, text_of(record, "adviser"), text_of(record, "verdict"),
      value_of(record, "slower"), value_of(record, "measured"), text_of(record, "reason")
  }
}
