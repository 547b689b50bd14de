# Prints the results of exhaustive_plans.sh, tab-separated, and then the regret of the plans. Input: measured.tsv, then
# layouts.tsv. Needs median.awk. The time of a layout is the median of the steps of all its rounds. Omits cases with a
# layout that was not measured in all rounds. Variable: rounds.
function settle(    i, best) {
  if (!layouts) return
  cases++
  if (!complete) return
  best = 1
  for (i = 2; i <= layouts; i++) if (time[i] < time[best]) best = i
  regrets[++settled] = time[1] / time[best] - 1
  printf "%s\t%s\t%d\t%.4g\t%.4g\t%d\t%.4g\t%.4g\t%.1f\t%s\t%s\t%s\n", case_name, place, layouts, predicted[1], time[1], \
    best, predicted[best], time[best], 100 * regrets[settled], settings, choices[1], choices[best]
}

BEGIN {
  FS = OFS = "\t"
  print "case", "place", "layouts", "first: predicted, s", "measured, s", "best", "predicted, s", "measured, s", "regret, %", \
    "settings", "settings of the first", "settings of the best"
}
/^#/ { next }
FILENAME ~ /measured\.tsv$/ {
  steps[$1] = steps[$1] " " $3
  rounds_of[$1]++
  next
}
{
  split($1, name, "/")
  if (name[1] != case_name) {
    settle()
    case_name = name[1]
    place = $2
    settings = $4
    complete = 1
  }
  layouts = name[2]
  predicted[layouts] = $3
  choices[layouts] = $5
  if (rounds_of[$1] < rounds) complete = 0
  time[layouts] = median(list, split(steps[$1], list, " "))
}
END {
  settle()
  if (settled < cases) printf "\n%d of %d cases are measured\n", settled, cases
  if (!settled) exit
  printf "\nregret: ratio of the first choice's time to the best layout's, minus one; %d cases: median %.1f%%, worst %.1f%%\n", \
    settled, 100 * median(regrets, settled), 100 * regrets[settled]
}
