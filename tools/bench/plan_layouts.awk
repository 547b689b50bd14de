# Prints the layouts of `hexad plan --json`, the best first. Columns, separated by a tab: seconds of a step, and
# settings in the form key=value.
/"capacity_gain": \{/ { exit }  # the layouts of capacity_gain are not in the list
/"settings": \{/ { inside = 1; settings = ""; next }
inside && /\}/ { inside = 0 }
inside {
  split($0, part, "\"")
  settings = settings (settings == "" ? "" : " ") part[2] "=" part[4]
}
/"step_seconds":/ {
  sub(/.*: */, "")
  sub(/,$/, "")
  print $0 "\t" settings
}
