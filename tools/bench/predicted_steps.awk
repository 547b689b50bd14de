# Prints the results of predicted_steps.sh, tab-separated, and then the errors. Input: measured.tsv, then
# predictions.tsv. Needs median.awk. An error is the relative difference from the measured value.
function note(kind, group, seconds_error, is_inside, bytes_error) {
  if (!(group in count)) {
    groups[++group_count] = group
    kind_of[group] = kind
  }
  time_error[group, ++count[group]] = seconds_error < 0 ? -seconds_error : seconds_error
  memory_error[group, count[group]] = bytes_error < 0 ? -bytes_error : bytes_error
  inside[group] += is_inside
}

function summary(group,    i, n, times, bytes) {
  n = count[group]
  for (i = 1; i <= n; i++) {
    times[i] = time_error[group, i]
    bytes[i] = memory_error[group, i]
  }
  printf "%-16s %5d %11.1f%% %11.1f%% %11.1f%% %11.0f%% %11.2f%% %11.2f%%\n", group, n, 100 * median(times, n), \
    100 * quantile(times, n, 0.95), 100 * times[n], 100 * inside[group] / n, 100 * median(bytes, n), 100 * bytes[n]
}

BEGIN {
  FS = OFS = "\t"
  print "case", "ranks", "predicted, s", "measured, s", "quartile 1", "quartile 3", "predicted / measured", \
    "predicted peak", "measured peak", "predicted / measured", "settings"
}
/^#/ { next }
FILENAME ~ /measured\.tsv$/ {
  peak[$1] = $2
  n = split($3, list, " ")
  seconds[$1] = median(list, n)
  quartiles[$1] = sprintf("%.4g\t%.4g", quantile(list, n, 0.25), quantile(list, n, 0.75))
  next
}
{ cases++ }
$1 in seconds {
  measured = seconds[$1]
  printf "%s\t%s\t%.4g\t%.4g\t%s\t%.3f\t%d\t%d\t%.4f\t%s\n", $1, $2, $3, measured, quartiles[$1], $3 / measured, $6, \
    peak[$1], $6 / peak[$1], $7
  routing = $7 ~ /routing=model/ ? "learned router" : $7 ~ /routing=balanced/ ? "balanced router" : "no experts"
  error = $3 / measured - 1
  is_inside = measured >= $4 && measured <= $5
  note(1, "all", error, is_inside, $6 / peak[$1] - 1)
  note(2, $2 == "nodes" ? "emulated nodes" : "ranks: " $2, error, is_inside, $6 / peak[$1] - 1)
  note(3, routing, error, is_inside, $6 / peak[$1] - 1)
}
END {
  if (count["all"] < cases) printf "\n%d of %d cases are measured\n", count["all"], cases
  if (!count["all"]) exit
  printf "\n%-16s %5s %12s %12s %12s %12s %12s %12s\n", "", "cases", "time: median", "95%", "worst", "in interval", \
    "peak: median", "worst"
  for (kind = 1; kind <= 3; kind++)
    for (i = 1; i <= group_count; i++) if (kind_of[groups[i]] == kind) summary(groups[i])
}
