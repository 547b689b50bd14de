# Functions that read rows of train_schedules and compute values for the tables of whole steps. Each row begins with a
# case. Parameters: c is a case, s is a schedule, r is a round. Medians are over rounds. Ratios compare values of the
# same round.

BEGIN {
  FS = "\t"
  names = "step passes forward layer predicted forward_exchange a2a exchange exposed tokens peak"
  class_count = split("control tp ep pp cp dp", classes, " ")
  for (i = 1; i <= class_count; i++) names = names " " classes[i] "_bytes " classes[i] "_seconds " classes[i] "_waited"
  name_count = split(names, fields, " ")
}

$1 == "run" { next }  # a line that describes the run of the following rows

function read_step(    c, s, i) {
  c = $1; s = $3
  if (!(c in seen)) { seen[c] = 1; cases[++case_count] = c }
  if ($2 == "chosen") { chosen[c, s] = $4; return }
  if (!(s in known)) { known[s] = 1; schedules[++schedule_count] = s }
  if ($2 > rounds) rounds = $2
  for (i = 1; i <= name_count; i++) value[c, s, $2, fields[i]] = $(i + 3)
}

function typical(c, s, name,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = value[c, s, r, name]
  return median(list, rounds)
}
# Returns the column `name` as a share of the step.
function share(c, s, name,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = value[c, s, r, name] / value[c, s, r, "step"]
  return median(list, rounds)
}
# Returns the column `name` of the schedule `reference` divided by the column of `s`.
function speedup(c, s, reference, name,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = value[c, reference, r, name] / value[c, s, r, name]
  return median(list, rounds)
}

# Returns the number of layers times the number of micro-batches of a rank.
function passes_of(c) { return int(typical(c, schedules[1], "passes") / typical(c, schedules[1], "layer") + 0.5) }
function is_predicted(c, s) { return value[c, s, 1, "predicted"] != "-" }
# Returns the predicted seconds of a step: the measured time of the first schedule outside its passes, plus the
# predicted time of the passes.
function foreseen_step(c, s) {
  return typical(c, schedules[1], "step") - typical(c, schedules[1], "passes") + passes_of(c) * value[c, s, 1, "predicted"]
}

function percent(x) { return sprintf("%.0f%%", 100 * x) }
function error_of(predicted, measured) { return sprintf("%+.0f%%", 100 * (predicted / measured - 1)) }
# Returns the predicted seconds of one layer, and of a step, with their errors. With `alone`, returns only the seconds
# and the error of the layer. `alone` is for systems with another layout or model, whose step cannot be derived from a
# step of the first schedule.
function predictions(c, s, alone,    layer, step) {
  if (!is_predicted(c, s)) return sprintf("%8s %6s %8s %6s", "-", "-", "-", "-")
  layer = value[c, s, 1, "predicted"]
  if (alone) return sprintf("%8.4f %6s %8s %6s", layer, error_of(layer, typical(c, s, "layer")), "-", "-")
  step = foreseen_step(c, s)
  layer_errors[++error_count] = abs(layer / typical(c, s, "layer") - 1)
  step_errors[error_count] = abs(step / typical(c, s, "step") - 1)
  return sprintf("%8.4f %6s %8.3f %6s", layer, error_of(layer, typical(c, s, "layer")), step, error_of(step, typical(c, s, "step")))
}
function print_errors() {
  if (!error_count) return
  printf "error of the predictions over %d medians: a layer's passes %s, steps %s (median)\n", error_count,
    percent(median(layer_errors, error_count)), percent(median(step_errors, error_count))
}
function abs(x) { return x < 0 ? -x : x }
