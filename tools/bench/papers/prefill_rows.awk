# Converts the output of `hexad bench prefill --json` to rows with fields separated by tabs: model (a variable), layout
# (a variable), data-parallel ranks, schedule, prompts of a data-parallel rank, tokens of a prompt, tokens of a prompt
# in a pass, round, seconds to the first tokens.

BEGIN { OFS = "\t" }
function value() { gsub(/[",]/, "", $2); return $2 }
$1 == "\"data_parallel\":" { dp = value() }
$1 == "\"schedule\":" { schedule = value() }
$1 == "\"prompts\":" { prompts = value() }
$1 == "\"length\":" { tokens = value() }
$1 == "\"pass_length\":" { pass = value() }
$1 == "]" || $1 == "]," { inside = 0 }
inside { sub(/,/, "", $1); print model, layout, dp, schedule, prompts, tokens, pass, ++round, $1 }
$1 == "\"ttft_seconds\":" { inside = 1; round = 0 }
