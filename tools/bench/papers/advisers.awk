# Prints the table of tools/bench/papers/advisers.sh. Input: rows of advice_rows.awk.

BEGIN { FS = "\t" }

NF == 5 && $1 == "run" { next }  # a line that describes the run of the following rows

{
  choice = $1 FS $2
  if (!(choice in known)) { known[choice] = 1; choices[++choice_count] = choice }
  if (!($3 in asked)) { advisers[++adviser_count] = $3; asked[$3] = 0 }
  verdict[choice, $3] = $4 == "none" ? "-" : $4 == "right" ? "right" : sprintf("%+.1f%%%s", 100 * $5, $6 == "true" ? "" : "?")
  if ($4 == "none") next
  asked[$3]++
  if ($4 == "right") right[$3]++
  if ($6 == "true") extra[$3, ++measured[$3]] = 100 * $5
}

END {
  print "Verdict on each adviser: right, or the extra time of its schedule over the chosen one (?: predicted, since it was not"
  print "tried); -: no advice"
  printf "%-40s", "run, step"
  for (a = 1; a <= adviser_count; a++) printf " %10s", advisers[a]
  print ""
  for (c = 1; c <= choice_count; c++) {
    split(choices[c], name, FS)
    printf "%-40s", name[1] ", " name[2]
    for (a = 1; a <= adviser_count; a++) printf " %10s", verdict[choices[c], advisers[a]]
    print ""
  }
  printf "%-40s", "right, of those asked"
  for (a = 1; a <= adviser_count; a++) printf " %10s", (right[advisers[a]] + 0) " of " asked[advisers[a]]
  print ""
  printf "%-40s", "extra time, median of measured"
  for (a = 1; a <= adviser_count; a++) {
    name_of = advisers[a]
    for (i = 1; i <= measured[name_of]; i++) list[i] = extra[name_of, i]
    printf " %10s", measured[name_of] ? sprintf("%+.1f%%", median(list, measured[name_of])) : "-"
  }
  print ""
}
