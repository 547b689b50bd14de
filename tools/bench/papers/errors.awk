# Prints the errors of predictions in rows of moe_layer (13 fields, after fields that name a case) and train_schedules
# (32 fields), tab-separated: script, "passes" or "layers", error. Variable: script (name of the script).

BEGIN { FS = OFS = "\t" }

function add(kind, key, seconds, foreseen) {
  if (foreseen == "-") return
  key = kind FS key
  if (!(key in predicted)) { keys[++key_count] = key; kinds[key] = kind }
  predicted[key] = foreseen
  measured[key, ++rounds[key]] = seconds
}

$1 == "run" { next }
NF == 32 && $2 ~ /^[0-9]+$/ { add("layers", $1 FS $3, $7, $8); next }
NF >= 13 && $(NF - 9) ~ /^(forward|backward)$/ {
  key = $(NF - 10) FS $(NF - 9)
  for (i = 1; i <= NF - 12; i++) key = key FS $i
  add("passes", key, $(NF - 8), $(NF - 4) == "-" ? "-" : $(NF - 4) + $(NF - 3))
}

END {
  for (i = 1; i <= key_count; i++) {
    key = keys[i]
    split("", list)
    for (r = 1; r <= rounds[key]; r++) list[r] = measured[key, r]
    error = predicted[key] / median(list, rounds[key]) - 1
    printf "%s\t%s\t%.6f\n", script, kinds[key], error < 0 ? -error : error
  }
}
