# Prints the tables of tools/bench/papers/eps_prefill.sh from its rows (prefill_rows.awk), next to Tables 1 to 4 of
# EPS-MoE. Values are medians over rounds.

BEGIN {
  FS = "\t"
  # Cells are in the order of the tokens of a prompt. Rows, divided by |, are in the order of the numbers of prompts.
  paper["deepseek-v2", "pn1"] = "+11.83 +11.02 +6.77 +5.13"
  paper["deepseek-v2", "pn5"] = "+21.81 +20.53 +16.89 +12.75"
  paper["deepseek-v2", "pn20"] = "+21.27 +18.05 +10.00 +11.60"
  paper["mixtral", "base"] = "-13.7 -9.5 -8.9 -8.3|-10.3 -9.4 -9.0|-9.5 -9.3|-9.6"
  paper["mixtral", "pn1"] = "-17.7 -18.9 -18.5 -15.7|-19.6 -19.2 -18.1|-19.7 -18.9|-19.5"
  paper["mixtral", "pn2"] = "-21.7 -22.7 -21.8 -17.7|-23.6 -23.0 -22.6|-23.4 -23.5|-24.3"
  paper["dbrx", "pn1"] = "-19.8 -21.8 -24.4 -25.1|-22.0 -24.2 -25.3 -25.7|-24.1 -25.7 -26.1"
  paper["dbrx", "pn2"] = "-22.7 -25.7 -28.6 -29.5|-25.3 -28.7 -30.0 -30.3|-28.7 -30.3 -30.5"
  paper["arctic", "pn4"] = "-0.26 -0.57|-2.15 -6.24"
  paper["arctic", "pn8"] = "-1.26 -0.96|-3.83 -6.64"
}

$1 != "run" {
  c = $1 SUBSEP $2 SUBSEP $4 SUBSEP $5 "x" $6
  seconds[c, ++rounds[c]] = $9
  ranks[$1, $2] = $3
}

# Returns the time to first token of the batch `b`, such as "2x64"; an empty text if it was not measured.
function ttft(m, layout, s, b,    c, r, list) {
  c = m SUBSEP layout SUBSEP s SUBSEP b
  if (!(c in rounds)) return ""
  for (r = 1; r <= rounds[c]; r++) list[r] = seconds[c, r]
  return median(list, rounds[c])
}
function rate(m, layout, s, b,    x, parts) {
  x = ttft(m, layout, s, b)
  split(b, parts, "x")
  return x == "" ? "" : ranks[m, layout] * parts[1] * parts[2] / x
}
# Returns the change from `base` to x; an empty text if either was not measured.
function change(x, base) { return x == "" || base == "" ? "" : x / base - 1 }
# Returns, for example, "+12.3% (+11.0)": a change in percent, and the paper's.
function cell(x, claim) { return x == "" ? "-" : sprintf("%+.1f%% (%s)", 100 * x, claim == "" ? "-" : claim) }
function of_paper(m, s, row, column,    rows, cells) {
  split(paper[m, s], rows, "|")
  split(rows[row], cells, " ")
  return cells[column]
}

function throughput_table(m, layout, batches, names, schedules,    n, k, i, w, b, s) {
  printf "\nTable 2, DeepSeek-V2's shape: tokens per second over one group with grouped products (paper's gain)\n"
  n = split(batches, b, " "); k = split(schedules, s, " ")
  split(names, paper_length, " ")
  printf "%-22s", "prompts x tokens"
  for (i = 1; i <= n; i++) printf " %16s", b[i] " (" paper_length[i] ")"
  printf "\n%-22s", "base, tokens/s"
  for (i = 1; i <= n; i++) printf " %16.0f", rate(m, layout, "base", b[i])
  print ""
  for (w = 1; w <= k; w++) {
    printf "%-22s", "PN = " substr(s[w], 3)
    for (i = 1; i <= n; i++)
      printf " %16s", cell(change(rate(m, layout, s[w], b[i]), rate(m, layout, "base", b[i])), of_paper(m, s[w], 1, i))
    print ""
  }
}

