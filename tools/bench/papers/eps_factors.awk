# Compares Table 5 of EPS-MoE (m = 3072, width 1536) with rows of moe_layer for one layer. Row 0 of that table has equal
# times of communication and computation, like this measurement. Schedules are named pn<groups>, followed by d for dense
# products and by fp8.

BEGIN {
  FS = "\t"
  # Rows without a limit on the GEMM's SMs, in ms. Table 5 lacks PN = 1 with dense fp8, and PN = 20 with grouped
  # products.
  paper["pn1"] = 5.698; paper["pn1fp8"] = 4.330; paper["pn1d"] = 5.620; paper["pn5"] = 4.837; paper["pn5fp8"] = 3.728
  paper["pn5d"] = 4.299; paper["pn5dfp8"] = 3.111; paper["pn20d"] = 4.855; paper["pn20dfp8"] = 3.465
}
{ read_row() }

# Returns the schedule with dense products that corresponds to a schedule with grouped products.
function dense_twin(s,    out) { out = s; return sub(/fp8$/, "dfp8", out) ? out : s "d" }

END {
  c = layers[1]
  printf "\nTable 5, %d tokens per rank; seconds, and speedup over the first row\n", field(c, "B")
  printf "%4s %-8s %-5s %9s %9s %9s %9s %9s\n", "PN", "products", "wire", "seconds", "measured", "predicted", "paper ms", "paper"
  for (w = 1; w <= schedule_count; w++) {
    s = schedules[w]
    printf "%4d %-8s %-5s %9.4f %9.2f %9.2f %9s %9s\n", substr(s, 3) + 0, s ~ /d/ ? "dense" : "grouped", s ~ /fp8/ ? "fp8" : "f32",
      typical(c, "forward", s), speedup(c, "forward", s, "pn1"), foreseen_speedup(c, "forward", s, "pn1"),
      s in paper ? sprintf("%.3f", paper[s]) : "-", s in paper ? sprintf("%.2f", paper["pn1"] / paper[s]) : "-"
  }
  printf "\n%-44s %9s %9s\n", "speedup of dense over grouped products", "paper", "measured"
  for (w = 1; w <= schedule_count; w++) {
    s = schedules[w]; d = dense_twin(s)
    if (s ~ /d/ || !(d in known)) continue
    printf "%-44s %9s %9.2f\n", sprintf("PN = %d, %s", substr(s, 3) + 0, s ~ /fp8/ ? "fp8" : "f32"),
      s in paper && d in paper ? sprintf("%.2f", paper[s] / paper[d]) : "-", speedup(c, "forward", d, s)
  }
}
