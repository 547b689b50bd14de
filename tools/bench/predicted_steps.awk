# Prints the results of predicted_steps.sh, tab-separated, and then the errors. Input: measured.tsv, then
# predictions.tsv. Needs median.awk. An error is the relative difference from the measured value. "machine" is the mean
# time of the reference runs before and after the case, divided by their mean time before and after the profile.
function note(kind, group, seconds_error, is_inside, bytes_error) {
  if (!(group in count)) {
    groups[++group_count] = group
    kind_of[group] = kind
  }
  time_error[group, ++count[group]] = seconds_error < 0 ? -seconds_error : seconds_error
  memory_error[group, count[group]] = bytes_error < 0 ? -bytes_error : bytes_error
  inside[group] += is_inside
}

# Adds a case to the groups to which it belongs. `speed` is the prefix of the groups' names.
function note_case(kind, speed, measured,    is_inside, error) {
  error = $3 / measured - 1
  is_inside = measured >= $4 && measured <= $5
  note(kind, speed "all", error, is_inside, $6 / peak[$1] - 1)
  note(kind + 1, speed ($2 == "nodes" ? "emulated nodes" : "ranks: " $2), error, is_inside, $6 / peak[$1] - 1)
  note(kind + 2, speed routing, error, is_inside, $6 / peak[$1] - 1)
}

function summary(group,    i, n, times, bytes, name) {
  n = count[group]
  for (i = 1; i <= n; i++) {
    times[i] = time_error[group, i]
    bytes[i] = memory_error[group, i]
  }
  name = group
  sub(/^same speed: /, "", name)
  printf "%-16s %5d %11.1f%% %11.1f%% %11.1f%% %11.0f%% %11.2f%% %11.2f%%\n", name, n, 100 * median(times, n), \
    100 * quantile(times, n, 0.95), 100 * times[n], 100 * inside[group] / n, 100 * median(bytes, n), 100 * bytes[n]
}

function table(title, first_kind,    kind, i) {
  printf "\n%s\n%-16s %5s %12s %12s %12s %12s %12s %12s\n", title, "", "cases", "time: median", "95%", "worst", \
    "in interval", "peak: median", "worst"
  for (kind = first_kind; kind < first_kind + 3; kind++)
    for (i = 1; i <= group_count; i++) if (kind_of[groups[i]] == kind) summary(groups[i])
}

BEGIN {
  FS = OFS = "\t"
  print "case", "ranks", "predicted, s", "measured, s", "quartile 1", "quartile 3", "predicted / measured", "machine", \
    "predicted peak", "measured peak", "predicted / measured", "settings"
}
/^# cluster\./ && / reference [0-9]/ {
  n = split($0, word, " ")
  place = word[2]
  sub(/^cluster\./, "", place)
  sub(/\.yaml$/, "", place)
  at_profile[place] = word[n - 1]
}
/^#/ { next }
FILENAME ~ /measured\.tsv$/ {
  peak[$1] = $2
  n = split($3, list, " ")
  seconds[$1] = median(list, n)
  quartiles[$1] = sprintf("%.4g\t%.4g", quantile(list, n, 0.25), quantile(list, n, 0.75))
  reference[$1] = $4
  next
}
{ cases++ }
$1 in seconds {
  measured = seconds[$1]
  machine = ($2 in at_profile) && reference[$1] > 0 ? reference[$1] / at_profile[$2] : 0
  printf "%s\t%s\t%.4g\t%.4g\t%s\t%.3f\t%s\t%d\t%d\t%.4f\t%s\n", $1, $2, $3, measured, quartiles[$1], \
    $3 / measured, machine ? sprintf("%.3f", machine) : "-", $6, peak[$1], $6 / peak[$1], $7
  routing = $7 ~ /routing=model/ ? "learned router" : $7 ~ /routing=balanced/ ? "balanced router" : "no experts"
  note_case(1, "", measured)
  if (machine) drifted = 1
  note_case(4, "same speed: ", machine ? measured / machine : measured)
}
END {
  if (count["all"] < cases) printf "\n%d of %d cases are measured\n", count["all"], cases
  if (!count["all"]) exit
  table("as measured", 1)
  if (drifted) table("at the speed that the machine had during its profile", 4)
}
