#!/usr/bin/env bash
# Runs the commands of README.md and of the pages in docs/. docs_commands.txt defines how each command is handled. The test
# fails if a command is not listed there, or is listed but on no page.
. "$(dirname "$0")/cli.sh"

source_folder=$(cd "$CLI_TESTS/../.." && pwd)
table=$CLI_TESTS/docs_commands.txt

# Reads a page from standard input, and prints the text of its blocks as lines KIND, TAB, TEXT. KIND is "command",
# "output" or "other". A block is indented by four spaces. A block that begins with a command holds commands. A block
# that begins with "$ COMMAND" shows commands and their output in a terminal. A command ends at " #". For any
# other block, prints only the first line, with the kind "other".
lines_of_blocks() {
  awk -v command='^([A-Z_]+=[^ ]+ )*(hexad|mpirun|srun|sbatch|cp|cmake|ctest|export|expert_products|tools/|build/)' '
    function commands_of(text) {
      text = continued text
      continued = ""
      if (sub(/ *\\$/, " ", text)) { continued = text; return }
      gsub(/ +/, " ", text)
      kind = text ~ command ? "command" : "other"
      sub(/ #.*/, "", text)
      print kind "\t" text
    }
    /^```/ { fenced = !fenced }
    fenced || /^```/ { next }
    /^$/ { blank = 1; next }
    !/^    / { block = ""; listed = /^([-*]|[0-9]+\.) / || (listed && /^ /); blank = 0; next }
    { text = substr($0, 5) }
    block == "" && (listed || !blank) { next }
    block == "" { block = text ~ /^\$ / ? "terminal" : text ~ command ? "commands" : "other"
                  if (block == "other") print "other\t" text }
    block == "commands" { commands_of(text) }
    block == "terminal" { if (sub(/^\$ /, "", text)) commands_of(text); else print "output\t" text }'
}

# Writes the files that the pages expect in the current folder: links to the sources and to the built program, texts,
# recipes and datasets.
make_desk() {
  local text
  ln -s "$source_folder/recipes" "$source_folder/tools" .
  mkdir -p build/release/bin my-texts
  ln -s "$HEXAD" build/release/bin/hexad
  for text in verify parallelism traffic-and-memory architecture; do
    split -l 30 --additional-suffix=.txt "$source_folder/docs/$text.md" "my-texts/$text-"
  done
  cat >recipe.yaml <<'R'
include: tiny.yaml
batch:
  global: 32
R
  cp tiny.yaml my-model.yaml
  echo 'localhost slots=4' >hosts
  mkdir corpus
  seq -f '{"content": {"text": "line %g of a corpus of JSON lines"}}' 200 | gzip >corpus/a.jsonl.gz
  seq -f '{"prompt": "What follows %g?", "completion": "The next number."}' 200 >chats.jsonl
  cp -r "$source_folder/tests/golden/hf/mixtral" my-model
  seq -f '{"context": "After %g comes", "choices": ["the next number", "nothing"], "gold": 0}' 4 >questions.jsonl
  expect 0 "$HEXAD" prepare --input my-texts --output data/quickstart --vocab 1000
}

# `type_in COMMAND CODE [OUTPUT...]`: runs the command in this shell, whose exports persist. Expects the exit code and the
# lines OUTPUT.
type_in() {
  local command=$1 wanted=$2 began=$SECONDS line
  shift 2
  eval "$command" >out 2>err </dev/null
  code=$?
  [ "$code" -eq "$wanted" ] || failed "exit code $code, expected $wanted: $command"
  for line in "$@"; do
    grep -qxF -- "$line" out err || failed "the page shows the output line '$line', which this command does not print: $command"
  done
  printf '  %3d s  %s\n' $((SECONDS - began)) "$command"
}

# `follow COMMAND HOW [OUTPUT...]`: runs or skips the command, as the entry HOW of the table requires.
follow() {
  local command=$1 how=$2 wanted=0
  shift 2
  if [[ $how =~ ^exit\ ([0-9]+)(.*)$ ]]; then
    wanted=${BASH_REMATCH[1]} how=run${BASH_REMATCH[2]}
  fi
  case $how in
  "not run: "?*) echo "         not run  $command" ;;
  run) type_in "$command" "$wanted" "$@" ;;
  "run + "*) type_in "$command ${how#run + }" "$wanted" "$@" ;;
  "run s/"*) type_in "$(sed "${how#run }" <<<"$command")" "$wanted" "$@" ;;
  *) failed "docs_commands.txt: '$how', expected run, run + ARGUMENTS, run s/A/B/, exit N ... or not run: REASON" ;;
  esac
}

test_commands_of_the_pages_work() {
  local page kind text how line current="" n
  declare -A listed seen
  while IFS= read -r line; do
    case $line in
    "" | "# "*) ;;
    "["*"]") page=${line:1:-1} ;;
    *" => "*) listed["$page ${line%% => *}"]=${line#* => } ;;
    *) failed "docs_commands.txt: '$line', expected [PAGE] or COMMAND => HOW" ;;
    esac
  done <"$table"

  make_desk
  unset "${!OMPI_@}" OMP_NUM_THREADS  # the pages set the variables that their commands need
  PATH=$PWD/build/release/bin:$PATH
  # The README comes first, because its exports apply to the other pages. docs/profile.md precedes the other pages in docs,
  # because it writes the cluster.yaml that they read.
  for page in README.md CONTRIBUTING.md docs/profile.md $(cd "$source_folder" && ls docs/*.md | grep -vx docs/profile.md); do
    [ -z "${listed["$page *"]-}" ] || { seen["$page *"]=1; continue; }
    echo "$page"
    lines_of_blocks <"$source_folder/$page" >lines
    mapfile -t lines <lines
    for ((n = 0; n < ${#lines[@]}; n++)); do
      IFS=$'\t' read -r kind text <<<"${lines[n]}"
      [ "$kind" == output ] || text=$(sed -E 's/^ +| +$//g; s/ +/ /g' <<<"$text")
      [ "$kind" != output ] || continue
      how=${listed["$page $text"]-}
      [ -n "$how" ] || failed "$page: docs_commands.txt does not list this line, expected an entry: $text"
      seen["$page $text"]=1
      [ "$how" != "no command" ] || continue
      local shown=()
      while [[ ${lines[n + 1]-} == output* ]]; do
        n=$((n + 1))
        line=${lines[n]#output$'\t'}
        [ -z "$line" ] || [ "$line" == ... ] || shown+=("$line")
      done
      follow "$text" "$how" "${shown[@]}"
    done
  done
  for line in "${!listed[@]}"; do
    [ -n "${seen["$line"]-}" ] || failed "docs_commands.txt lists a command that is on no page: $line"
  done
}

run_tests "$@"
