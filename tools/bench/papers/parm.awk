# Prints the tables of tools/bench/papers/parm.sh. Input: its choices, and rows of moe_layer.

BEGIN {
  FS = "\t"
  # Values of Table IV, testbed B, for 8 GPUs and 32 GPUs.
  paper["s1", 2, 2] = "2.62 2.46"; paper["s1", 2, 4] = "3.37 2.85"; paper["s1", 4, 2] = "4.18 4.12"; paper["s1", 4, 4] = "5.77 5.08"
  paper["s2", 2, 2] = "2.42 2.20"; paper["s2", 2, 4] = "3.05 2.44"; paper["s2", 4, 2] = "3.58 3.81"; paper["s2", 4, 4] = "5.38 4.82"
  paper["parm", 2, 2] = "2.62 2.46"; paper["parm", 2, 4] = "3.37 2.85"; paper["parm", 4, 2] = "4.18 4.12"; paper["parm", 4, 4] = "5.77 5.08"
}

$1 == "choice" { formula[$2] = $3 == "S1" ? "s1" : "s2"; next }
{ read_row() }

# Returns the schedule to which a row of the table refers for this layer.
function schedule_of(row, c) { return row == "parm" ? formula[c] : row }
function simulated(c) { return foreseen(c, "step", "s1") <= foreseen(c, "step", "s2") ? "s1" : "s2" }
function loss_of(c, s,    other) {
  other = s == "s1" ? "s2" : "s1"
  return max(0, speedup(c, "step", other, s) - 1)
}
# Returns the f32 bytes that a rank sends in the forward of equation 1.
function equation_1(c,    blm, y, esp, ep) {
  blm = field(c, "S") * field(c, "B") * field(c, "M"); esp = field(c, "etp"); ep = field(c, "ep")
  y = blm * field(c, "k") * field(c, "model.moe.capacity_factor") * esp
  return 4 * ((esp - 1) * blm + 2 * y * (ep - 1) / ep + 2 * y * (esp - 1) / esp)
}

END {
  print "Speedup over the baseline, whole step (forward and backward), mean over the layers; predicted by the simulator"
  printf "%-5s %4s %5s %6s | %7s %7s | %8s %9s %6s | %5s\n", "", "N_MP", "N_ESP", "layers", "8 GPUs", "32 GPUs", "measured",
    "predicted", "error", "least"
  split("s1 s2 parm", rows, " ")
  split("1 2 4", sizes, " ")
  for (w = 1; w <= 3; w++)
    for (a = 1; a <= 3; a++)
      for (b = 1; b <= 3; b++) {
        mp = sizes[a]; esp = sizes[b]; n = 0; least = ""
        for (i = 1; i <= layer_count; i++) {
          c = layers[i]
          if (field(c, "tp") != mp || field(c, "etp") != esp) continue
          s = schedule_of(rows[w], c)
          gain[++n] = speedup(c, "step", s, "baseline"); expected[n] = foreseen_speedup(c, "step", s, "baseline")
          if (least == "" || gain[n] < least) least = gain[n]
        }
        if (!n) continue
        x = average(gain, n); y = average(expected, n)
        split((rows[w], mp, esp) in paper ? paper[rows[w], mp, esp] : "- -", of_paper, " ")
        printf "%-5s %4d %5d %6d | %7s %7s | %8.2f %9.2f %6s | %5.2f\n", rows[w], mp, esp, n, of_paper[1], of_paper[2], x, y,
          error_of(y, x), least
      }

  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    bytes = max(bytes, abs((ep_bytes[c, "forward", "baseline"] + tp_bytes[c, "forward", "baseline"]) / equation_1(c) - 1))
    if (field(c, "tp") == 1) continue
    m++
    lost[m] = loss_of(c, formula[c]); lost_simulated[m] = loss_of(c, simulated(c))
    worse[m] = max(loss_of(c, "s1"), loss_of(c, "s2"))
    if (lost[m] <= 0.05) near++
    if (lost_simulated[m] <= 0.05) near_simulated++
    saa[m] = speedup(c, "step", "s2", "s2aas") - 1
    if (typical(c, "step", "s2aas") >= 0.06) long_saa[++long_steps] = saa[m]
  }
  printf "\n%-52s %10s %10s\n", "", "paper", "measured"
  printf "%-52s %10s %9.1f%%\n", "baseline: largest deviation of bytes from equation 1", "", 100 * bytes
  printf "%-52s %10s %9.0f%%\n", "Algorithm 1 within 5% of the faster of S1 and S2", "", 100 * near / m
  printf "%-52s %10s %9.0f%%\n", "  the simulator's choice", "", 100 * near_simulated / m
  printf "%-52s %10s %9.1f%%\n", "  time lost, mean", "", 100 * average(lost, m)
  printf "%-52s %10s %9.1f%%\n", "  by the simulator's choice", "", 100 * average(lost_simulated, m)
  printf "%-52s %10s %9.1f%%\n", "  by always choosing the slower one", "8 - 10.5%", 100 * average(worse, m)
  printf "%-52s %10s %9.1f%%\n", "S2: gain of SAA over sequential collectives", "1.1%", 100 * average(saa, m)
  printf "%-52s %10s %9.1f%%\n", "  in steps of 60 ms or more (" long_steps + 0 ")", "", 100 * average(long_saa, long_steps)
  print_errors()
  print_figure_1()
  print_figure_7()
}

# Returns the share of communication in a step of the baseline: seconds of communication on the busiest rank, divided by
# seconds of the step on the slowest rank.
function share_of_communication(c,    r, list) {
  for (r = 1; r <= rounds; r++)
    list[r] = (communication[c, "forward", "baseline", r] + communication[c, "backward", "baseline", r]) / took(c, "step", "baseline", r)
  return median(list, rounds)
}

# Prints the number of layers by the share of communication, as Fig. 1 draws it.
function print_figure_1(    i, x, n, share, layers_of, tenth) {
  for (i = 1; i <= layer_count; i++) {
    x = share_of_communication(layers[i])
    share[++n] = x; layers_of[min(9, int(10 * x))]++
  }
  if (!n) return
  printf "\nFig. 1: share of communication in a step of the baseline, %.1f to %.1f%%, median %.1f%% (paper: 67.9 to 96.0%%)\n",
    100 * quantile(share, n, 0), 100 * quantile(share, n, 1), 100 * median(share, n)
  for (tenth = min(9, int(10 * quantile(share, n, 0))); tenth <= 9; tenth++)
    printf "%3d to %3d%%  %3d layers\n", 10 * tenth, 10 * tenth + 10, layers_of[tenth]
}

# Prints the number of layers by the speedup of Parm, as Fig. 7 draws it.
function print_figure_7(    i, c, n, x, gain, layers_of, half, above) {
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    if (field(c, "tp") != 4 || field(c, "etp") != 4) continue
    x = speedup(c, "step", formula[c], "baseline")
    gain[++n] = x; layers_of[int(2 * x)]++
    if (x > 4) above++
  }
  if (!n) return
  printf "\nFig. 7, N_MP = N_ESP = 4: Parm over the baseline, %.2f on average (paper: 4.91), %.2f to %.2f\n", average(gain, n),
    quantile(gain, n, 0), quantile(gain, n, 1)
  printf "above 4: %.0f%% of %d layers (paper: around 89%%)\n", 100 * above / n, n
  for (half = int(2 * gain[1]); half <= int(2 * gain[n]); half++)
    printf "%4.1f to %4.1f  %3d layers\n", half / 2, half / 2 + 0.5, layers_of[half]
}
