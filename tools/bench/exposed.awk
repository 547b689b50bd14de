# Prints exposed communication by class, as shares of the step. Reads the rows of tools/bench/exposed.sh: ZeRO level,
# variant, round.step, class, exposed seconds, seconds of the step, loss. Prints other lines (the machine) first. A
# class without a row for a step was not exposed in that step. Medians are over all steps. Exits with 1 if the loss
# differs between the variants of a level, because they compute the same sums.

BEGIN {
  FS = "\t"
  class_count = split("control tp ep pp cp dp", classes, " ")
}

NF != 7 { print; next }

{
  if (!($1 in known_level)) { known_level[$1] = 1; levels[++level_count] = $1 }
  if (!($2 in known_variant)) { known_variant[$2] = 1; variants[++variant_count] = $2 }
  if (!(($1, $2, $3) in seconds)) { steps[$1, $2]++; name[$1, $2, steps[$1, $2]] = $3; seconds[$1, $2, $3] = $6 }
  exposed[$1, $2, $3, $4] += $5
  split($3, at, ".")
  if (!(($1, at[2]) in loss)) loss[$1, at[2]] = $7
  if (loss[$1, at[2]] != $7) wrong = "ZeRO " $1 ", " $2 ", step " $3 ": loss " $7 ", expected " loss[$1, at[2]]
}

# Returns the median share of a class in the steps of a variant, or of all classes if `class` is "all".
function share(level, variant, class,    n, c, s, sum, list) {
  for (n = 1; n <= steps[level, variant]; n++) {
    s = name[level, variant, n]
    sum = 0
    for (c = 1; c <= class_count; c++)
      if (class == "all" || class == classes[c]) sum += exposed[level, variant, s, classes[c]]
    list[n] = sum / seconds[level, variant, s]
  }
  return median(list, steps[level, variant])
}

function step_of(level, variant,    n, list) {
  for (n = 1; n <= steps[level, variant]; n++) list[n] = seconds[level, variant, name[level, variant, n]]
  return median(list, steps[level, variant])
}

END {
  if (wrong != "") { print wrong > "/dev/stderr"; exit 1 }
  if (!level_count) exit
  printf "\n%-6s%-8s%10s%10s", "zero", "", "step s", "exposed"
  for (c = 1; c <= class_count; c++) printf "%9s", classes[c]
  printf "\n"
  for (l = 1; l <= level_count; l++)
    for (v = 1; v <= variant_count; v++) {
      if (!steps[levels[l], variants[v]]) continue
      printf "%-6s%-8s%10.4f", levels[l], variants[v], step_of(levels[l], variants[v])
      printf "%9.1f%%", 100 * share(levels[l], variants[v], "all")
      for (c = 1; c <= class_count; c++) printf "%8.1f%%", 100 * share(levels[l], variants[v], classes[c])
      printf "\n"
    }
}
