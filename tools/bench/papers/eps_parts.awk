# Prints the times of products divided by experts and by columns (EPS-MoE, section 4.3, Fig. 9) from rows of
# expert_products --parts. Variables: experts, inputs, outputs.

BEGIN { FS = "\t" }
$1 == "parts" {
  key = $3 SUBSEP $4
  if (!(key in seen)) { seen[key] = 1; keys[++key_count] = key }
  n = ++runs[key]
  whole[key, n] = $5; by_experts[key, n] = $6; by_columns[key, n] = $7
}

function typical(values, key,    r, list) {
  for (r = 1; r <= runs[key]; r++) list[r] = values[key, r]
  return median(list, runs[key])
}
function ratio(above, below, key,    r, list) {
  for (r = 1; r <= runs[key]; r++) list[r] = above[key, r] / below[key, r]
  return median(list, runs[key])
}
# Returns V(b)/V(a). V(a) and V(b) are the volumes that products read and write if they are split by experts (a) or by
# columns (b). By columns, each part writes the whole output.
function volumes(parts, rows,    m, read, written) {
  m = experts * rows; read = m * inputs + experts * inputs * outputs; written = m * outputs
  return (read + parts * written) / (read + written)
}

END {
  printf "Fig. 9: products of %d experts in N parts, seconds. T(b)/T(a): time by columns of the input (b) divided by that by\n",
    experts
  print "experts (a), by the formula and measured. The formula is the rate of one call for E/N experts, divided by that of one"
  print "call for all E experts (Fig. 5(b)). V(b)/V(a): ratio of the volumes that are read and written, by the formula"
  printf "%3s %6s %10s %10s %10s | %9s %9s | %9s\n", "N", "rows", "undivided", "experts", "columns", "T formula", "measured", "V(b)/V(a)"
  for (i = 1; i <= key_count; i++) {
    split(keys[i], part, SUBSEP)
    printf "%3d %6d %10.5f %10.5f %10.5f | %9.3f %9.3f | %9.3f\n", part[1], part[2], typical(whole, keys[i]),
      typical(by_experts, keys[i]), typical(by_columns, keys[i]), ratio(whole, by_experts, keys[i]),
      ratio(by_columns, by_experts, keys[i]), volumes(part[1], part[2])
  }
}