function row_name(i, w, s) {
  if (i > 1) return ""
  return w == 0 ? "base" : s == "base" ? "TP+EP" : "PN = " substr(s, 3)
}
# Prints a table of times to first token: the seconds of the base, and the change from the base for each schedule of
# `layout`.
function ttft_table(title, m, base_layout, layout, prompts, lengths, schedules,    p, t, s, rows, columns, k, i, j, w, b, x) {
  rows = split(prompts, p, " "); columns = split(lengths, t, " "); k = split(schedules, s, " ")
  printf "\n%s: seconds of the base, and changes (paper's change)\n%-10s %7s", title, "", "prompts"
  for (j = 1; j <= columns; j++) printf " %16s", t[j] " tokens"
  print ""
  for (w = 0; w <= k; w++)
    for (i = 1; i <= rows; i++) {
      printf "%-10s %7d", row_name(i, w, s[w]), p[i]
      for (j = 1; j <= columns; j++) {
        b = p[i] "x" t[j]
        x = ttft(m, base_layout, "base", b)
        if (w == 0) printf " %16s", x == "" ? "-" : sprintf("%.3f", x)
        else printf " %16s", cell(change(ttft(m, layout, s[w], b), x), of_paper(m, s[w], i, j))
      }
      print ""
    }
}

# Returns the largest rate of a model in a layout over all batches: of the base if `is_base`, otherwise of all other
# schedules.
function best(m, layout, is_base,    c, parts, x, most) {
  for (c in rounds) {
    split(c, parts, SUBSEP)
    if (parts[1] != m || parts[2] != layout || (parts[3] == "base") != is_base) continue
    x = rate(m, layout, parts[3], parts[4])
    if (x > most) most = x
  }
  return most
}
function best_row(text, m, base_layout, layout, claim,    a, b) {
  a = best(m, base_layout, 1); b = best(m, layout, 0)
  if (a && b) printf "%-14s %12.0f %12.0f %+9.1f%% %9s\n", text, a, b, 100 * (b / a - 1), claim
}

function chunk_table(m, b,    parts, list, n, i, x, layout) {
  split(b, parts, "x")
  printf "\nChunked prefill, DeepSeek-V2's shape, %d prompts of %d tokens: seconds to the first tokens\n", parts[1], parts[2]
  printf "%-24s %9s %9s %9s %9s %14s\n", "tokens of a prompt/pass", "base", "PN = 1", "PN = 5", "PN = 20", "PN = 5 / base"
  n = split(parts[2] " 256 128 64", list, " ")
  for (i = 1; i <= n; i++) {
    layout = i == 1 ? "dp+ep" : "chunk" list[i]
    x = ttft(m, layout, "base", b)
    if (x == "") continue
    printf "%-24d %9.3f %9.3f %9.3f %9.3f %+13.1f%%\n", list[i], x, ttft(m, layout, "pn1", b), ttft(m, layout, "pn5", b),
      ttft(m, layout, "pn20", b), 100 * (ttft(m, layout, "pn5", b) / x - 1)
  }
}

END {
  print "Table 1: best tokens per second of the base and of EPS-MoE"
  printf "%-14s %12s %12s %10s %9s\n", "", "base", "EPS-MoE", "gain", "paper"
  best_row("DeepSeek-V2", "deepseek-v2", "dp+ep", "dp+ep", "+21.8%")
  best_row("Mixtral", "mixtral", "tp+tp", "tp+ep", "+32.2%")
  best_row("DBRX", "dbrx", "tp+tp", "tp+ep", "+52.4%")
  throughput_table("deepseek-v2", "dp+ep", "16x64 8x128 4x256 2x512", "1K 2K 4K 8K", "pn1 pn5 pn20")
  ttft_table("Table 3, Mixtral's shape", "mixtral", "tp+tp", "tp+ep", "2 4 8 16", "64 128 256 512", "base pn1 pn2")
  ttft_table("Table 3, DBRX's shape", "dbrx", "tp+tp", "tp+ep", "2 4 8", "16 32 64 128", "base pn1 pn2")
  ttft_table("Table 4, Arctic's shape", "arctic", "dp+ep", "dp+ep", "2 4", "64 128", "pn1 pn4 pn8")
  chunk_table("deepseek-v2", "2x512")
}
