# Prints the table of tools/bench/papers/parm_placements.sh. Input: lines that consist of a case, the node of each rank,
# and a row of moe_layer.

BEGIN { FS = "\t" }

{
  number = $1; nodes = $2
  sub(/^[^\t]*\t[^\t]*\t/, "")
  $1 = number "|" nodes "|" $1
  read_row()
}

# Returns the share of the traffic inside groups that leaves the node, averaged over the ranks. Each group has `size`
# ranks, which are `stride` ranks apart.
function leaving(nodes, size, stride,    of, i, j, n, out, all, first) {
  n = split(nodes, of, ",")
  for (i = 0; i < n; i++) {
    first = i - int(i / stride) % size * stride
    for (j = 0; j < size; j++) {
      if (first + j * stride == i) continue
      all++
      if (of[first + j * stride + 1] != of[i + 1]) out++
    }
  }
  return all ? sprintf("%.0f%%", 100 * out / all) : "-"
}

END {
  print "Collectives: share of a rank's bytes that leaves the node. S1, S2: speedup over the baseline, whole step, means over"
  print "the layers; predictions by the simulator; least: smallest speedup"
  printf "%-4s %-16s %4s %5s %6s | %9s %7s %8s %7s | %10s", "case", "node of a rank", "N_MP", "N_ESP", "layers", "ESP gath.",
    "EP A2A", "EP&ESP", "MP gath", "baseline s"
  printf " | %5s %5s %9s %6s | %5s %5s %9s %6s\n", "S1", "least", "predicted", "error", "S2", "least", "predicted", "error"
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    split(c, part, "|")
    group = part[1] "|" part[2] "|" field(part[3], "tp") "|" field(part[3], "etp") "|" field(part[3], "ep")
    if (!(group in size)) groups[++group_count] = group
    member[group, ++size[group]] = c
  }
  for (g = 1; g <= group_count; g++) print_group(groups[g])
  print_errors()
}

function print_group(group,    part, n, i, pair, s, gain, expected, base, x, y) {
  split(group, part, "|")
  n = size[group]
  for (i = 1; i <= n; i++) base[i] = typical(member[group, i], "step", "baseline")
  printf "%-4s %-16s %4d %5d %6d | %9s %7s %8s %7s | %10.4f", part[1], part[2], part[3], part[4], n, leaving(part[2], part[4], 1),
    leaving(part[2], part[5], part[4]), leaving(part[2], part[5] * part[4], 1), leaving(part[2], part[3], 1), average(base, n)
  split("s1 s2", pair, " ")
  for (s = 1; s <= 2; s++) {
    for (i = 1; i <= n; i++) {
      gain[i] = speedup(member[group, i], "step", pair[s], "baseline")
      expected[i] = foreseen_speedup(member[group, i], "step", pair[s], "baseline")
    }
    x = average(gain, n); y = average(expected, n)
    printf " | %5.2f %5.2f %9.2f %6s", x, quantile(gain, n, 0), y, error_of(y, x)
  }
  print ""
}
