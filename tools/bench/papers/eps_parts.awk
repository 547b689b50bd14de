# Prints the two ways to divide products (EPS-MoE, section 4.3, Fig. 9) from rows of expert_products --parts, for 20 experts
# of 512 inputs and 1536 outputs in f32.

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
# Returns V(b)/V(a): the bytes that products read and write, split by columns and by experts.
function volumes(parts, rows,    m, inputs, outputs, weights) {
  m = 20 * rows; inputs = m * 512; outputs = m * 1536; weights = 20 * 512 * 1536
  return (inputs + weights + parts * outputs) / (inputs + weights + outputs)
}

END {
  print "Fig. 9: products of 20 experts in N parts, seconds; T(b)/T(a): time by columns (b) divided by that by experts (a), by"
  print "the formula (from the rates of E and of E/N experts) and measured; V(b)/V(a): bytes read and written, by the formula"
  printf "%3s %6s %10s %10s %10s | %9s %9s | %9s\n", "N", "rows", "undivided", "experts", "columns", "T formula", "measured", "V(b)/V(a)"
  for (i = 1; i <= key_count; i++) {
    split(keys[i], part, SUBSEP)
    printf "%3d %6d %10.5f %10.5f %10.5f | %9.3f %9.3f | %9.3f\n", part[1], part[2], typical(whole, keys[i]),
      typical(by_experts, keys[i]), typical(by_columns, keys[i]), ratio(whole, by_experts, keys[i]),
      ratio(by_columns, by_experts, keys[i]), volumes(part[1], part[2])
  }
}
