# This file is sourced by tests that read the commands of README.md, CONTRIBUTING.md and the pages in docs/. The table
# tests/cli/docs_commands.txt defines how each command is handled. `failed TEXT...` must be defined.
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command_table=$source_folder/tests/cli/docs_commands.txt

# Reads a page from standard input, and prints the text of its blocks as lines KIND, TAB, TEXT. KIND is "command",
# "output" or "other". A block is indented by four spaces. A block that begins with a command holds commands. A block
# that begins with "$ COMMAND" shows commands and their output in a terminal. A command ends at " #". For any other
# block, prints only the first line, with the kind "other". In lines that are not output, each run of spaces becomes one
# space, and spaces at the ends are removed.
lines_of_blocks() {
  awk -v command='^([A-Z_]+=[^ ]+ )*(hexad|mpirun|srun|sbatch|cp|cmake|ctest|export|expert_products|tools/|build/)' '
    function print_line(kind, text) {
      gsub(/ +/, " ", text)
      gsub(/^ | $/, "", text)
      print kind "\t" text
    }
    function commands_of(text) {
      text = continued text
      continued = ""
      if (sub(/ *\\$/, " ", text)) { continued = text; return }
      gsub(/ +/, " ", text)
      kind = text ~ command ? "command" : "other"
      sub(/ #.*/, "", text)
      print_line(kind, text)
    }
    /^```/ { fenced = !fenced }
    fenced || /^```/ { next }
    /^$/ { blank = 1; next }
    !/^    / { block = ""; listed = /^([-*]|[0-9]+\.) / || (listed && /^ /); blank = 0; next }
    { text = substr($0, 5) }
    block == "" && (listed || !blank) { next }
    block == "" { block = text ~ /^\$ / ? "terminal" : text ~ command ? "commands" : "other"
                  if (block == "other") print_line("other", text) }
    block == "commands" { commands_of(text) }
    block == "terminal" { if (sub(/^\$ /, "", text)) commands_of(text); else print "output\t" text }'
}

# Reads the table. Sets handling["PAGE LINE"] to the entry of a line, and handling["PAGE *"] to the entry of a whole
# page.
read_command_table() {
  local line page="" entry='^(run|exit [0-9]+)( \+ .+| s/.+)?$|^not run: .|^no command$'
  declare -gA handling=()
  while IFS= read -r line; do
    case $line in
    "" | "# "*) ;;
    "["*"]") page=${line:1:-1} ;;
    *" => "*)
      [[ ${line#* => } =~ $entry ]] || failed "docs_commands.txt: '$line', expected after =>: run, run + ARGUMENTS," \
        "run s/A/B/, exit N, exit N + ARGUMENTS, exit N s/A/B/, not run: REASON or no command"
      [[ $line != "* => "* || $line == "* => not run: "* ]] ||
        failed "docs_commands.txt: '$line', expected not run: REASON for a whole page"
      handling["$page ${line%% => *}"]=${line#* => }
      ;;
    *) failed "docs_commands.txt: '$line', expected [PAGE] or LINE => HOW" ;;
    esac
  done <"$command_table"
}

# `for_each_line ACTION`: reads the table. Calls `ACTION PAGE LINE HOW [OUTPUT...]` for each command of the pages, and
# for the first line of each block without commands. HOW is the entry of the line; it is empty if the table has none.
# OUTPUT are the lines that the page shows below a command. For a page that has an entry "*", calls only `ACTION PAGE
# "*" HOW`. README.md comes first, because its exports apply to the other pages. docs/profile.md precedes the other
# pages in docs, because it writes the cluster.yaml that they read.
for_each_line() {
  local action=$1 page kind text n lines output
  read_command_table
  for page in README.md CONTRIBUTING.md docs/profile.md $(cd "$source_folder" && ls docs/*.md | grep -vx docs/profile.md); do
    if [ -n "${handling["$page *"]-}" ]; then
      "$action" "$page" "*" "${handling["$page *"]}"
      continue
    fi
    mapfile -t lines < <(lines_of_blocks <"$source_folder/$page")
    for ((n = 0; n < ${#lines[@]}; n++)); do
      IFS=$'\t' read -r kind text <<<"${lines[n]}"
      [ "$kind" != output ] || continue
      output=()
      while [[ ${lines[n + 1]-} == output* ]]; do
        n=$((n + 1))
        output+=("${lines[n]#output$'\t'}")
      done
      "$action" "$page" "$text" "${handling["$page $text"]-}" "${output[@]}"
    done
  done
}

# Compares the pages with the table. Prints each line of a page without an entry, and each entry without a line. Returns
# 1 if there are any.
check_command_table() {
  local entry problems=()
  declare -A seen=()
  note_line() {
    seen["$1 $2"]=1
    [ -n "$3" ] || problems+=("$1: docs_commands.txt does not list this line, expected an entry: $2")
  }
  for_each_line note_line
  for entry in "${!handling[@]}"; do
    [ -n "${seen["$entry"]-}" ] || problems+=("docs_commands.txt lists a line that is on no page: $entry")
  done
  if [ ${#problems[@]} -gt 0 ]; then
    printf '%s\n' "${problems[@]}"
    return 1
  fi
  echo "docs_commands.txt has the ${#handling[@]} commands and other blocks of the pages"
}
