# Prints whether groups of experts save time (EPS-MoE, Table 7 and Fig. 10), from rows of moe_layer: the schedule pn1 is
# undivided, cutN has N groups in sequence, and pnN has N groups that overlap.

BEGIN { FS = "\t"; most_e0 = 0.32; most_e1 = 0.03 }  # the bounds of the paper's test
{ read_row() }

# Returns the extra time of n groups in sequence, as a share of the time of one group. `values` has the times of
# communication or of products.
function extra(values, c, n,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = values[c, "forward", "cut" n, r] / values[c, "forward", "pn1", r] - 1
  return median(list, rounds)
}
function changed(c, n) { return 1 / speedup(c, "forward", "pn" n, "pn1") - 1 }
function foreseen_change(c, n) {
  return foreseen(c, "forward", "pn1") ? 1 / foreseen_speedup(c, "forward", "pn" n, "pn1") - 1 : ""
}
# Returns the rate of the products of one group, in FLOP/s of a rank.
function rate_of(c,    r, flops, list) {
  flops = 6 * field(c, "k") * field(c, "B") * field(c, "M") * field(c, "H")
  for (r = 1; r <= rounds; r++) list[r] = flops / computation[c, "forward", "pn1", r]
  return median(list, rounds)
}
function percent(x) { return x == "" ? "-" : sprintf("%+.1f%%", 100 * x) }
# Returns the least number of tokens m from which on `pays` is true for all layers; "none" if `pays` is false for the
# largest m.
function from(pays,    i, m) {
  m = "none"
  for (i = layer_count; i >= 1 && pays[i]; i--) m = field(layers[i], "B")
  return m
}

# Sorts the layers by m, because rows of an interrupted run may be in another order.
function sort_layers(    i, j, c) {
  for (i = 2; i <= layer_count; i++) {
    c = layers[i]
    for (j = i - 1; j >= 1 && field(layers[j], "B") > field(c, "B"); j--) layers[j + 1] = layers[j]
    layers[j + 1] = c
  }
}

END {
  sort_layers()
  for (i = 1; i <= layer_count; i++) fastest = max(fastest, rate_of(layers[i]))
  printf "\nTable 7: forward of a layer undivided (base) and in N groups; conditions: e0 <= %.2f and e1 <= %.2f; changes of\n",
    most_e0, most_e1
  print "the time by groups, measured and predicted by the simulator; products: their rate, compared with the highest one here"
  printf "%3s %6s %8s %8s | %9s %9s | %10s %6s | %8s %9s | %8s\n", "N", "m", "e0", "e1", "base s", "groups s", "conditions",
    "pays", "change", "predicted", "products"
  for (w = 1; w <= schedule_count; w++) {
    if (schedules[w] !~ /^cut/) continue
    n = substr(schedules[w], 4); right = foreseen_right = foreseen_count = 0
    for (i = 1; i <= layer_count; i++) {
      c = layers[i]
      e0 = extra(communication, c, n); e1 = extra(computation, c, n)
      holds[i] = e0 <= most_e0 && e1 <= most_e1
      x = changed(c, n); y = foreseen_change(c, n)
      pays[i] = x < 0; products[i] = rate_of(c) / fastest; compute_bound[i] = products[i] >= 0.9
      right += holds[i] == pays[i]
      if (y != "") { foreseen_count++; foreseen_right += (y < 0) == pays[i]; foreseen_pays[i] = y < 0 }
      printf "%3d %6d %8.2f %8.2f | %9.4f %9.4f | %10s %6s | %8s %9s | %7.0f%%\n", n, field(c, "B"), e0, e1,
        typical(c, "forward", "pn1"), typical(c, "forward", "pn" n), holds[i] ? "hold" : "no", pays[i] ? "yes" : "no",
        percent(x), percent(y), 100 * products[i]
    }
    found = found sprintf("N = %d: groups pay from m = %s on (m0), by the conditions from %s, by the simulator from %s\n", n,
      from(pays), from(holds), foreseen_count == layer_count ? from(foreseen_pays) : "-")
    found = found sprintf("  right about paying: the conditions %d of %d, the simulator %s\n", right, layer_count,
      foreseen_count ? foreseen_right " of " foreseen_count : "-")
  }
  printf "\nFig. 10 (paper, DeepSeek-V2 on 8 GPUs: m0 = 1700)\n%s", found
  printf "products reach 90%% of their highest rate from m = %s on (m1)\n", from(compute_bound)
  print_token_ranks()
  print_errors()
}
